"""The bench on which the enactor is tested: its builds, a bare start of any of them, and plans to give it.

A bare start goes through no code of ours: it spawns the program with exactly the descriptors a test names, and gives
back the exit code, the records and the output. Launches by way of `enforce.start` are what the product does.
"""

import contextlib
import fcntl
import os
import runpy
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ringfence import enforce, plan
from ringfence.enforce import bubblewrap
from ringfence.enforce.enactor import FALLBACK, PROGRAM, Opened
from ringfence.enforce.process import sealed
from ringfence.model import (
    BUILT_IN,
    Access,
    Command,
    Enactor,
    Ending,
    Enforcement,
    Need,
    Plan,
    Policy,
    Rule,
    Step,
    StepKind,
    Verdict,
)

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ringfence" / "enforce" / "enact.c"
HARNESS = ROOT / "tests" / "fuzz" / "check_plan.c"
CFLAGS: tuple[str, ...] = runpy.run_path(str(ROOT / "hatch_build.py"))["CFLAGS"]
WARNINGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fno-strict-aliasing")
SANITIZED = (*WARNINGS, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SECONDS = 60.0  # nothing here takes one; a hang ends with a signal instead of the whole run

Record = tuple[int, int, int, int]


class Ran(NamedTuple):
    """How a bare start ended. A negative code is a signal; stdout and stderr come together."""

    code: int
    records: tuple[Record, ...]
    out: bytes


class Pipe(NamedTuple):
    read: int
    write: int


@contextlib.contextmanager
def pipe(both_ways: bool = False) -> Iterator[Pipe]:
    """A pipe, or a pair of sockets, whose ends are closed at the end, if the test has not done it: their numbers may be
    another's by then."""
    ends = Pipe(*(end.detach() for end in socket.socketpair())) if both_ways else Pipe(*os.pipe())
    own = [os.fstat(fd) for fd in ends]
    try:
        yield ends
    finally:
        for fd, known in zip(ends, own, strict=True):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(fd), known):
                    os.close(fd)


