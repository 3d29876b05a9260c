"""F24: what is denied by a pattern comes during the run, from outside, and is reached by every way there is.

Somebody makes it while the command runs, so no mount covers it. It may not be read, nor what is below a denied
directory; nor may it be moved away or get another name, which the pattern would not know.
"""

import os
import threading
import time

from tests.attacks.conftest import Field, Ground

from ringfence.plan.numbers import numbers

PROGRAM = """
import threading, time
write("p-ready")
while not os.path.exists("in/deep/late.key"):
    time.sleep(0.005)
time.sleep(0.05)
EXCHANGE = 2
def secret(path, **more):
    fd = os.open(path, os.O_RDONLY, **more)
    try:
        if os.read(fd, 99) != b"secret":
            raise OSError(errno.EIO, "another file")
    finally:
        os.close(fd)
def through(path):
    fd = os.open(path, os.O_PATH)
    secret(f"/proc/self/fd/{fd}")
def by_link():
    os.symlink("late.key", "way")
    secret("way")
def moved():
    os.rename("moved.key", "aside")
    secret("aside")
def linked():
    os.link("late.key", "other")
    secret("other")
def linked_by_descriptor():
    fd = os.open("late.key", os.O_PATH)
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"another", 0x400))
    secret("another")
def exchanged():
    write("mine")
    syscall(NR.renameat2, -100, b"exchanged.key", -100, b"mine", EXCHANGE)
    secret("mine")
def carried():
    os.rename("in", "out")
    secret("out/deep/late.key")
def carried_out_of_reach():
    os.rename("vault", "vault2")
    secret("vault2/a")
def swapped():
    "A link that leads by turns to what is allowed and to what is not."
    write("allowed")
    over = []
    def swap():
        while not over:
            for target in ("allowed", "late.key"):
                os.symlink(target, "next")
                os.rename("next", "turn")
    os.symlink("allowed", "turn")
    swapper = threading.Thread(target=swap)
    swapper.start()
    until = time.monotonic() + 0.7
    try:
        while True:
            try:
                return secret("turn")
            except OSError:
                if time.monotonic() > until:
                    raise
    finally:
        over.append(1)
        swapper.join()
def rewritten():
    "A path that another thread changes while it is judged."
    text = ctypes.create_string_buffer(b"allowed-")
    over = []
    write("allowed-")
    def change():
        while not over:
            text.raw = b"allowed-\\0"
            text.raw = b"late.key\\0"
    changer = threading.Thread(target=change)
    changer.start()
    until = time.monotonic() + 0.7
    try:
        while time.monotonic() < until:
            fd = libc.open(text, 0)
            if fd >= 0:
                found = os.read(fd, 99)
                os.close(fd)
                if found == b"secret":
                    return
        raise PermissionError(errno.EACCES, "")
    finally:
        over.append(1)
        changer.join()
attempt("read", lambda: secret("late.key"))
attempt("read by its directory", lambda: secret("late.key", dir_fd=os.open(".", os.O_RDONLY)))
attempt("attribute", lambda: os.getxattr("late.key", "user.note"))
attempt("names of attributes", lambda: os.listxattr("late.key", follow_symlinks=False))
attempt("read through /proc", lambda: secret("/proc/self/cwd/late.key"))
attempt("read through the root", lambda: secret("/proc/self/root" + WS + "/late.key"))
attempt("opened anew", lambda: through("late.key"))
attempt("by a link", by_link)
attempt("below a directory", lambda: secret("in/deep/late.key"))
attempt("below a denied directory", lambda: secret("vault/a"))
attempt("the names in it", lambda: os.listdir("vault"))
attempt("linked", linked)
attempt("linked by a descriptor", linked_by_descriptor)
attempt("swapped", swapped)
attempt("rewritten", rewritten)
attempt("written", lambda: write("written.key", flags=0))
attempt("emptied", lambda: os.truncate("written.key", 0))
attempt("emptied on opening", lambda: os.close(os.open("written.key", os.O_RDONLY | os.O_TRUNC)))
attempt("mode", lambda: os.chmod("written.key", 0o600))
attempt("mode by a descriptor", lambda: os.fchmod(os.open("written.key", os.O_RDONLY), 0o600))
attempt("times", lambda: os.utime("written.key", (1, 1)))
attempt("moved", moved)
attempt("exchanged", exchanged)
attempt("carried out of reach", carried_out_of_reach)
attempt("removed", lambda: os.unlink("removed.key"))
attempt("made", lambda: write("made.key"))
attempt("made by a move", lambda: (write("x"), os.rename("x", "made2.key")))
"""
LATE = ("late.key", "moved.key", "exchanged.key", "written.key", "removed.key", "vault/a", "in/deep/late.key")


