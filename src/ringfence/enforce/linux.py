"""Launching a plan, and waiting for what becomes of it."""

import _socket  # what `socket` adds is not needed here, and costs the hot path
import contextlib
import errno
import fcntl
import os
import signal
import struct
from types import TracebackType
from typing import TYPE_CHECKING

from ..model import Ending, Exited, LaunchError, Plan, Refused, Signalled, Step, StepKind, TimedOut
from . import enactor, wire
from .process import LOST, PIPE, Process, Streams, TimeoutExpired
from .streams import pump
from .wire import encode_step

if TYPE_CHECKING:
    from threading import Thread

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_GRACE = 2.0
OWN = (StepKind.STREAM, StepKind.STREAMS, StepKind.DIRECTORY, StepKind.EXEC)  # the steps that a standby is handed


def sealed(data: bytes) -> int:
    """Bytes that nobody can change any more, on a descriptor."""
    fd = os.memfd_create("ringfence-plan", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


class Launch:
    """A living process tree. A context manager; leaving it ends the tree."""

    def __init__(self, process: Process, status: int, plan: Plan) -> None:
        self.process = process
        self.plan = plan
        self.pumps: list[Thread] = []
        self.failed: list[OSError] = []  # what stopped a pump before its end
        self.was_standby = False
        self._status = status
        _lifelines.add(status)

    def __enter__(self) -> "Launch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.end()
        self.process.close()
        self._let_go()

    def _let_go(self) -> None:
        """Close the status channel, which is the warden's lifeline too: it ends, and everything with it."""
        if self._status >= 0:
            if self.plan.has_warden:
                _shut(self._status)
            _lifelines.discard(self._status)
            os.close(self._status)
            self._status = -1

    def signal(self, number: int) -> None:
        """Send a signal to the command, and to its group when it has one of its own."""
        if not self.plan.has_warden:
            self.process.send(number, group=self.plan.detached)
        elif not self.process.poll():
            with contextlib.suppress(BrokenPipeError):  # it has just ended
                os.write(self._status, bytes((number,)))

    def forward(self, number: int) -> None:
        """Pass a signal on. At a terminal its keys have reached the command already, for it is in our own group."""
        if self.plan.detached or number not in (signal.SIGINT, signal.SIGQUIT):
            self.signal(number)

    def end(self) -> None:
        """SIGTERM, and SIGKILL for what is left after a moment."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(_GRACE)
        except TimeoutExpired:
            if self.plan.has_warden:
                self._let_go()
            else:
                self.signal(signal.SIGKILL)
            self.process.wait()

    def wait(self, timeout: float | None = None, data: bytes = b"") -> tuple[Ending, bytes | None, bytes | None]:
        """Wait for the end; what was captured comes with it."""
        is_piped = any(fd is not None for fd in self.process.pipes)  # asked now: each is closed at its end
        is_late = False
        try:
            if is_piped:
                self.process.communicate(data, timeout)
            else:
                self.process.wait(timeout)
        except TimeoutExpired:
            is_late = True
            self.end()
        for thread in self.pumps:  # with a warden nobody is left who could write, so their end is certain
            thread.join(None if self.plan.has_warden else _GRACE)
        if self.failed:
            hint = "the command ran; only what it wrote is not all there"
            raise LaunchError("output", f"cannot be passed on: {self.failed[0].strerror}", hint)
        out, err = self.process.output() if is_piped else (None, None)
        return TimedOut(timeout or 0.0) if is_late else self._ending(), out, err

    def _ending(self) -> Ending:
        """What the status channel and the exit code say together."""
        records = list(wire.RECORD.iter_unpack(_read_all(self._status)))
        code = self.process.returncode or 0
        failed = next((record for record in records if record[0] == wire.FAILED), None)
        ended = next((record for record in records if record[0] == wire.ENDED), None)
        is_ready = any(record[0] == wire.READY for record in records)
        if ended is not None and not ended[2]:
            return Signalled(ended[1])  # before it was ready, too: somebody asked for its end
        if self.was_standby and not is_ready and (failed is None or failed[2] not in OWN):
            return Refused(0, "standby", errno.ESTALE, "the enactor that stood by was gone before it had its command")
        if failed is not None:
            return self._refused(*failed[1:])
        if is_ready and ended is not None:
            return Exited(ended[1])
        if is_ready and self.plan.has_warden:
            return Signalled(signal.SIGKILL)  # the warden itself was ended, and the command with it
        if code == LOST:
            hint = "do not ignore SIGCHLD, and do not wait for any child"
            raise LaunchError("command", "it has ended, and somebody else was told how", hint)
        if is_ready or code < 0:
            return Exited(code) if code >= 0 else Signalled(-code)
        raise LaunchError("enactor", f"ended with {code} and said nothing", "install ringfence again")

    def _refused(self, step: int, kind: int, error: int) -> Refused:
        if kind == 0:  # before its first step: a plan it does not understand, or a user it cannot become
            text = "it does not accept the plan" if error == errno.EPROTO else f"it cannot begin: {os.strerror(error)}"
            return Refused(step, "enactor", error, text)
        what = self.plan.steps[step]
        text = f"{what.text}: {os.strerror(error)}"
        if error == errno.ESTALE:
            text = f"{what.text}: something else stands there than when it was planned"
        exit_code = 125
        if kind == StepKind.EXEC:
            exit_code = 127 if error == errno.ENOENT else 126
            text = f"{what.strings[0].decode('utf-8', 'replace')}: {os.strerror(error)}"
        return Refused(step, what.kind.word, error, text, exit_code)


_lifelines: set[int] = set()  # the status channels of living launches


def disown() -> None:
    """In a fork of our caller's: let go of the lifelines, or the runs would live as long as the fork."""
    for fd in _lifelines:
        os.close(fd)
    _lifelines.clear()
    enactor.disown()


def _shut(fd: int) -> None:
    """End a socket for everybody who holds it: a fork of our caller's may."""
    end = _socket.socket(fileno=os.dup(fd))
    with contextlib.suppress(OSError):  # the other side has ended already
        end.shutdown(_socket.SHUT_RDWR)
    end.close()


def _read_all(fd: int) -> bytes:
    """All records. A signal that the warden did not read any more makes its end a reset: the records came before."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := os.read(fd, 256):
            data += more
    return data


def _channel(plan: Plan) -> tuple[int, int]:
    """Where the records come from: a pipe, or with a warden a socket, on which we can tell it something too."""
    if not plan.has_warden:
        return os.pipe()
    ours, theirs = _socket.socketpair()
    return ours.detach(), theirs.detach()


class Pumps:
    """Pipes to and from those of our own 0 to 2 that the command must not have itself."""

    def __init__(self, pumped: tuple[int, ...], ids: tuple[int, int] | None) -> None:
        self.together = {1, 2} <= set(pumped) and os.path.sameopenfile(1, 2)  # one pipe, so that their order is kept
        pipes = {fd: os.pipe() for fd in pumped if not (self.together and fd == 2)}
        self._theirs = {fd: pair[0 if fd == 0 else 1] for fd, pair in pipes.items()}  # it reads 0 and writes the others
        self._ours = {fd: pair[1 if fd == 0 else 0] for fd, pair in pipes.items()}
        for fd in self._theirs.values() if ids else ():
            os.fchown(fd, *(ids or (0, 0)))

    def file(self, fd: int) -> int | None:
        """What the command's descriptor becomes; None is our own."""
        return self._theirs.get(1 if self.together and fd == 2 else fd)

    def given(self) -> None:
        for fd in self._theirs.values():
            os.close(fd)

    def start(self, failed: list[OSError]) -> "list[Thread]":
        """Begin to copy; the threads to wait for are those that carry output."""
        threads = []
        for fd, end in self._ours.items():
            if fd == 0:
                pump(os.dup(fd), end, failed)
            else:
                threads.append(pump(end, os.dup(fd), failed))
        return threads

    def stop(self) -> None:
        for fd in self._ours.values():
            os.close(fd)


def start(
    plan: Plan,
    data: bytes,
    pumped: tuple[int, ...] = (),
    capture: bool = False,
    feed: bool = False,
    standby: "Standby | None" = None,
) -> Launch:
    """Start the enactor on a plan's bytes, or hand them to one that stands by.

    0 to 2 are inherited, but for those in `pumped`, which we move through pipes; `capture` takes 1 and 2, `feed`
    gives 0.
    """
    pumps = Pumps(pumped, plan.ids)
    taken = PIPE if capture else None
    files = (PIPE if feed else pumps.file(0), taken or pumps.file(1), taken or pumps.file(2))
    streams = Streams()
    try:
        streams.open(files, plan.ids)
        launched = standby.resume(plan, data, streams) if standby else _spawn(plan, data, streams)
    except OSError as error:
        pumps.stop()
        streams.close()
        if standby:
            standby.close()
        raise LaunchError("enactor", f"cannot be started: {error.strerror}", "close some files or processes") from None
    finally:
        pumps.given()
        streams.given()
    launched.pumps = pumps.start(launched.failed)
    return launched


def _spawn(plan: Plan, data: bytes, streams: Streams, *kept: int) -> Launch:
    """An enactor with a plan."""
    program = enactor.open_enactor()
    sealed_plan = sealed(data)
    try:
        read, write = _channel(plan)
        arguments, executable = program.command(sealed_plan, write, ids=plan.ids)
        try:
            process = Process(executable, arguments, (sealed_plan, write, program.fd, *kept), streams)
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
    finally:
        os.close(sealed_plan)
    return Launch(process, read, plan)


class Standby:
    """An enactor that stands behind its walls already and waits for a command: the next one starts at once.

    It runs nothing, serves once, and ends by itself after a moment or when we are gone.
    """

    MILLISECONDS = 250

    def __init__(self, plan: Plan, head: bytes, steps: int) -> None:
        """`head` are the encoded steps of the walls, so many; `plan` is any plan with those walls."""
        ours, theirs = _socket.socketpair()
        self._request = ours
        last = encode_step(Step(StepKind.AWAIT, "wait for a command", (theirs.fileno(), self.MILLISECONDS)))
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            data = wire.whole(steps + 1, (head, last))
            streams = Streams()
            streams.open((null, null, null))
            self._launch = _spawn(plan, data, streams, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(null)
            theirs.close()

    def is_ready(self) -> bool:
        """Whether it still waits."""
        return not self._launch.process.poll()

    def resume(self, plan: Plan, data: bytes, streams: Streams) -> Launch:
        """Give it its command: the command's own steps, as a plan, and what 0 to 2 become."""
        sealed_plan = sealed(data)
        files = [number if fd is None else fd for number, fd in enumerate(streams.theirs)]
        rights = struct.pack("4i", sealed_plan, *files)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # gone: the outcome will say so
                self._request.sendmsg([b"!"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        finally:
            os.close(sealed_plan)
            self._request.close()
        launched = self._launch
        launched.plan = plan
        launched.was_standby = True
        launched.process.pipes = streams.pipes
        return launched

    def close(self) -> None:
        """Let it go."""
        self._request.close()
        with self._launch:
            self._launch.process.wait()
