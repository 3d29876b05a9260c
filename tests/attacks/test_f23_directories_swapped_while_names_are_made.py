"""A denied name, and the directories around it exchanged, moved and linked all the while: whoever judges the directory
first and the name later makes it after all."""

import contextlib
import os
import threading

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


# What is moved is looked at and moved by its name: in between the warden of another run puts a directory there, which
# it may move so. By somebody outside here, who does the same.
COMING = """
import time
write("src/begun")
end = time.monotonic() + 0.4
def coming():
    while time.monotonic() < end:
        try:
            os.rename("coming", "conf")
            return os.stat("conf/app.json")
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    raise PermissionError(errno.EACCES, "")
attempt("a directory that comes meanwhile", coming)
"""


def prepare_coming(ground: Ground) -> list[str]:
    ground.file("ws/gone/app.json")
    gone, coming = ground.workspace / "gone", ground.workspace / "coming"

    def come_and_go(stop: threading.Event) -> None:
        while not stop.wait(0.001) and not (ground.workspace / "src" / "begun").exists():
            pass
        while not stop.is_set():
            with contextlib.suppress(OSError):  # it has been moved
                gone.rename(coming)
                coming.rename(gone)

    ground.thread(come_and_go)
    return []


def test_what_comes_to_the_name_of_what_is_moved_is_judged_too(field: Field) -> None:
    field.repels(
        COMING, prepare_coming, denied=lambda ground: {"deny_write": (str(ground.workspace / "conf*" / "app.json"),)}
    )


# A directory is replaced by a run that began before it was there, and so does not hold it in its place. By somebody
# outside here.
REPLACED = """
import time
def said(word):
    open("src/" + word, "w").close()
    while os.path.exists("src/" + word):
        time.sleep(0.001)
def linked():
    os.mkdir("src/evil")
    write("src/evil/rules")
    os.symlink("src/evil", "held")
    os.stat("held/rules")
said("replace")
attempt("in the one that stands there now", lambda: write("held/rules"))
said("remove")
attempt("by a link in its place", linked)
"""


def prepare_replaced(ground: Ground) -> list[str]:
    held = ground.workspace / "held"
    held.mkdir()

    def replace(stop: threading.Event) -> None:
        while not stop.wait(0.001):
            for word in ("replace", "remove"):
                said = ground.workspace / "src" / word
                if said.exists():
                    held.rename(ground.workspace / f"before-{word}")
                    if word == "replace":
                        held.mkdir()
                        os.chown(held, ground.uid, ground.gid)
                    said.unlink()

    ground.thread(replace)
    return []


def test_in_a_directory_that_another_run_put_there_the_name_is_denied_too(field: Field) -> None:
    denied = "rules" if field.walls.kind == "view" else "r[u]les"  # by name nothing new is made there
    field.repels(
        REPLACED, prepare_replaced, denied=lambda ground: {"deny_write": (str(ground.workspace / "held" / denied),)}
    )
