"""Descriptors are part of the wall: what the command may have on 0 to 2, and that it has no other.

And the descriptors of the enactor's own: a plan that could still change, or is not there, is not begun.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.enforce.conftest import STREAMS, Ran, bare, execute, pipe, shell

from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.enforce.process import sealed
from ringfence.model import Enactor, StepKind

assert sys.platform == "linux"

REFUSED = (wire.FAILED, 0, StepKind.STREAMS, errno.EMEDIUMTYPE)
READY = (wire.READY, 1, StepKind.EXEC, 0)
BAD_PLAN = (wire.FAILED, 0, 0, errno.EPROTO)
KNOWN = {os.makedev(1, minor) for minor in (3, 5, 7, 8, 9)}

Opener = Callable[[Path], Iterator[int]]


def reading(path: str | Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    yield fd
    os.close(fd)


def a_pipe(_path: Path) -> Iterator[int]:
    with pipe() as ends:
        yield ends.read


def a_socket(_path: Path) -> Iterator[int]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs.fileno()


def of_the_network(family: int, kind: int) -> Opener:
    def opener(_path: Path) -> Iterator[int]:
        with socket.socket(family, kind) as made:
            yield made.fileno()

    return opener


def a_terminal(_path: Path) -> Iterator[int]:
    ours, theirs = os.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


def a_fifo(path: Path) -> Iterator[int]:
    os.mkfifo(path / "fifo")
    yield from reading(path / "fifo", os.O_RDWR)


def an_eventfd(_path: Path) -> Iterator[int]:
    fd = os.eventfd(0)
    yield fd
    os.close(fd)


def an_epoll(_path: Path) -> Iterator[int]:
    with select.epoll() as made:
        yield made.fileno()


def a_memfd(_path: Path) -> Iterator[int]:
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def a_pidfd(_path: Path) -> Iterator[int]:
    fd = os.pidfd_open(os.getpid())
    yield fd
    os.close(fd)


def a_file(path: Path) -> Iterator[int]:
    (path / "file").write_text("text\n")
    yield from reading(path / "file")


def device(path: str, flags: int = os.O_RDONLY) -> Opener:
    return lambda _path: reading(path, flags)


PASS: list[tuple[str, Opener]] = [
    ("a pipe", a_pipe),
    ("a unix socket", a_socket),
    ("a terminal", a_terminal),
    ("a named pipe", a_fifo),
    *((path, device(path)) for path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom")),
]


def is_odd(path: Path) -> bool:
    """Whether it is a device that whoever runs the tests may open, and nobody expects on a stream."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.fstat(fd).st_rdev not in KNOWN and not os.isatty(fd)
    finally:
        os.close(fd)


def odd_devices() -> Iterator[tuple[str, Opener]]:
    """A block device and a character device, where there are such."""
    delicate = ("watchdog", "rtc", "hpet")  # to open one is to do something
    names = [path for path in sorted(Path("/dev").iterdir()) if not path.name.startswith(delicate)]
    for name, wanted in (("a block device", Path.is_block_device), ("a character device", Path.is_char_device)):
        for path in names:
            if wanted(path) and is_odd(path):
                yield name, device(str(path), os.O_NONBLOCK)
                break


REFUSE: list[tuple[str, Opener]] = [
    ("a null device by O_PATH", lambda path: reading("/dev/null", os.O_PATH)),
    ("a file that was not opened again", a_file),
    ("a file for writing", lambda path: reading(path / "new", os.O_WRONLY | os.O_CREAT)),
    ("an eventfd", an_eventfd),
    ("an epoll", an_epoll),
    ("a memfd", a_memfd),
    ("a pidfd", a_pidfd),
    ("a TCP socket", of_the_network(socket.AF_INET, socket.SOCK_STREAM)),
    ("a UDP socket", of_the_network(socket.AF_INET, socket.SOCK_DGRAM)),
    ("a netlink socket", of_the_network(socket.AF_NETLINK, socket.SOCK_RAW)),
    *odd_devices(),
]


DIRECTORIES: list[tuple[str, Opener]] = [
    ("a directory", reading),
    ("a directory by O_PATH", lambda path: reading(path, os.O_PATH)),
]


