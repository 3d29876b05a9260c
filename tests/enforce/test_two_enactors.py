"""The C program, its sanitized build and the Python enactor have the same effect on the same plan.

Each row is a plan without a view, what stands on stdin, and the one right outcome: the exit code, the record of a
failure, and what the command printed. All three enactors are held to it.
"""

import errno
import os
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.enforce.conftest import NO_NEW_PRIVS, STREAMS, Ran, bare, execute, shell, step

from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Step, StepKind
from ringfence.plan import landlock

assert sys.platform == "linux"

READ, WRITE = landlock.READ, landlock.known(landlock.GRANTED_WRITE, 1)
WRONG = 1  # an inode number that no file here has
ALLOW_ALL = struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)  # ret ALLOW
NO_RETURN = struct.pack("<HBBI", 0, 0, 0, 0)  # a load, and then the end
FROM_START = os.O_RDONLY
EDGE = 1 << 63


class Floor:
    """A directory with one of everything that a row may need."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "file"
        self.file.write_bytes(b"0123456789\n")
        self.plain = path / "plain"
        self.plain.write_text("#!/bin/sh\necho ran\n")
        self.orphan = path / "orphan"
        self.orphan.write_text("#!/nowhere/sh\n")
        self.garbage = path / "garbage"
        self.garbage.write_bytes(b"\x7fNOT")
        for program in (self.orphan, self.garbage):
            program.chmod(0o755)
        self.sub = path / "sub"
        self.sub.mkdir()
        self.link = path / "link"
        self.link.symlink_to("sub")
        self.fifo = path / "fifo"
        os.mkfifo(self.fifo)
        self.missing = path / "missing"


@pytest.fixture
def floor(tmp_path: Path) -> Floor:
    return Floor(tmp_path)


def identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def directory(path: Path, ids: tuple[int, int] = (0, 0)) -> Step:
    return step(StepKind.DIRECTORY, *ids, strings=(path,))


def beneath(path: Path, rights: int = READ, ids: tuple[int, int] = (0, 0)) -> Step:
    return step(StepKind.BENEATH, rights, *ids, strings=(path,))


def stream(fd: int, path: Path, flags: int = FROM_START, ids: tuple[int, int] = (0, 0), offset: int = 0) -> Step:
    return step(StepKind.STREAM, fd, flags, *ids, offset, strings=(path,))


def landlocked(*rules: Step, rights: int = READ | WRITE, network: int = 0) -> list[Step]:
    ruleset = step(StepKind.RULESET, rights, network, 0)
    null = beneath(Path("/dev/null"), rights & (landlock.READ_FILE | landlock.WRITE_FILE))  # the streams
    return [
        NO_NEW_PRIVS,
        ruleset,
        *rules,
        *[null] * (rights == READ | WRITE and not network),
        step(StepKind.RESTRICT),
        STREAMS,
    ]


class Row(NamedTuple):
    """A plan, and what must come of it: nothing failed, or the last record says what did."""

    name: str
    steps: Callable[[Floor], list[Step]]
    code: int = 0
    failed: tuple[int, StepKind, int] | None = None
    out: str = ""


def limit(number: int, soft: int, hard: int) -> Step:
    return step(StepKind.LIMIT, number, soft, hard)


SAY_RAN = shell("echo ran")
# The signals up to 28, so SIGPIPE and SIGXFSZ, but not 32 and 33, which are glibc's own and not ours to reset.
SHOW_IGNORED = "while read -r a b; do [ $a = SigIgn: ] && echo ${b#?????????}; done < /proc/self/status; true"
SHOW_CAPABILITIES = (
    "while read -r name value; do case $name in Cap[IPEA]*) echo $value;; esac; done < /proc/self/status"
)
SESSION_IS_OURS = "read -r pid name state parent group session rest < /proc/self/stat; [ $session = $$ ] && echo ours"
SHOW_WAITING = "case $(grep flags /proc/self/fdinfo/0) in *4???) echo does not wait;; *) echo waits;; esac"
OPEN_AGAIN = "exec 2>&-; (: > /proc/self/fd/0) && echo opened || echo refused"
APPEND = 'echo more; cat "$0" >&2'
TRY = "echo x > sub/made && echo written; echo x > made || echo refused; read line < file && echo $line"

ROWS = (
    Row("exit 0", lambda f: [STREAMS, SAY_RAN], out="ran\n"),
    Row("exit 7", lambda f: [STREAMS, shell("exit 7")], 7),
    Row("exit 125 is the command's own", lambda f: [STREAMS, shell("exit 125")], 125),
    Row("a signal", lambda f: [STREAMS, shell("kill -9 $$")], -9),
    Row("no signal is ignored", lambda f: [STREAMS, shell(SHOW_IGNORED)], out="0000000\n"),
    Row("a session", lambda f: [step(StepKind.SESSION), STREAMS, shell(SESSION_IS_OURS)], out="ours\n"),
    # the directory
    Row("cwd", lambda f: [STREAMS, directory(f.sub, identity(f.sub)), shell("test -e ../file && echo in")], out="in\n"),
    Row("no cwd", lambda f: [STREAMS, directory(f.missing), SAY_RAN], 125, (1, StepKind.DIRECTORY, errno.ENOENT)),
    Row("cwd is a file", lambda f: [STREAMS, directory(f.file), SAY_RAN], 125, (1, StepKind.DIRECTORY, errno.ENOTDIR)),
    Row("cwd is a link", lambda f: [STREAMS, directory(f.link), SAY_RAN], 125, (1, StepKind.DIRECTORY, errno.ESTALE)),
    Row(
        "cwd is another",
        lambda f: [STREAMS, directory(f.sub, (f.sub.stat().st_dev, WRONG)), SAY_RAN],
        125,
        (1, StepKind.DIRECTORY, errno.ESTALE),
    ),
    Row(
        "cwd is on another device",
        lambda f: [STREAMS, directory(f.sub, (1 << 40, f.sub.stat().st_ino)), SAY_RAN],
        125,
        (1, StepKind.DIRECTORY, errno.ESTALE),
    ),
    # the program
    Row("no program", lambda f: [STREAMS, execute(f.missing)], 127, (1, StepKind.EXEC, errno.ENOENT)),
    Row("no interpreter", lambda f: [STREAMS, execute(f.orphan)], 127, (1, StepKind.EXEC, errno.ENOENT)),
    Row("not executable", lambda f: [STREAMS, execute(f.plain)], 126, (1, StepKind.EXEC, errno.EACCES)),
    Row("a directory for a program", lambda f: [STREAMS, execute(f.sub)], 126, (1, StepKind.EXEC, errno.EACCES)),
    Row("not a program", lambda f: [STREAMS, execute(f.garbage)], 126, (1, StepKind.EXEC, errno.ENOEXEC)),
    Row(
        "an argument that is too long",
        lambda f: [STREAMS, execute("/bin/true", b"x" * 32 * os.sysconf("SC_PAGESIZE"))],
        126,
        (1, StepKind.EXEC, errno.E2BIG),
    ),
    Row(
        "too many arguments",
        lambda f: [STREAMS, execute("/bin/true", *["x" * 100] * 100_000)],
        126,
        (1, StepKind.EXEC, errno.E2BIG),
    ),
    Row(
        "a hundred thousand arguments",
        lambda f: [STREAMS, execute("/bin/sh", "-c", "echo $# $1", "sh", *["x"] * 100_000)],
        out="100000 x\n",
    ),
    Row(
        "a name of its own, an empty argument",
        lambda f: [STREAMS, step(StepKind.EXEC, 3, strings=("/bin/cat", "", "/proc/self/cmdline", "/dev/null"))],
        out="\0/proc/self/cmdline\0/dev/null\0",
    ),
    Row(
        "the environment, word for word",
        lambda f: [
            STREAMS,
            execute("/bin/cat", "/proc/self/environ", environ=("A=1", "A=2", "word", "=x", b"\xff=\xfe")),
        ],
        out="A=1\0A=2\0word\0=x\0\udcff=\udcfe\0",
    ),
    Row("no environment", lambda f: [STREAMS, execute("/bin/cat", "/proc/self/environ")]),
    # what is logged
    Row(
        "a name for the log",
        lambda f: [step(StepKind.LOG, strings=("rf-0123456789ab",)), STREAMS, SAY_RAN],
        out="ran\n",
    ),
    # limits
    Row("a limit", lambda f: [limit(resource.RLIMIT_CORE, 0, 0), STREAMS, shell("ulimit -c")], out="0\n"),
    Row("no such limit", lambda f: [limit(99, 0, 0), STREAMS, SAY_RAN], 125, (0, StepKind.LIMIT, errno.EINVAL)),
    Row("soft over hard", lambda f: [limit(4, 9, 8), STREAMS, SAY_RAN], 125, (0, StepKind.LIMIT, errno.EINVAL)),
    Row(
        "the hugest limit",
        lambda f: [limit(4, 2**64 - 1, EDGE), STREAMS, SAY_RAN],
        125,
        (0, StepKind.LIMIT, errno.EINVAL),
    ),
    # streams
    Row(
        "a file again, at its offset",
        lambda f: [stream(0, f.file, ids=identity(f.file), offset=4), STREAMS, execute("/bin/cat")],
        out="456789\n",
    ),
    Row(
        "a file again, as it was",
        lambda f: [stream(0, f.file), STREAMS, shell(SHOW_WAITING)],
        out="waits\n",
    ),
    Row(
        "a file for output",
        lambda f: [stream(1, f.file, os.O_WRONLY | os.O_APPEND), STREAMS, execute("/bin/sh", "-c", APPEND, f.file)],
        out="0123456789\nmore\n",
    ),
    Row(
        "a file that was swapped",
        lambda f: [stream(0, f.file, ids=(f.file.stat().st_dev, WRONG)), STREAMS, SAY_RAN],
        125,
        (0, StepKind.STREAM, errno.ESTALE),
    ),
    Row(
        "a fifo in place of the file",
        lambda f: [stream(0, f.fifo, ids=identity(f.file)), STREAMS, SAY_RAN],
        125,
        (0, StepKind.STREAM, errno.ESTALE),
    ),
    Row("no file", lambda f: [stream(0, f.missing), STREAMS, SAY_RAN], 125, (0, StepKind.STREAM, errno.ENOENT)),
    Row(
        "an offset before the file",
        lambda f: [stream(0, f.file, offset=EDGE), STREAMS, SAY_RAN],
        125,
        (0, StepKind.STREAM, errno.EINVAL),
    ),
    Row(
        "a directory for a file",
        lambda f: [stream(0, f.sub), STREAMS, SAY_RAN],
        125,
        (1, StepKind.STREAMS, errno.EMEDIUMTYPE),
    ),
    # Landlock
    Row(
        "Landlock",
        lambda f: [
            *landlocked(beneath(Path("/")), beneath(f.sub, WRITE, identity(f.sub))),
            directory(f.path),
            shell(TRY),
        ],
        out="written\n/bin/sh: 1: cannot create made: Permission denied\nrefused\n0123456789\n",
    ),
    Row(
        "a right that no kernel has",
        lambda f: [*landlocked(rights=1 << 60), SAY_RAN],
        125,
        (1, StepKind.RULESET, errno.EINVAL),
    ),
    Row("a ruleset of nothing", lambda f: [*landlocked(rights=0), SAY_RAN], 125, (1, StepKind.RULESET, errno.ENOMSG)),
    Row(
        "a rule wider than its ruleset",
        lambda f: [*landlocked(beneath(f.sub, WRITE), rights=READ), SAY_RAN],
        125,
        (2, StepKind.BENEATH, errno.EINVAL),
    ),
    Row(
        "a rule for nothing",
        lambda f: [*landlocked(beneath(f.missing)), SAY_RAN],
        125,
        (2, StepKind.BENEATH, errno.ENOENT),
    ),
    Row(
        "a rule for a link", lambda f: [*landlocked(beneath(f.link)), SAY_RAN], 125, (2, StepKind.BENEATH, errno.ESTALE)
    ),
    Row(
        "a rule through a link",
        lambda f: [*landlocked(beneath(f.link / ".." / "file")), SAY_RAN],
        125,
        (2, StepKind.BENEATH, errno.ESTALE),
    ),
    Row(
        "a rule for something else",
        lambda f: [*landlocked(beneath(f.sub, ids=identity(f.file))), SAY_RAN],
        125,
        (2, StepKind.BENEATH, errno.ESTALE),
    ),
    Row(
        "a directory's right on a file",
        lambda f: [*landlocked(beneath(f.file, landlock.READ_DIR)), SAY_RAN],
        125,
        (2, StepKind.BENEATH, errno.EINVAL),
    ),
    # capabilities and seccomp
    Row(
        "no capabilities",
        lambda f: [NO_NEW_PRIVS, STREAMS, step(StepKind.CAPABILITIES), shell(SHOW_CAPABILITIES)],
        out=("0" * 16 + "\n") * 4,
    ),
    Row(
        "a filter",
        lambda f: [NO_NEW_PRIVS, STREAMS, step(StepKind.SECCOMP, 0, strings=(ALLOW_ALL,)), SAY_RAN],
        out="ran\n",
    ),
    Row(
        "a filter without an end",
        lambda f: [NO_NEW_PRIVS, STREAMS, step(StepKind.SECCOMP, 0, strings=(NO_RETURN,)), SAY_RAN],
        125,
        (2, StepKind.SECCOMP, errno.EINVAL),
    ),
)


def expected(row: Row, last: int) -> Ran:
    """What all three must say: ready, or a failure, or both when it was exec that failed."""
    ready = (wire.READY, last, StepKind.EXEC, 0)
    if row.failed is None:
        return Ran(row.code, (ready,), os.fsencode(row.out))
    failed = (wire.FAILED, *row.failed)
    return Ran(row.code, (ready, failed) if row.failed[1] is StepKind.EXEC else (failed,), b"")


@pytest.mark.needs_landlock(1)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_a_plan_has_the_same_effect_whoever_enacts_it(row: Row, each: Opened, floor: Floor) -> None:
    steps = row.steps(floor)

    ran = bare(each, wire.encode(steps))

    assert ran == expected(row, len(steps) - 1)


@pytest.mark.needs_landlock(4)
@pytest.mark.parametrize(
    ("rule", "error"),
    [((landlock.BIND_TCP, 80), 0), ((landlock.BIND_TCP, 1 << 16), errno.EINVAL), ((1 << 40, 80), errno.EINVAL)],
)
def test_a_port_is_given_back_the_same_way(each: Opened, rule: tuple[int, int], error: int) -> None:
    ports = step(StepKind.PORT, *rule)
    allowed = beneath(Path("/"), READ | WRITE)

    ran = bare(each, wire.encode([*landlocked(allowed, ports, network=landlock.BIND_TCP), SAY_RAN]))

    assert ran.records[-1] == ((wire.FAILED, 3, StepKind.PORT, error) if error else (wire.READY, 6, StepKind.EXEC, 0))


@pytest.mark.needs_landlock(1)
@pytest.mark.parametrize(
    ("given", "is_written", "out"),
    [
        (7, True, b"opened\n"),
        (1, True, b"opened\n"),
        (6, True, b"refused\n"),
        (0, True, b"refused\n"),
        (7, False, b"refused\n"),
    ],
)
def test_a_terminal_that_the_command_holds_can_be_opened_again_when_the_plan_says_so(
    given: int, is_written: bool, out: bytes, each: Opened
) -> None:
    """And not for writing, where it holds it for reading alone."""
    ours, theirs = os.openpty()
    if not is_written:
        alone = os.open(os.ttyname(theirs), os.O_RDONLY | os.O_NOCTTY)
        os.close(theirs)
        theirs = alone
    rules = [step(StepKind.TERMINALS, landlock.WRITE_FILE, given)] if given else []
    try:
        ran = bare(
            each,
            wire.encode([*landlocked(*rules, rights=landlock.WRITE_FILE), shell(OPEN_AGAIN)]),
            stdin=theirs,
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert ran.out == out


@pytest.mark.needs_landlock(7)
def test_the_kernel_takes_the_flag_with_which_it_logs(each: Opened, floor: Floor) -> None:
    log = step(StepKind.LOG, strings=("rf-0123456789ab",))

    script = shell(f"(: > {floor.file}) 2>&- || echo refused")

    ran = bare(each, wire.encode([log, *landlocked(beneath(Path("/"), READ)), script]))

    assert ran.out == b"refused\n"


def test_the_python_enactor_refuses_a_view_whole_before_it_does_anything(python: Opened, floor: Floor) -> None:
    namespaces = step(StepKind.NAMESPACES, 0x10020000)
    view, attach = step(StepKind.VIEW, 0), step(StepKind.ATTACH)

    ran = bare(python, wire.encode([namespaces, view, attach, STREAMS, SAY_RAN]))

    assert ran == Ran(125, ((wire.FAILED, 0, StepKind.NAMESPACES, errno.ENOSYS),), b"")
