"""Launching behind Seatbelt, on macOS: `sandbox-exec` with the plan's profile, and what stands at the paths it names.

Not run on a Mac by its makers yet: the profile is judged on Linux, and this file is tried there with a stand-in for
sandbox-exec. A shell inside the sandbox says "ready" on a pipe before it becomes the command, so that a profile that is
not accepted is a refusal, and never an exit code of the command's.
"""

import contextlib
import errno
import os
import signal
import stat
import subprocess
from collections.abc import Iterable, Set
from types import TracebackType

import msgspec

from ..model import (
    Disk,
    Ending,
    Exited,
    Host,
    Kind,
    LaunchError,
    Place,
    Plan,
    Refused,
    Signalled,
    StepKind,
    TimedOut,
)
from . import unsupported
from .flows import Sink
from .links import followed

PROGRAM = "/usr/bin/sandbox-exec"
TRIED = (PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true")
SHELL = ("/bin/bash", "-p", "-c")  # it reads no file and no variable, and knows descriptors above 9
GRACE = 2.0


def probe(ids: tuple[int, int] | None = None) -> Host:
    """What this machine can enforce, found by trying."""
    try:
        works = subprocess.run(TRIED, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        works = False
    uid, gid = ids or (os.geteuid(), os.getegid())
    machine = os.uname()
    return Host("darwin", machine.machine, seatbelt=works, kernel=machine.release, uid=uid, gid=gid)


def look(path: str) -> Place:
    """What stands at a path. Seatbelt judges names, so nothing is held open."""
    found_links, real = followed(path)  # by one look: who could turn a link meanwhile would have one of two see none
    try:
        found = os.stat(real)
    except OSError:
        return Place(path, real, Kind.MISSING, links=found_links)
    is_directory, is_file = stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode)
    kind = Kind.DIRECTORY if is_directory else Kind.FILE if is_file else Kind.OTHER
    return Place(path, real, kind, found.st_dev, found.st_ino, links=found_links)


def survey(
    paths: Iterable[str],
    held: list[int],
    known: Disk = Disk({}),  # noqa: B008 - frozen
    ids: tuple[int, int] | None = None,
    denied: Set[str] = frozenset(),
) -> Disk:
    """Look at all paths once; what is known already is not looked at again."""
    return msgspec.structs.replace(known, places={path: look(path) for path in paths} | known.places)


class Launch(unsupported.Launch):
    """A living process group. A context manager; leaving it ends the group."""

    is_ready = True

    def __init__(self, process: "subprocess.Popen[bytes]", ready: int, plan: Plan) -> None:
        self.process = process
        self.plan = plan
        self._ready = ready

    def end_with(self, pid: int) -> None:
        """Nobody watches here."""
        raise LaunchError("network.endWithProxy", "cannot be held on macOS", "leave it out")

    def opened(self, count: int) -> tuple[int, ...]:
        """No plan for macOS opens sockets inside."""
        return ()

    def __enter__(self) -> "Launch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end()
        os.close(self._ready)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def signal(self, number: int) -> None:
        """Send a signal to the command, and to its group when it has one of its own."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended
                (os.killpg if self.plan.is_detached else os.kill)(self.process.pid, number)

    def forward(self, number: int) -> None:
        """Pass a signal on. At a terminal its keys have reached the command already, for it is in our own group."""
        if self.plan.is_detached or number not in (signal.SIGINT, signal.SIGQUIT):
            self.signal(number)

    def end(self) -> None:
        """SIGTERM, and SIGKILL for what is left after a moment."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def wait(
        self, timeout: float | None = None, data: bytes = b"", sink: Sink | None = None, output: int | None = None
    ) -> tuple[Ending, bytes | None, bytes | None]:
        """Wait for the end; what was captured comes with it, or is given to `sink` then."""
        is_late = False
        try:
            out, err = self.process.communicate(data if self.process.stdin is not None else None, timeout)
        except subprocess.TimeoutExpired:
            is_late = True
            self.end()
            out, err = self.process.communicate()
        ending = TimedOut(timeout or 0.0) if is_late else self._ending(err)
        if sink is None:
            return ending, out, err
        for number, text in ((1, out), (2, err)):
            if text:
                sink(number, text)
        return ending, None, None

    def supervise(
        self,
        sink: Sink | None = None,
        data: bytes = b"",
        timeout: float | None = None,
        output: int | None = None,
        finish: bool = True,
    ) -> unsupported.Supervisor:
        raise LaunchError("macOS", "a run is only waited for here", "use ringfence.run")

    def ending(self) -> Ending:
        """How it ended."""
        return self._ending(None)

    def _ending(self, said: bytes | None) -> Ending:
        code = self.process.returncode
        if os.read(self._ready, 1) != b"R":
            words = (said or b"").decode("utf-8", "replace").strip()
            return Refused(0, "sandbox-exec", errno.EPROTO, words or f"sandbox-exec ended with {code} and ran nothing")
        return Exited(code) if code >= 0 else Signalled(-code)


def start(
    plan: Plan,
    data: bytes,
    pumped: tuple[int, ...] = (),
    capture: bool = False,
    feed: bool = False,
    standby: object | None = None,
    group: object | None = None,
) -> Launch:
    """Start the command behind its profile. `data`, the steps for an enactor, is not wanted here."""
    last, cwd = plan.steps[-1], _directory(plan)
    words = [os.fsdecode(word) for word in last.strings[1:]]
    argv, environ = words[: last.numbers[0]], dict(word.split("=", 1) for word in words[last.numbers[0] :])
    read, write = os.pipe()
    at = argv.index("-p") + 2 if argv[0] == PROGRAM else 0  # with enforcement off nothing stands before it
    argv[at:at] = [*SHELL, f'printf R >&{write} && exec {write}>&- && exec "$0" "$@"']
    uid, gid = plan.ids or (None, None)
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, env=environ, pass_fds=(write,), start_new_session=plan.is_detached,
            stdin=pipe if feed else None, stdout=pipe if capture else None, stderr=pipe if capture else None,
            user=uid, group=gid, extra_groups=[] if plan.ids else None,
        )  # fmt: skip
    except OSError as error:
        os.close(read)
        raise LaunchError(argv[0], f"cannot be started: {error.strerror}", "`ringfence doctor` says more") from None
    finally:
        os.close(write)
    return Launch(process, read, plan)


def _directory(plan: Plan) -> str:
    return next(os.fsdecode(step.strings[0]) for step in plan.steps if step.kind is StepKind.DIRECTORY)