def opened(path: str | Path) -> Opened:
    """A program as an enactor, whatever its digest says."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return Opened(Enactor.PYTHON if str(path).endswith(".py") else Enactor.NATIVE, fd, str(path))


def spawned(
    enactor: Opened,
    words: tuple[int | str, ...],
    streams: Mapping[int, int | None],
    passed: Mapping[int, int],
    environ: Mapping[str, str],
) -> int:
    """Start an enactor with these descriptors and no others: None closes one of 0 to 2."""
    arguments, executable = enactor.command()
    actions: list[tuple[int, int, int] | tuple[int, int]] = []
    for target, source in {**streams, **passed, enactor.fd: enactor.fd}.items():
        actions.append((os.POSIX_SPAWN_CLOSE, target) if source is None else (os.POSIX_SPAWN_DUP2, source, target))
    # Python ignores some signals for itself, and that would be inherited.
    defaults = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return os.posix_spawn(executable, [*arguments, *map(str, words)], environ, file_actions=actions, setsigdef=defaults)


def bare(
    enactor: Opened,
    data: bytes | int,
    stdin: int | None = -1,
    passed: Mapping[int, int] | None = None,
    words: tuple[int | str, ...] | None = None,
    environ: Mapping[str, str] | None = None,
    handed: Callable[[int, int], None] | None = None,
) -> Ran:
    """Start an enactor on a plan (bytes, or a descriptor of the test's own) and see what becomes of it. `handed` is
    given each descriptor that comes with a record, behind the record's tag."""
    fd = sealed(data) if isinstance(data, bytes) else data
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    with pipe() as out, pipe(both_ways=True) as status:
        streams = {0: null if stdin == -1 else stdin, 1: out.write, 2: out.write}
        inherited = {fd: fd, status.write: status.write} if words is None else {}
        given = (fd, status.write) if words is None else words
        try:
            pid = spawned(enactor, given, streams, {**inherited, **(passed or {})}, environ or {})
        finally:
            os.close(null)
            if isinstance(data, bytes):
                os.close(fd)
        os.close(out.write)
        os.close(status.write)
        watchdog = threading.Timer(SECONDS, os.kill, (pid, signal.SIGKILL))
        watchdog.start()
        records = b"" if handed is None else receive_all(status.read, handed)
        text, records = read_all(out.read), records or read_all(status.read)
        _, code = os.waitpid(pid, 0)
        watchdog.cancel()
        watchdog.join()
    return Ran(os.waitstatus_to_exitcode(code), tuple(struct.iter_unpack("<IIII", records)), text)


def receive_all(fd: int, handed: Callable[[int, int], None]) -> bytes:
    parts: list[bytes] = []
    with socket.socket(fileno=os.dup(fd)) as end:
        while True:
            data, fds, _, _ = socket.recv_fds(end, 1 << 16, 4)
            for one in fds:
                handed(struct.unpack_from("<I", data, len(data) - 16)[0], one)
            if not data:
                return b"".join(parts)
            parts.append(data)


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


# ---- Plans ----


def step(kind: StepKind, *numbers: int, strings: tuple[bytes | str | Path, ...] = ()) -> Step:
    return Step(kind, kind.name.lower(), numbers, tuple(map(os.fsencode, strings)))


def execute(*argv: bytes | str | Path, environ: tuple[bytes | str, ...] = ()) -> Step:
    """The last step: the first word is the path too."""
    return step(StepKind.EXEC, len(argv), strings=(argv[0], *argv, *environ))


def shell(script: str) -> Step:
    return execute("/bin/sh", "-c", script, environ=("PATH=/usr/bin:/bin",))


STREAMS = step(StepKind.STREAMS)
NO_NEW_PRIVS = step(StepKind.NO_NEW_PRIVS)


def plan_of(*steps: Step) -> Plan:
    return Plan(steps, (), Enforcement.REQUIRED, ("test",), "/", ())


def launched(made: Plan) -> tuple[Ending, bytes]:
    """Launch a plan as the product does, with pipes for streams."""
    with enforce.start(made, enforce.encode(made.steps), capture=True, feed=True) as launch:
        ending, out, err = launch.wait(SECONDS, b"")
    return ending, (out or b"") + (err or b"")


class Walls(NamedTuple):
    """Which walls a real plan has."""

    view: bool
    detached: bool = True
    bubblewrap: bool = False
    locked: bool = False

    def __str__(self) -> str:
        if self.bubblewrap or self.locked:
            return "bubblewrap" if self.bubblewrap else "locked view"
        return ("detached view" if self.detached else "attached view") if self.view else "no view"


def rule(access: str, verdict: Verdict, path: str | Path, need: Need = Need.REQUIRED) -> Rule:
    return Rule(Access(access), verdict, str(path), BUILT_IN, need=need)


class Site:
    """A workspace with a hidden and an unwritable place in it, and the real plans for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = path / "sub" / "made"  # with and without a view the command may write here
        self.held: list[int] = []
        for name in (".git/hooks", "hidden", "sub"):
            (path / name).mkdir(parents=True)
        (path / ".git" / "config").write_text("[core]\n")
        (path / "hidden" / "secret").write_text("secret\n")

    def policy(self) -> Policy:
        allow, deny = Verdict.ALLOW, Verdict.DENY
        return Policy(
            str(self.path),
            (
                rule("read", allow, "/"),
                *(rule("read", deny, path) for path in ("/home", "/root", "/mnt", "/etc/shadow")),
                rule("read", allow, self.path),
                rule("write", allow, self.path),
                rule("read", deny, self.path / "hidden"),
                rule("write", deny, self.path / ".git" / "hooks"),
                rule("write", deny, self.path / ".git" / "config"),
            ),
        )

    def plan(self, walls: Walls, script: str = "echo ran > sub/made") -> Plan:
        """What make_plan gives on this machine, with the walls asked for."""
        policy = self.policy()
        facts = enforce.probe()
        host = msgspec.structs.replace(
            facts, namespaces=walls.view and facts.namespaces, detached_mounts=walls.detached and facts.detached_mounts
        )
        if walls.bubblewrap:
            host = bubblewrap.found(msgspec.structs.replace(host, namespaces=False), None)
        temporary = "" if plan.has_view(host) else str(self.path / "sub")
        disk = enforce.survey([*plan.named_paths(policy), *([temporary] if temporary else [])], self.held)
        pins, spines = plan.further_paths(plan.lay_out(policy, host, disk, temporary), host)
        disk = enforce.list_children(enforce.survey(pins, self.held, disk), spines)
        environ = {"PATH": "/usr/bin:/bin"}
        command = Command(("sh", "-c", script), str(self.path), environ, "/bin/sh", temporary=temporary)
        command = msgspec.structs.replace(command, lends=walls.locked)
        return plan.make_plan(policy, command, host, disk)

    def close(self) -> None:
        enforce.let_go(self.held)


@pytest.fixture
def site(tmp_path: Path, settled: None) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


WALLS = (
    pytest.param(Walls(view=True), id="detached view", marks=pytest.mark.needs_userns),
    pytest.param(Walls(view=True, detached=False), id="attached view", marks=pytest.mark.needs_userns),
    pytest.param(Walls(view=True, locked=True), id="locked view", marks=pytest.mark.needs_userns),
    pytest.param(Walls(view=True, bubblewrap=True), id="bubblewrap", marks=pytest.mark.needs_bwrap),
    pytest.param(Walls(view=False), id="no view", marks=pytest.mark.needs_landlock(1)),
)


# ---- Builds ----

Build = Callable[[str, Path, tuple[str, ...]], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a source with flags, once for each name: those who test beside us have what was compiled by one."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "build"
    directory.mkdir(exist_ok=True)

    def compiled(name: str, source: Path, flags: tuple[str, ...]) -> Path:
        program = directory / name
        with open(f"{program}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                subprocess.run(["cc", *flags, "-o", f"{program}.new", source], check=True)
                os.rename(f"{program}.new", program)
        return program

    return compiled


@pytest.fixture(scope="session")
def native() -> Opened:
    return opened(PROGRAM)


@pytest.fixture(scope="session")
def python() -> Opened:
    return opened(FALLBACK)


@pytest.fixture(scope="session")
def sanitized(build: Build) -> Opened:
    """The enactor against a libc, with address and undefined-behaviour sanitizers."""
    return opened(build("enact-sanitized", SOURCE, ("-DHOSTED", *SANITIZED)))


@pytest.fixture(scope="session")
def faulty(build: Build) -> Opened:
    """The enactor that fails the step it is told to, otherwise built as the product's."""
    return opened(build("enact-faulty", SOURCE, ("-DFAULT", *CFLAGS)))


@pytest.fixture(scope="session")
def harness(build: Build) -> Path:
    return build("check-plan", HARNESS, SANITIZED)


@pytest.fixture(params=["native", "python", "sanitized"])
def each(request: pytest.FixtureRequest) -> Opened:
    """Each of the three enactors."""
    found: Opened = request.getfixturevalue(request.param)
    return found
