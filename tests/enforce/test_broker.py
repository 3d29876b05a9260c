"""The warden makes names for the command: as the kernel would have, but for those that must not appear.

The same calls are made bare and inside, in two copies of one tree, and everything is compared: what each call answered,
and the trees afterwards.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

import ringfence

assert sys.platform == "linux"

NOBODY = 65534
PROGRAM = r"""
import ctypes, errno, json, os, stat, sys
WS = sys.argv[1]
os.chdir(WS + "/in/it")
here = os.open(".", os.O_RDONLY)
sub = os.open("d", os.O_RDONLY)
libc = ctypes.CDLL(None, use_errno=True)

def raw(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")

def opened(path, flags, mode, at):
    fd = os.open(path, flags, mode, dir_fd={"here": None, "fd": here, "sub": sub, "bad": 999}[at])
    try:
        if flags & os.O_ACCMODE:
            os.write(fd, b"w")
        elif stat.S_ISREG(os.fstat(fd).st_mode) and not path.startswith("/proc/"):
            return os.read(fd, 9).decode()
        return [stat.S_IFMT(os.fstat(fd).st_mode), bool(os.get_inheritable(fd)),
                __import__("fcntl").fcntl(fd, 3)]
    finally:
        os.close(fd)

def through(path, what):
    # By a descriptor that can only read.
    fd = os.open(path, os.O_RDONLY)
    try:
        return {"fchmod": lambda: os.fchmod(fd, 0o640), "futime": lambda: os.utime(fd, (7, 8)),
                "fchown": lambda: os.fchown(fd, -1, os.getgid()),
                "fchownat": lambda: raw(libc.fchownat(fd, b"", -1, os.getgid(), 0x1000)),
                "utimensat": lambda: raw(libc.utimensat(fd, b"", (ctypes.c_int64 * 4)(7, 0, 9, 0), 0x1000))
                or os.fstat(fd).st_mtime,
                "fsetxattr": lambda: os.setxattr(fd, "user.a", b"through"),
                "fremovexattr": lambda: os.removexattr(fd, "user.a"),
                "link": lambda: os.link(f"/proc/self/fd/{fd}", "linked", follow_symlinks=True),
                "again": lambda: os.read(os.open(f"/dev/fd/{fd}", os.O_RDONLY), 9).decode()}[what]()
    finally:
        os.close(fd)

CALLS = {
    "open": opened,
    "creat": lambda path, mode: raw(libc.creat(os.fsencode(path), mode)),
    "mkdir": os.mkdir,
    "mkfifo": os.mkfifo,
    "mknod": lambda path, mode: os.mknod(path, mode | stat.S_IFREG),
    "symlink": os.symlink,
    "link": lambda one, other, follow: os.link(one, other, src_dir_fd=here, follow_symlinks=follow),
    "rename": os.rename,
    "exchange": lambda one, other, flags: raw(libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), flags)),
    "rmdir": os.rmdir,
    "removedir": lambda path: raw(libc.unlinkat(sub, os.fsencode(path), 0x200)),
    "unlink": os.unlink,
    "umask": lambda mask: os.umask(mask),
    "chdir": os.chdir,
    "truncate": os.truncate,
    "chmod": os.chmod,
    "chown": lambda path, follow: os.chown(path, os.getuid(), os.getgid(), follow_symlinks=follow),
    "utime": lambda path, when, follow: os.utime(path, times=when and (when, when + 0.5), follow_symlinks=follow)
        or (when and os.stat(path, follow_symlinks=follow).st_mtime),
    "setxattr": lambda path, value, follow: os.setxattr(path, "user.a", value.encode(), follow_symlinks=follow),
    "removexattr": lambda path, follow: os.removexattr(path, "user.a", follow_symlinks=follow),
    "getxattr": lambda path: os.getxattr(path, "user.a").decode(),
    "through": through,
    "list": lambda path: sorted(os.listdir(path)),
}

