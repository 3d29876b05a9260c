"""F60: hundreds of files that may not be written: so many are not mounted over, the warden holds them by their paths.

Every way of changing one is tried, by every spelling, through its directory, and below a directory that is among them.
"""

import os

from tests.attacks.conftest import Field, Ground

from ringfence.plan import crowds

PROGRAM = """
import threading, time
FILES = "d/deep"
def opened(path, flags):
    os.close(os.open(path, flags))
def through(path):
    fd = os.open(path, os.O_PATH)
    os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY))
def by_link(target, name):
    os.symlink(target, name)
    write(name, flags=0)
def of_directory(name, flags):
    fd = os.open(FILES, os.O_RDONLY)
    os.close(os.open(name, flags, dir_fd=fd))
def hard_link():
    os.link(f"{FILES}/9", "other")
    write("other", flags=0)
def by_descriptor():
    fd = os.open(f"{FILES}/10", os.O_RDONLY)
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"another", 0x400))
    write("another", flags=0)
def replaced():
    write("mine")
    os.rename("mine", f"{FILES}/11")
def exchanged():
    write("mine2")
    syscall(NR.renameat2, -100, b"mine2", -100, b"d/deep/12", 2)
def carried():
    os.rename("d", "e")
    os.mkdir("d")
    os.rename("e/deep", "d/deep")
    write("d/deep/13", flags=0)
def carried_by_halves():
    os.rename("d/deep", "d/deeper")
    write("d/deeper/14", flags=0)
def linked_directory():
    os.rename("d", "e2")
    os.symlink("e2", "d")
    write("d/deep/15", flags=0)
def rewritten():
    "A path that another thread changes while it is judged."
    text = ctypes.create_string_buffer(b"d/deep/17")
    over = []
    write("d/free/17")
    before = os.stat("d/deep/17").st_size
    def change():
        while not over:
            text.raw = b"d/free/17\\0"
            text.raw = b"d/deep/17\\0"
    changer = threading.Thread(target=change)
    changer.start()
    until = time.monotonic() + 0.5
    try:
        while time.monotonic() < until:
            fd = libc.open(text, os.O_WRONLY | os.O_APPEND)
            if fd >= 0:
                os.write(fd, b"x")
                os.close(fd)
            if os.stat("d/deep/17").st_size != before:
                return
        raise PermissionError(errno.EACCES, "")
    finally:
        over.append(1)
        changer.join()
attempt("written", lambda: write(f"{FILES}/0", flags=0))
attempt("written, made if missing", lambda: write(f"{FILES}/0"))
attempt("appended", lambda: opened(f"{FILES}/1", os.O_WRONLY | os.O_APPEND))
attempt("read and written", lambda: opened(f"{FILES}/1", os.O_RDWR))
attempt("emptied on opening", lambda: opened(f"{FILES}/2", os.O_RDONLY | os.O_TRUNC))
attempt("emptied", lambda: os.truncate(f"{FILES}/2", 0))
attempt("absolute", lambda: opened(f"{WS}/{FILES}/3", os.O_WRONLY))
attempt("dots", lambda: opened(f"{WS}/d/../d/./deep/3", os.O_WRONLY))
attempt("by its directory", lambda: of_directory("3", os.O_WRONLY))
attempt("through /proc", lambda: opened(f"/proc/self/cwd/{FILES}/3", os.O_WRONLY))
attempt("opened anew", lambda: through(f"{FILES}/3"))
attempt("by a link", lambda: by_link(f"{FILES}/3", "way"))
attempt("by a link to the directory", lambda: (os.symlink("d/deep", "short"), write("short/3", flags=0)))
attempt("mode", lambda: os.chmod(f"{FILES}/4", 0o600))
attempt("mode by a descriptor", lambda: os.fchmod(os.open(f"{FILES}/4", os.O_RDONLY), 0o600))
attempt("times", lambda: os.utime(f"{FILES}/5", (1, 1)))
attempt("times by a descriptor", lambda: os.utime(os.open(f"{FILES}/5", os.O_RDONLY), (1, 1)))
attempt("attribute", lambda: os.setxattr(f"{FILES}/5", "user.x", b"x"))
attempt("linked", hard_link)
attempt("linked by a descriptor", by_descriptor)
attempt("replaced", replaced)
attempt("exchanged", exchanged)
attempt("moved", lambda: os.rename(f"{FILES}/16", "aside"))
attempt("rewritten", rewritten)
attempt("below a directory", lambda: write(f"{FILES}/kept/in/it", flags=0))
attempt("made below a directory", lambda: write(f"{FILES}/kept/in/new"))
attempt("directory made below a directory", lambda: os.mkdir(f"{FILES}/kept/new"))
attempt("moved into a directory", lambda: (write("mine3"), os.rename("mine3", f"{FILES}/kept/mine")))
attempt("moved out of a directory", lambda: os.rename(f"{FILES}/kept/in/it", "taken"))
attempt("removed below a directory", lambda: os.unlink(f"{FILES}/kept/in/last"))
attempt("directory moved", lambda: os.rename(f"{FILES}/kept", f"{FILES}/lost"))
attempt("removed", lambda: os.unlink(f"{FILES}/18"))
attempt("directory carried by halves", carried_by_halves) if os.path.exists("d/deep") else None
attempt("directory carried", lambda: (os.rename("d/deeper", "d/deep") if os.path.exists("d/deeper") else 0, carried()))
attempt("directory replaced by a link", linked_directory)
"""
READS = """
import os
for name in range(300):
    assert open(f"d/deep/{name}").read() == "kept"
os.close(os.open("d/deep/0", os.O_RDONLY | os.O_CREAT))
open("d/deep/free", "w").write("mine")
os.rename("d/deep/free", "d/deep/freed")
os.unlink("d/deep/freed")
os.mkdir("d/deep/own"); os.rmdir("d/deep/own")
"""


def prepare(ground: Ground) -> list[str]:
    for directory in ("d/deep/kept/in", "d/free"):
        (ground.workspace / directory).mkdir(parents=True)
    for number in range(300):
        (ground.workspace / f"d/deep/{number}").write_text("kept")
    for name in ("it", "last"):
        (ground.workspace / f"d/deep/kept/in/{name}").write_text("kept")
    return []


def denied(ground: Ground) -> dict[str, tuple[str, ...]]:
    top = f"{ground.workspace}/d/deep"
    return {"deny_write": (f"{top}/kept", *(f"{top}/{number}" for number in range(300)))}


def test_what_the_warden_keeps_is_not_changed(field: Field) -> None:
    assert crowds.MANY < 300
    field.repels(PROGRAM, prepare, denied=denied)


def test_it_is_read_and_what_is_beside_it_is_written(field: Field) -> None:
    if field.walls.kind == "landlock":  # there nothing is made beside what is denied, as a gap says
        return
    ground = field.ground()
    prepare(ground)
    ground.own()

    seen = field.program(ground, READS, [], **denied(ground))

    assert seen.code == 0, seen.said
    assert sorted(os.listdir(ground.workspace / "d/deep")) == sorted(["kept", *map(str, range(300))])
