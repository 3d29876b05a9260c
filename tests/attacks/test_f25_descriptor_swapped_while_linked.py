"""F25: a file is given another name by a descriptor, and the descriptor is another file's by the time it is linked.

Where the warden judges what may be written (hundreds of files, or no view), another name of a file that is kept would
be written in its place. The files are told apart by their numbers, so it is seen which one was linked.
"""

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = """
import threading, time
def swapped(path, name):
    kept, free, over = os.open(path, os.O_PATH), os.open("src/free", os.O_RDWR), []
    link = os.dup(free)
    def swap():
        while not over:
            os.dup2(kept, link)
            os.dup2(free, link)
    thread = threading.Thread(target=swap)
    thread.start()
    until = time.monotonic() + 2
    try:
        while time.monotonic() < until:
            if libc.linkat(-100, b"/proc/self/fd/%d" % link, -100, name.encode(), 0x400):
                continue
            if os.stat(name).st_ino == os.stat(path).st_ino:
                return write(name, flags=0)
            os.unlink(name)
        raise PermissionError(errno.EACCES, "")
    finally:
        over.append(1)
        thread.join()
attempt("one of many", lambda: swapped("d/7", "src/other"))
attempt("configuration of git", lambda: swapped(".git/config", "src/another"))
"""
MANY = 300  # more than the mounts take


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    ground.file("ws/src/free")
    for number in range(MANY):
        ground.file(f"ws/d/{number}")
    return []


def test_a_descriptor_is_linked_as_it_was_judged(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_write": tuple(str(ground.workspace / "d" / str(one)) for one in range(MANY))},
    )
