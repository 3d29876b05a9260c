"""Runs beside a run: who listens for a ringfence inside it, and starts what that asks for.

Inside a run nobody may build walls, so an inner `ringfence run` hands its streams to the outer one, which starts a
sibling with the narrower of the two policies (`beside`). Here is the outer one's half: a thread that starts a process
for each who asks. That process reads what was sent; we do not. It ends with us, and with whoever asked.

Every word that comes through the socket is the command's. So there are never more than `MOST` siblings of a run, those
of its siblings among them: each has one place of a file that they share, locked until the last of it is gone, however
it ends.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all, in half a millisecond
import _socket
import contextlib
import fcntl
import os
import select
import stat
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from .beside import Bound
from .enforce import Launch
from .enforce.process import sealed
from .model import BUILT_IN, Enforcement, UsageError

if TYPE_CHECKING:
    from .keep import Prepared

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")

MOST = 16
PATIENCE = 3.0  # seconds for siblings to end when the run has
TAKEN, TOO_MANY = b"\0", b"\x02"
_PROGRAM = (  # by that name it does without much of what msgspec imports, as the command does
    "import sys; sys.argv[0] = 'ringfence'; sys.path.insert(0, {!r}); sys.path.append({!r}); "
    "from ringfence.cli.beside import serve; serve(sys.argv[1:])"
)
_PACKAGE, _OTHERS = (os.path.dirname(os.path.dirname(os.path.abspath(one))) for one in (__file__, msgspec.__file__))

_LOCK = struct.Struct("hhqqi4x")  # struct flock


class Siblings:
    """Those of one run, from the first that is asked for to its end."""

    def __init__(self, made: "Prepared", launch: Launch) -> None:
        self._door, self._run, self._watch = made.door, launch.process.pid, launch.watched()
        self._uid = made.request.ids[0] if made.request.ids else os.geteuid()
        self._ended = os.pidfd_open(self._run)  # raises when nobody is left who could ask
        self._bound = -1
        with contextlib.suppress(UnicodeEncodeError):  # a path that cannot be written down: then nobody is served
            self._bound = sealed(bound_of(made))
        places, groups = _inherited
        self._places = os.memfd_create("siblings") if places < 0 else os.dup(places)
        # A sibling is in the group of the run around it: in that of a run that has none of its own, in ours.
        self._groups = [*map(os.dup, groups)] if launch.group is None else launch.group.open_lists()
        self._lifeline = os.pipe()
        _held.add(self._lifeline[1])
        self._living: dict[int, int] = {}  # by pidfd
        # Whoever serves the next one: it takes a Python longer to begin than to do all the rest, so one is ready.
        self._spare: tuple[int, _socket.socket] | None = None
        self._poller = select.poll()

    def serve(self, over: int) -> None:
        """Start whoever is asked for, until something comes on a descriptor, or the run has ended: then all of them
        end. They may hold its streams, and whoever waits for those to be closed would wait for ever."""
        try:
            for fd in (self._door, self._ended, over):
                self._poller.register(fd, select.POLLIN)
            ready: list[int] = []
            while over not in ready and self._ended not in ready:
                for fd in ready:
                    if fd == self._door:
                        self._admit()
                    else:
                        self._poller.unregister(fd)
                        self._reap(fd)
                ready = [fd for fd, _ in self._poller.poll()]
        finally:
            _let_go(self._lifeline[1])
            self._dismiss()
            self._end()
            bound = [self._bound] if self._bound >= 0 else []
            for fd in (self._ended, self._lifeline[0], self._places, *self._groups, *bound):
                os.close(fd)

    def _admit(self) -> None:
        """Have somebody serve the next one that asks, and somebody ready for who comes after."""
        link = self._next()
        if link < 0:
            return
        word, place = b"", -1
        try:
            place = self._take() if self._bound >= 0 else -1
            word = TOO_MANY if self._bound >= 0 else b""
            if place >= 0:
                self._spare = self._spare or self._start()
                rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("2i", link, place))]
                self._spare[1].sendmsg([TAKEN], rights, _socket.MSG_NOSIGNAL)
                word = TAKEN
        except OSError:
            word = b""
        if place >= 0:
            os.close(place)  # whoever serves has it
            self._dismiss()
        _say(link, word)
        if word == TAKEN:
            with contextlib.suppress(OSError):  # then the next one is waited for
                self._spare = self._start()

    def _dismiss(self) -> None:
        """Nobody is given anything more by what we have: who was given nothing ends."""
        if self._spare is not None:
            _let_go(self._spare[1].detach())
        self._spare = None

    def _take(self) -> int:
        """A place that nobody has, for as long as it is open; -1 when there is none."""
        found = os.open(f"/proc/self/fd/{self._places}", os.O_RDWR | os.O_CLOEXEC)  # to be locked against all others
        for number in range(MOST):
            with contextlib.suppress(BlockingIOError):
                fcntl.fcntl(found, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
                return found
        os.close(found)
        return -1

    def _next(self) -> int:
        """The other end of whoever asks, or -1."""
        if stat.S_ISFIFO(os.fstat(self._door).st_mode):
            from .taking import taken

            try:
                return taken(os.read(self._door, 8), self._run, self._uid)
            except OSError:
                return -1
        door: Any = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, self._door)
        try:
            link: int = door._accept()[0]
            return link
        except OSError:
            return -1
        finally:
            door.detach()

    def _start(self) -> tuple[int, _socket.socket]:
        """Somebody who serves whoever is handed over, and where that is done."""
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        given = (theirs.fileno(), self._lifeline[0], self._bound, self._places, *self._groups)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in range(3)]
            actions += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in given]
            words = [sys.executable, "-I", "-c", _PROGRAM.format(_PACKAGE, _OTHERS), *map(str, given)]
            asked = (signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD)
            pid = os.posix_spawn(sys.executable, words, os.environ, file_actions=actions, setsid=True, setsigdef=asked)
        finally:
            os.close(null)
            theirs.close()
        if self._watch is not None:
            self._watch.count_with(pid)
        watch = os.pidfd_open(pid)
        self._living[watch] = pid
        self._poller.register(watch, select.POLLIN)
        _held.add(ours.fileno())
        return pid, ours

    def _reap(self, watch: int) -> None:
        pid = self._living.pop(watch)
        if self._spare is not None and self._spare[0] == pid:
            self._dismiss()
        with contextlib.suppress(ChildProcessError):
            if self._watch is not None:
                self._watch.reap(pid)
            else:
                os.waitpid(pid, 0)
        os.close(watch)

    def _end(self) -> None:
        until = time.monotonic() + PATIENCE
        for watch, pid in tuple(self._living.items()):
            poller = select.poll()
            poller.register(watch, select.POLLIN)
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._reap(watch)


def bound_of(made: "Prepared") -> bytes:
    """What holds the siblings of a run."""
    whole, request = made.judged(), made.request
    own = f"{made.temporary}/"  # what is there is this run's alone: its door, its agent
    rules = tuple(rule for rule in whole.rules if not rule.path.startswith(own))
    shown = tuple(one for one in whole.injections if one.origin != BUILT_IN)
    # Where the run has all that is required, so has what is beside it, whatever that adds to the policy.
    enforcement = made.loaded.enforcement if made.required else Enforcement.REQUIRED
    held = msgspec.structs.replace(made.loaded, rules=rules, injections=shown, enforcement=enforcement)
    return msgspec.json.encode(Bound(held, request.workspace, request.home, request.ids))


def _say(link: int, word: bytes) -> None:
    """The first word to whoever asks, and our end of it given up."""
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, link)
    with contextlib.suppress(OSError):  # it is gone, or takes nothing
        end.send(word, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        if word != TAKEN:  # nobody else has it, but perhaps whoever asks: it would wait for more
            end.shutdown(_socket.SHUT_WR)
    end.close()


_held: set[int] = set()  # by which those who serve know that we are there


def _let_go(fd: int) -> None:
    _held.discard(fd)
    os.close(fd)


def _disown() -> None:
    """In a fork of our caller's: let go of them, or whoever serves would live as long as the fork."""
    for fd in tuple(_held):
        _let_go(fd)


os.register_at_fork(after_in_child=_disown)

_inherited: tuple[int, tuple[int, ...]] = -1, ()


def inherit(places: int, groups: tuple[int, ...]) -> None:
    """We are a sibling ourselves: ours count with those of the run around us, and are in its group."""
    global _inherited
    _inherited = places, groups