def prepare(ground: Ground) -> list[str]:
    """Somebody outside, who waits until the command runs."""
    over = threading.Event()

    def come() -> None:
        until = time.monotonic() + 30
        while not (ground.workspace / "p-ready").exists():
            if over.wait(0.005) or time.monotonic() > until:
                return
        for name in LATE:
            path = ground.workspace / name
            for above in (path.parent.parent, path.parent):
                if not above.exists():
                    above.mkdir()
                    os.chown(above, ground.uid, -1)
            fresh = path.with_name("coming")
            fresh.write_text("secret")
            os.setxattr(fresh, "user.note", b"secret")
            os.chown(fresh, ground.uid, -1)
            fresh.rename(path)

    made = threading.Thread(target=come)
    made.start()
    ground.stack.callback(made.join)
    ground.stack.callback(over.set)
    return []


def test_what_a_pattern_denies_is_held_when_it_comes(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_read": ("**/*.key", "**/vault")})


REPLACED = """
import time
def until(true):
    while not true():
        time.sleep(0.005)
def held(name, flags):
    fd = os.open(name, os.O_PATH)
    before = os.fstat(fd).st_ino
    write(f"p-{name}-held")
    until(lambda: os.stat(name).st_ino != before)
    if os.read(os.open(f"/proc/self/fd/{fd}", flags), 99) != b"secret":
        raise OSError(errno.EIO, "another file")
write("p-ready")
until(lambda: os.path.exists("one.key") and os.path.exists("two.key"))
attempt("by what was held", lambda: held("one.key", os.O_RDONLY))
attempt("by what was held, or made", lambda: held("two.key", os.O_RDONLY | os.O_CREAT))
"""


def replacing(ground: Ground) -> list[str]:
    """Somebody outside, who writes as editors do: beside it, and then in its place."""

    def put(name: str) -> None:
        fresh = ground.workspace / "coming"
        fresh.write_text("secret")
        os.chown(fresh, ground.uid, -1)
        fresh.rename(ground.workspace / name)

    def work(stop: threading.Event) -> None:
        keys = ("one.key", "two.key")
        for sign, names in (("p-ready", keys), *((f"p-{key}-held", (key,)) for key in keys)):
            while not (ground.workspace / sign).exists():
                if stop.wait(0.005):
                    return
            for name in names:
                put(name)

    ground.thread(work)
    return []


def test_what_was_replaced_is_denied_as_it_was(field: Field) -> None:
    """The kernel calls it by another name then, which the pattern does not know."""
    field.repels(REPLACED, replacing, denied=lambda ground: {"deny_read": ("**/*.key",)})


# Each call that changes what is there, by its number: the library makes some of them never.
CHANGES = """
import time
write("p-ready")
while not os.path.exists("in/deep/late.key"):
    time.sleep(0.005)
path, value, here = b"written.key", b"x", -100
fd, uid, gid = os.open(path, os.O_RDONLY), os.getuid(), os.getgid()
more = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(value)), 1)
def tried(call, *words):  # of those that this machine has
    if call in ALL:
        attempt(call, lambda: syscall(ALL[call], *words))
tried("chmod", path, 0o640)
tried("fchmod", fd, 0o640)
tried("fchmodat", here, path, 0o640)
tried("fchmodat2", here, path, 0o640, 0)
tried("chown", path, uid, gid)
tried("lchown", path, uid, gid)
tried("fchown", fd, uid, gid)
tried("fchownat", here, path, uid, gid, 0)
tried("utime", path, 0)
tried("utimes", path, 0)
tried("futimesat", here, path, 0)
tried("utimensat", here, path, 0, 0)
tried("setxattr", path, b"user.more", value, 1, 0)
tried("removexattr", path, b"user.note")
tried("lsetxattr", path, b"user.note", value, 1, 0)
tried("lremovexattr", path, b"user.note")
tried("fsetxattr", fd, b"user.note", value, 1, 0)
tried("fremovexattr", fd, b"user.note")
tried("setxattrat", here, path, 0, b"user.note", more, 16)
tried("removexattrat", here, path, 0, b"user.note")
tried("truncate", path, 1)
tried("rename", path, b"aside")
tried("renameat", here, b"exchanged.key", here, b"aside2")
tried("link", b"moved.key", b"other")
tried("unlink", b"moved.key")
tried("unlinkat", here, b"removed.key", 0)
attempt("a descriptor's time", lambda: syscall(NR.utimensat, fd, 0, 0, 0))
"""


def test_what_comes_later_is_not_changed_by_any_call(field: Field) -> None:
    field.repels(
        f"ALL = {dict(numbers(os.uname().machine))}\n{CHANGES}",
        prepare,
        denied=lambda ground: {"deny_write": ("**/*.key",)},
        unknown=("fchmodat2", "setxattrat", "removexattrat"),
    )