answers = []
for name, *words in json.loads(sys.argv[2]):
    words = [word.replace("WS", WS) if isinstance(word, str) else word for word in words]
    try:
        answers.append(CALLS[name](*words))
    except OSError as error:
        answers.append(errno.errorcode[error.errno])
    except ValueError as error:
        answers.append("ValueError")
print(json.dumps(answers))
"""
PLACES = ("a", "b", "d", "d/e", "d/e/f", "dangling", "loop", "tolink", "new", "d/new", "file", "locked/x", "up")
FORMS: tuple[Callable[[str], str], ...] = (
    str,
    str,
    "./{}".format,
    "WS/in/it/{}".format,
    "{}/".format,
    "d/../{}".format,
    ".//{}".format,
    "tolink/../{}".format,
    "/proc/self/cwd/{}".format,
    "/proc/thread-self/cwd/{}".format,
    "{}/x".format,
    "{}/.".format,
    "{}/..".format,
)
ODD = (
    "",
    ".",
    "..",
    "/",
    "//",
    "n" * 255,
    "n" * 256,
    "p/" * 3000,
    "/dev/null",
    "/proc/self/fd/0",
    "/dev/fd/9",
    "d/e/f/g",
)
PATHS = st.one_of(
    st.builds(lambda form, place: form(place), st.sampled_from(FORMS), st.sampled_from(PLACES)), st.sampled_from(ODD)
)
MODES = st.sampled_from((0, 0o600, 0o644, 0o666, 0o755, 0o777, 0o1755))
BITS = st.sampled_from(
    (0, os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW, os.O_DIRECTORY, os.O_NONBLOCK, os.O_EXCL | os.O_NOFOLLOW)
)
OPENS = st.builds(
    lambda path, access, bits, mode, at: ("open", path, os.O_CREAT | access | bits, mode, at),
    PATHS, st.sampled_from((os.O_RDONLY, os.O_WRONLY, os.O_RDWR)), BITS, MODES,
    st.sampled_from(("here", "here", "fd", "sub", "bad")),
)  # fmt: skip
CALLS = st.one_of(
    OPENS,
    OPENS,
    st.tuples(st.just("creat"), PATHS, MODES),
    st.tuples(st.just("mkdir"), PATHS, MODES),
    st.tuples(
        st.just("mkfifo"), st.sampled_from(("pipe", "d/pipe", "tolink/pipe")), MODES
    ),  # nobody opens them: it waits
    st.tuples(st.just("mknod"), PATHS, MODES),
    st.tuples(st.sampled_from(("symlink", "rename")), PATHS, PATHS),
    st.tuples(st.just("link"), PATHS, PATHS, st.booleans()),
    st.tuples(st.just("exchange"), PATHS, PATHS, st.sampled_from((0, 1, 2, 3))),
    st.tuples(st.sampled_from(("rmdir", "removedir", "unlink")), PATHS),
    st.tuples(st.just("umask"), st.sampled_from((0, 0o022, 0o077, 0o777))),
    st.tuples(st.just("chdir"), st.sampled_from(("WS/in/it", "WS/in", "WS/in/it/d/e"))),
)
PLAIN = st.builds(
    lambda path, access, bits, at: ("open", path, access | bits, 0, at),
    PATHS, st.sampled_from((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY, os.O_RDWR)), BITS,
    st.sampled_from(("here", "here", "fd", "sub", "bad")),
)  # fmt: skip
THROUGH = ("fchmod", "fchown", "fchownat", "utimensat", "futime", "fsetxattr", "fremovexattr", "link", "again")
USES = st.one_of(
    CALLS,
    PLAIN,
    PLAIN,
    st.tuples(st.sampled_from(("list", "unlink", "getxattr")), PATHS),
    st.tuples(st.just("truncate"), PATHS, st.integers(0, 9)),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from((0o600, 0o644, 0o755))),
    st.tuples(st.just("chown"), PATHS, st.booleans()),
    st.tuples(st.just("utime"), PATHS, st.sampled_from((None, 1, 1_000_000_000)), st.booleans()),
    st.tuples(st.just("setxattr"), PATHS, st.sampled_from(("", "v", "v" * 3000)), st.booleans()),
    st.tuples(st.just("removexattr"), PATHS, st.booleans()),
    st.tuples(st.just("through"), PATHS, st.sampled_from(THROUGH)),
)


def grow(root: Path) -> None:
    """The tree that both begin with, two levels down: what is above a workspace is not the same inside."""
    top = root
    root = root / "in" / "it"
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "e" / "f").write_text("f")
    (root / "file").write_text("file")
    (root / "locked").mkdir(mode=0)
    for name, target in (("dangling", "d/later"), ("loop", "loop"), ("tolink", "d/e"), ("up", "../outside/new")):
        (root / name).symlink_to(target)
    if os.geteuid() == 0:
        for path in (top, *top.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def seen(root: Path) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    walked = os.walk(root)  # rglob() fails on a link to a name that is too long
    for path in sorted(Path(above, one) for above, dirs, files in walked for one in (*dirs, *files)):
        if not os.access(path.parent, os.X_OK):  # somebody has closed it, and we are nobody else
            found[str(path.relative_to(root))] = ("closed",)
            continue
        facts = path.lstat()
        text = ""
        if path.is_symlink():
            text = os.readlink(path).replace(str(root), "WS")
        elif path.is_file() and os.access(path, os.R_OK):
            text = path.read_text()
        found[str(path.relative_to(root))] = (oct(facts.st_mode), text, str(facts.st_nlink))
    return found


AS_NOBODY = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
AS_PLAIN = ["setpriv", *AS_NOBODY] if os.geteuid() == 0 else []


def bare(root: Path, calls: str) -> list[object]:
    words = [*AS_PLAIN, "/usr/bin/python3", "-c", PROGRAM, str(root), calls]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    answers: list[object] = json.loads(ran.stdout)
    return answers


def inside(root: Path, calls: str, flags: ringfence.Flags | None = None) -> list[object]:
    words = ["/usr/bin/python3", "-c", PROGRAM, str(root), calls]
    outcome = ringfence.run(words, workspace=str(root), capture=True, flags=flags)
    assert outcome.stdout, (outcome.ending, outcome.stderr)
    answers: list[object] = json.loads(outcome.stdout)
    return answers


def tried(run: Callable[[Path, str], list[object]], calls: list[tuple[object, ...]]) -> "Tried":
    """What the calls answer in a fresh tree, and the tree they leave."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rf-") as scratch:
        os.chmod(scratch, 0o755)
        root = Path(scratch, "ws")
        root.mkdir()
        grow(root)
        answers = run(root, json.dumps(calls))
        found = seen(root)
        subprocess.run(["chmod", "-R", "u+rwx", scratch], check=True)
        return answers, found