def rows(table: list[tuple[str, Opener]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opener", [pytest.param(opener, id=name) for name, opener in table])


@rows(PASS)
def test_on_stdin_passes(opener: Opener, each: Opened, tmp_path: Path) -> None:
    with contextlib.contextmanager(opener)(tmp_path) as fd:
        ran = bare(each, wire.encode([STREAMS, shell("echo ran")]), stdin=fd)

    assert ran == Ran(0, (READY,), b"ran\n")


@rows(REFUSE)
def test_on_stdin_is_refused_and_nothing_runs(opener: Opener, each: Opened, tmp_path: Path) -> None:
    with contextlib.contextmanager(opener)(tmp_path) as fd:
        ran = bare(each, wire.encode([STREAMS, shell("echo ran")]), stdin=fd)

    assert ran == Ran(125, (REFUSED,), b"")


@rows(DIRECTORIES)
def test_a_directory_on_stdin_is_refused_and_nothing_runs(opener: Opener, each: Opened, tmp_path: Path) -> None:
    with contextlib.contextmanager(opener)(tmp_path) as fd:
        ran = bare(each, wire.encode([STREAMS, shell("echo ran")]), stdin=fd)

    by_the_interpreter = ran._replace(out=b"") == Ran(1, (), b"") and b"is a directory, cannot continue" in ran.out
    assert ran == Ran(125, (REFUSED,), b"") or (each.kind is Enactor.PYTHON and by_the_interpreter)


@pytest.mark.parametrize("number", [1, 2])
def test_on_stdout_and_stderr_the_same_is_refused(number: int, each: Opened, tmp_path: Path) -> None:
    with contextlib.contextmanager(a_memfd)(tmp_path) as fd:
        ran = bare(each, wire.encode([STREAMS, shell("exit 0")]), passed={number: fd})

    assert (ran.code, ran.records) == (125, (REFUSED,))


def test_a_closed_stdin_is_not_left_for_the_next_file(each: Opened) -> None:
    ran = bare(each, wire.encode([STREAMS, execute("/bin/readlink", "/proc/self/fd/0")]), stdin=None)

    assert ran == Ran(0, (READY,), b"/dev/null\n")


def test_a_null_device_is_opened_again_with_the_same_access(each: Opened) -> None:
    show = "case $(grep flags /proc/self/fdinfo/0) in *1) echo write-only;; esac"
    fd = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    try:
        ran = bare(each, wire.encode([STREAMS, shell(show)]), stdin=fd)
    finally:
        os.close(fd)

    assert ran == Ran(0, (READY,), b"write-only\n")


def test_a_command_that_nobody_would_hear_of_is_not_started(each: Opened) -> None:
    plan = sealed(wire.encode([STREAMS, shell("echo ran")]))
    full = os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)
    try:
        ran = bare(each, b"", words=(plan, full), passed={plan: plan, full: full})
    finally:
        os.close(plan)
        os.close(full)

    assert (ran.code, ran.out) == (126, b"")


def test_every_other_descriptor_is_closed_in_the_command(each: Opened, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    fd = os.open(secret, os.O_RDONLY | os.O_CLOEXEC)
    numbers = (50, 51, 200, 1000)
    try:
        ran = bare(each, wire.encode([STREAMS, shell("ls /proc/$$/fd; cat <&50")]), passed=dict.fromkeys(numbers, fd))
    finally:
        os.close(fd)

    lines = ran.out.splitlines()
    assert lines[:3] == [b"0", b"1", b"2"]
    assert b"secret" not in lines
    assert {int(line) for line in lines if line.isdigit()}.isdisjoint(numbers)


def test_the_status_pipe_is_closed_in_the_command(each: Opened) -> None:
    """Or the command could write records of its own."""
    with pipe() as status:
        plan = sealed(wire.encode([STREAMS, shell(f"echo forged >&{status.write}")]))
        words = (plan, status.write)
        ran = bare(each, b"", words=words, passed={number: number for number in words})
        os.close(plan)
        os.close(status.write)
        records = os.read(status.read, 1000)

    assert ran.code == 2
    assert records == wire.RECORD.pack(*READY)


# ---- The enactor's own descriptors ----

GOOD = wire.encode([STREAMS, shell("echo ran")])


def memfd(data: bytes, seals: int) -> int:
    fd = os.memfd_create("plan", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


ALL = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Bad(NamedTuple):
    name: str
    plan: Callable[[Path], int]


def on_disk(path: Path) -> int:
    (path / "plan").write_bytes(GOOD)
    return os.open(path / "plan", os.O_RDONLY | os.O_CLOEXEC)


def in_a_pipe(_path: Path) -> int:
    read, write = os.pipe()
    os.write(write, GOOD)
    os.close(write)
    return read


BAD = (
    Bad("not sealed", lambda path: memfd(GOOD, 0)),
    Bad("sealed but for shrinking", lambda path: memfd(GOOD, ALL & ~fcntl.F_SEAL_SHRINK)),
    Bad("sealed but for growing", lambda path: memfd(GOOD, ALL & ~fcntl.F_SEAL_GROW)),
    Bad("sealed but for writing", lambda path: memfd(GOOD, ALL & ~fcntl.F_SEAL_WRITE)),
    Bad("sealed against later writers only", lambda path: memfd(GOOD, ALL & ~fcntl.F_SEAL_WRITE | 0x10)),
    Bad("empty", lambda path: memfd(b"", ALL)),
    Bad("truncated", lambda path: memfd(GOOD[:-8], ALL)),
    Bad("longer than it says", lambda path: memfd(GOOD + bytes(8), ALL)),
    Bad("cut in its header", lambda path: memfd(GOOD[:20], ALL)),
    Bad("a file", on_disk),
    Bad("a pipe", in_a_pipe),
    Bad("a directory", lambda path: os.open(path, os.O_RDONLY | os.O_CLOEXEC)),
)


@pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name) for bad in BAD])
def test_a_plan_that_is_not_whole_and_sealed_is_not_begun(bad: Bad, each: Opened, tmp_path: Path) -> None:
    plan = bad.plan(tmp_path)
    try:
        ran = bare(each, plan)
    finally:
        os.close(plan)

    # What is cut short is a bad header, for the header has the size.
    assert ran == Ran(125, (BAD_PLAN,), b"")


