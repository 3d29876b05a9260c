"""Enactors that are ready before they are needed.

A nursery is an enactor with a plan's walls in hand, which forks a standby when asked; a standby stands behind those
walls and waits for a command, so that the next one starts at once. Neither runs anything by itself.
"""

import _socket
import _thread
import contextlib
import errno
import itertools
import mmap
import os
import struct
import time
from collections import deque

from ..model import Observe, Plan, Step, StepKind
from . import wire
from .linux import Launch, spawn
from .process import Adopted, Streams

_DESCRIPTORS = struct.Struct("2i")
_OWN = struct.pack("3i", 0, 1, 2)
_ROOM = 64  # for them, as they come


class Begun:
    """Whether a command has begun, where no record tells: it says so in memory that its nursery shares with us, by the
    number of its run."""

    PLACES = 1024  # so many in that memory; a number has the one that it leaves over

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory, self.number = memory, number

    def is_told(self) -> bool:
        """Where a later run has the same place nobody knows any more: then it may have, and is not begun again."""
        at = self.number % self.PLACES * 4
        return int.from_bytes(self._memory[at : at + 4], "little") >= self.number


class Nursery:
    """Lives as long as the plan it was made for; its end is ours, or that of the socket between us."""

    def __init__(self, plan: Plan, walls: bytes, steps: int) -> None:
        """`walls` are the encoded steps of the walls, so many; `plan` is any plan with those walls."""
        self._plan = plan
        # Inside bubblewrap it is another process that tells what it sees, by a socket of its own.
        self._is_handed_on = any(step.kind is StepKind.BUBBLEWRAP for step in plan.steps)
        self.is_plain = not (plan.limits or plan.screen.mask or plan.observe > Observe.REFUSALS or plan.asks)
        self.is_plain &= not (plan.observe and self._is_handed_on)
        self._lock = _thread.allocate_lock()
        self._asked = deque[float]()  # when those were asked for that were not taken yet
        self._back: list[tuple[float, Standby]] = []  # whose wardens went on to stand by again, and since when
        self._goes_on = False  # the last one did, so that the next will most likely
        self._is_closed = False
        self._numbers = itertools.count(1)  # of the runs that were begun here
        with contextlib.ExitStack() as stack:
            shared = os.memfd_create("begun", os.MFD_CLOEXEC)
            stack.callback(os.close, shared)
            os.ftruncate(shared, mmap.PAGESIZE)
            self._begun = mmap.mmap(shared, mmap.PAGESIZE)
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, null)
            self._request, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            stack.callback(theirs.close)
            first = Step(StepKind.NURSERY, "fork when asked", (theirs.fileno(), shared))
            last = Step(StepKind.AWAIT, "wait for a command", (theirs.fileno(), Standby.MILLISECONDS))
            data = wire.whole(steps + 2, (wire.encode_step(first), walls, wire.encode_step(last)))
            try:
                streams = Streams()
                streams.open((null, null, null))
                self._launch = spawn(plan, data, streams, theirs.fileno(), shared)
            except BaseException:
                self._request.close()
                raise

    def ask(self, most: int = 1) -> None:
        """Have one more stand by, if fewer than so many do, and those that run now will not stand by again. Raises
        OSError when the nursery is gone."""
        if self._goes_on:
            return
        with self._lock:
            since = time.monotonic() - Standby.SECONDS  # who waits for longer has gone, or will have
            if sum(asked > since for asked in self._asked) < most:
                self._ask()

    def _ask(self) -> None:
        self._request.send(b"!")
        self._asked.append(time.monotonic())

    def take(self) -> "Standby":
        """One that stands by, and has not waited for too long; if none was asked for, it comes in a moment. Raises
        OSError as above."""
        while True:
            try:
                since, standby = self._back.pop()  # the one that came last
            except IndexError:
                break
            if time.monotonic() - since < Standby.SECONDS:
                return standby
            standby.close()
        while True:
            with self._lock:
                was_asked = bool(self._asked)
                if not was_asked:
                    self._ask()
                since = self._asked.popleft()
            standby = self._receive()
            if not was_asked or time.monotonic() - since < Standby.SECONDS:
                return standby
            standby.close()

    def _receive(self) -> "Standby":
        data, rights, _, _ = self._request.recvmsg(4, _ROOM, _socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise ConnectionResetError
        given = rights[0][2] if rights else b""
        if len(given) != _DESCRIPTORS.size:  # there was no room for both
            for fd in memoryview(given).cast("i"):
                os.close(fd)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        status, request = _DESCRIPTORS.unpack(given)
        launched = Launch(Adopted(int.from_bytes(data, "little")), status, self._plan)
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, request)
        return Standby(self, launched, channel, bool(self._plan.observe) and not self._is_handed_on)

    def take_back(self, pid: int, status: int, channel: _socket.socket) -> bool:
        """One of ours has ended well, and its warden has gone on: the next command's process stands by, on the same
        channels. Whether they are ours again."""
        now, old = time.monotonic(), None
        standby = Standby(self, Launch(Adopted(pid), status, self._plan), channel, True)
        with self._lock:
            back = self._back
            self._goes_on = not self._is_closed
            if self._is_closed or len(back) >= Standby.MOST:
                return False
            if back and now - back[0][0] > 2 * Standby.SECONDS:
                old = back.pop(0)[1]  # it has ended by itself long since
            back.append((now, standby))
        if old is not None:
            old.close()
        return True

    def begin(self) -> "Begun | None":
        """One more of our runs, which says in our memory that it has begun; nobody inside bubblewrap has that."""
        return None if self._is_handed_on else Begun(self._begun, next(self._numbers))

    def lose(self) -> None:
        """One of ours has ended for good: the next takes its place."""
        self._goes_on = False
        if not self._is_closed:
            with contextlib.suppress(OSError):  # whoever takes one will hear of it
                self.ask()

    def disown(self) -> None:
        """In a fork of our caller's: it is not ours."""
        self._request.close()
        for _, standby in self._back:
            standby.disown()

    def close(self) -> None:
        """Let it go, and whoever stands by."""
        with self._lock:
            self._is_closed = True
        while self._back:
            self._back.pop()[1].close()
        with contextlib.suppress(OSError):
            while self._asked:
                self._asked.popleft()
                self._receive().close()
        self._request.close()
        with self._launch:
            self._launch.outlast()