@pytest.mark.needs_userns
@hypothesis.settings(max_examples=8, deadline=None)
@hypothesis.given(st.lists(CALLS, min_size=8, max_size=60))
def test_the_warden_makes_names_as_the_kernel_does(calls: list[tuple[object, ...]]) -> None:
    expected, answered = tried(bare, calls), tried(inside, calls)

    compare(calls, expected, answered)


@pytest.mark.needs_userns
@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(st.lists(USES, min_size=8, max_size=60))
def test_the_warden_uses_names_as_the_kernel_does(calls: list[tuple[object, ...]]) -> None:
    """Where something is denied by a pattern, everything that uses a name is the warden's."""

    def judged(root: Path, calls: str) -> list[object]:
        return inside(root, calls, ringfence.Flags(cwd=str(root), deny_read=("**/*.never",)))

    compare(calls, tried(bare, calls), tried(judged, calls))


Tried = tuple[list[object], object]


def compare(calls: list[tuple[object, ...]], expected: Tried, answered: Tried) -> None:
    # Which of several errors comes first is not the same, nor is what a read-only /dev answers.
    pairs = zip(calls, answered[0], expected[0], strict=True)
    other = [pair for pair in pairs if pair[1] != pair[2] and pair[1] != "EROFS"]
    assert [pair for pair in other if not all(isinstance(each, str) for each in pair[1:])] == []
    assert answered[1] == expected[1]