def test_a_sealed_plan_is_begun(each: Opened) -> None:
    plan = memfd(GOOD, ALL)
    try:
        ran = bare(each, plan)
    finally:
        os.close(plan)

    assert ran == Ran(0, (READY,), b"ran\n")


WORDS: dict[str, Callable[[int, int], tuple[int | str, ...]]] = {
    "nothing": lambda plan, status: (),
    "no such plan": lambda plan, status: (900, status),
    "no such status": lambda plan, status: (plan, 900),
    "the same twice": lambda plan, status: (plan, plan),
    "stdin for a plan": lambda plan, status: (0, status),
    "stdout for a status": lambda plan, status: (plan, 1),
    "a word": lambda plan, status: ("plan", status),
    "an empty word": lambda plan, status: (plan, ""),
    "a sign": lambda plan, status: (f"+{plan}", status),
    "a negative": lambda plan, status: (plan, -status),
    "a space": lambda plan, status: (f" {plan}", status),
    "another script's digits": lambda plan, status: ("٣", status),
    "a number that wraps round": lambda plan, status: (plan + (1 << 32), status),
    "a number that wraps round twice": lambda plan, status: (plan + (1 << 64), status),
    "too many": lambda plan, status: (plan, status, 1, 1, 1),
    "root for a user": lambda plan, status: (plan, status, 0, 1),
    "root for a group": lambda plan, status: (plan, status, 1, 0),
    "no user": lambda plan, status: (plan, status, 0xFFFFFFFF, 1),
    "a word for a user": lambda plan, status: (plan, status, "user", 1),
}


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in WORDS.items()])
def test_words_that_name_no_plan_and_no_status_run_nothing(
    words: Callable[[int, int], tuple[int | str, ...]], each: Opened
) -> None:
    plan = sealed(GOOD)
    with pipe() as status:
        given = {plan: plan, status.write: status.write}
        ran = bare(each, b"", words=words(plan, status.write), passed=given)
    os.close(plan)

    assert (ran.code, ran.out) == (125, b"")


LOOK = """
import sys
from ringfence.enforce.streams import look_over
from ringfence.model import PlanError
try:
    print(look_over((0, 1, 2)))
except PlanError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("opener", "said"),
    [
        (lambda _: reading("/dev/null"), "((), (), False, False)"),
        (lambda _: reading("/dev/null", os.O_PATH), "stdin: is an O_PATH descriptor"),
        (a_terminal, "((), (), True, False)"),
    ],
    ids=["null", "null by its path", "a terminal"],
)
def test_what_is_like_the_others_at_first_sight_is_looked_at(opener: Opener, said: str, tmp_path: Path) -> None:
    """Most often all three are pipes or /dev/null, and nothing more is asked."""
    with contextlib.contextmanager(opener)(tmp_path) as given:
        done = subprocess.run([sys.executable, "-c", LOOK], stdin=given, capture_output=True, text=True, timeout=60)

    assert said in done.stdout, done.stderr