class Standby:
    """An enactor behind its walls. It serves once, and ends by itself after a moment or when we are gone; behind it
    there may be the next."""

    MILLISECONDS = 1000
    SECONDS = MILLISECONDS * 0.0009  # so long it is relied on
    LONGEST = 1 << 16  # bytes of the command's own plan
    is_awaited_at_its_end = False  # and by nobody before, so that nobody need be woken when its command begins
    MOST = 32  # that are kept of those whose wardens went on: as many as run at once, if those are not more

    def __init__(self, nursery: Nursery, launched: Launch, request: _socket.socket, is_told: bool) -> None:
        """`is_told`: what the warden sees comes back by the same way."""
        self._nursery = nursery
        self._launch = launched
        self._request = request
        self._is_told = is_told

    def resume(self, plan: Plan, data: bytes, streams: Streams | None = None) -> Launch:
        """Give it its command: the command's own steps, as a plan, and what 0 to 2 become, or our own."""
        launched, files = self._launch, _OWN
        if self.is_awaited_at_its_end:
            launched.begun = begun = self._nursery.begin()
            data = wire.numbered(data, begun.number) if begun is not None else data
        if streams is not None:
            files = struct.pack("3i", *(number if fd is None else fd for number, fd in enumerate(streams.theirs)))
        try:
            self._request.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        except (BrokenPipeError, ConnectionResetError):
            pass  # gone: the outcome will say so
        except BaseException:
            self._request.close()
            raise
        launched.plan = plan
        launched.was_standby = True
        if self._is_told:
            launched.seen = self._request
            launched.home = self._nursery
        else:
            self._request.close()
        if streams is None:
            launched.is_plain = self._nursery.is_plain
        else:
            launched.process.pipes = streams.pipes
        return launched

    def close(self) -> None:
        """Let it go."""
        self._request.close()
        with self._launch:
            self._launch.outlast()

    def disown(self) -> None:
        """In a fork of our caller's: it is not ours."""
        self._request.close()
