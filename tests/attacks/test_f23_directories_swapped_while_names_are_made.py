"""A denied name, and the directories around it exchanged, moved and linked all the while: whoever judges the directory
first and the name later makes it after all."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import threading, time
end = time.monotonic() + 0.5
seen = []
def swapping():
    while time.monotonic() < end:
        for one, other in (("free", "held"), ("held", "free")):
            try:
                syscall(NR.renameat2, -100, one.encode(), -100, other.encode(), 2)
            except OSError:
                pass
def linking():
    while time.monotonic() < end:
        for target in ("free", "held"):
            try:
                os.symlink(target, "src/new")
                os.replace("src/new", "src/link")
            except OSError:
                pass
def making():
    while time.monotonic() < end:
        for path in ("free/rules", "src/link/rules", "held/rules", "held/../held/rules"):
            try:
                write(path)
                os.rename(path, "held/rules")
                seen.append(os.stat("held/rules"))  # at some moment; the next swap may take it away
            except OSError:
                pass
threads = [threading.Thread(target=work) for work in (swapping, linking, making, making)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
def there():
    if not seen:
        raise OSError(errno.ENOENT, "never")
attempt("the name is there", there)
"""


def prepare(ground: Ground) -> list[str]:
    for name in ("free", "held"):
        (ground.workspace / name).mkdir()
    (ground.workspace / "src" / "link").symlink_to("../free")
    return []


def test_a_denied_name_is_not_made_in_the_midst_of_swaps(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_write": (str(ground.workspace / "held" / "rules"),)})
