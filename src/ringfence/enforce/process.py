"""One child process: spawned without copying us, and watched by descriptor.

`posix_spawn` and not `subprocess`: it costs a tenth less a launch, which is what the walls cost, and importing the
other costs the command twelve milliseconds.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all, in half a millisecond
import _socket
import _thread
import contextlib
import fcntl
import os
import select
from collections.abc import Sequence

from .lookout import brief

PIPE = -1
GRACE = 2.0  # from SIGTERM to SIGKILL, and for output that somebody still holds
LOST = 1 << 16  # the code of a process whose end somebody else was told of
# Python ignores the first two, and whoever started us perhaps the third; a command expects them as they were born.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)

Files = tuple[int | None, int | None, int | None]


_leaving: "list[Process]" = []
# Whoever sends something by a number or a descriptor, and whoever gives that up: from different threads. By the thread
# that has it it may be taken again, for a signal may come anywhere. Nobody waits while he has it.
sending = _thread.RLock()


def reap() -> None:
    """Forget those that were left and have ended meanwhile."""
    for process in _leaving[:]:
        try:
            has_ended = os.waitpid(process.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:  # somebody else was told
            has_ended = True
        if has_ended:
            with contextlib.suppress(ValueError):  # another thread was faster
                _leaving.remove(process)


_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


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


class TimeoutExpired(Exception):
    """The process has not ended in time; it lives."""


class Streams:
    """What 0 to 2 of a child become: our own, given ones, or pipes whose other ends we keep."""

    def __init__(self) -> None:
        self.pipes: list[int | None] = [None, None, None]  # our ends
        self.theirs: list[int | None] = [None, None, None]
        self._opened: list[int] = []

    def open(self, files: Files, owner: tuple[int, int] | None = None) -> None:
        """Each file is a descriptor, PIPE, or None for our own. The command may open a pipe again (`> /dev/stdout`)
        only if it is its `owner`'s."""
        for number, file in enumerate(files):
            if file != PIPE:
                self.theirs[number] = file
                continue
            ends = os.pipe() if number == 0 else os.pipe()[::-1]
            self._opened.append(ends[0])
            self.theirs[number], self.pipes[number] = ends
            if owner:
                os.fchown(ends[0], *owner)

    def given(self) -> None:
        """The child has its ends; ours are all we keep."""
        for fd in self._opened:
            os.close(fd)
        self._opened = []

    def close(self) -> None:
        """There will be no child."""
        self.given()
        for number, fd in enumerate(self.pipes):
            if fd is not None:
                self.pipes[number] = None
                os.close(fd)


class Process:
    """A child, or one that stands by. `returncode` is None while it lives, and negative when a signal ended it."""

    is_child = True
    leads = False  # a group that is to end with it, and that nobody else sees to
    returncode: int | None = None
    pipes: Sequence[int | None] = (None, None, None)  # our ends

    def __init__(self, program: str, arguments: list[str], kept: tuple[int, ...], streams: Streams) -> None:
        """Spawn with an empty environment; `kept` stay open. When that fails the streams are the caller's to close."""
        self.pipes = streams.pipes
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams.theirs) if fd is not None]
        # Onto itself: that clears close-on-exec in the child alone, and no other thread's child inherits it.
        actions += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in kept]
        try:
            self.pid = os.posix_spawn(program, arguments, {}, file_actions=actions, setsigdef=_RESTORED)
        finally:
            streams.given()

    def leave(self) -> None:
        """It is ending, and how is known from elsewhere: nobody need wait for it. The next that leaves sees to those
        that have ended meanwhile, so that they do not pile up."""
        self.returncode = 0
        if _leaving:
            reap()
        if self.is_child:
            _leaving.append(self)

    def _ended(self, pid: int, status: int) -> bool:
        if pid == self.pid:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def _waitpid(self, options: int) -> bool:
        try:
            if not options:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with sending:
                self._end_group()
                return self._ended(*os.waitpid(self.pid, os.WNOHANG))
        except ChildProcessError:  # somebody else took it: SIGCHLD is ignored here, or our caller waits for anybody
            with sending:  # or a thread of ours, which is about to say how it ended
                if self.returncode is None:
                    self.returncode = LOST
            return True

    def _end_group(self) -> None:
        """What is left of its group, if it has ended: as long as nobody has reaped it, the number is no other's."""
        if self.leads and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has not led one; or is another user's
                os.killpg(self.pid, signal.SIGKILL)

    def poll(self) -> bool:
        """Whether it has ended."""
        return self.returncode is not None or (self.is_child and self._waitpid(os.WNOHANG))

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self.returncode is not None:
            return
        if timeout is None:
            self._waitpid(0)
            return
        if self.poll():
            return
        watch = open_pidfd(self.pid)
        if watch < 0:
            self.poll()
            return
        try:
            poller = select.poll()
            poller.register(watch, select.POLLIN)
            if not poller.poll(max(0.0, timeout) * 1000) and not self.poll():
                raise TimeoutExpired
            self.wait()
        finally:
            os.close(watch)

    def send(self, number: int, group: bool) -> None:
        """A signal to it, or to the group it leads; nothing when it has ended."""
        with sending:
            if not self.poll():  # not reaped yet, nor meanwhile, so the number is still its own
                try:
                    (os.killpg if group else os.kill)(self.pid, number)
                except ProcessLookupError:  # it has not come so far as to lead one
                    os.kill(self.pid, number)

    def close(self) -> None:
        """Close our ends of its streams."""
        pipes, self.pipes = self.pipes, Process.pipes
        for fd in pipes:
            if fd is not None:
                os.close(fd)


class Adopted(Process):
    """Somebody else's child. Nobody waits for it: its end is known from elsewhere, and said by `leave`."""

    is_child = False

    def __init__(self, pid: int) -> None:
        self.pid = pid


def open_pidfd(pid: int) -> int:
    """A descriptor that can be read when the process has ended; -1 when the kernel reaped it, for SIGCHLD is ignored
    here."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1


def is_silent(channel: _socket.socket) -> bool:
    """Whether nothing was told on it."""
    try:
        return not channel.recv(1, _socket.MSG_DONTWAIT | _socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:  # the warden is gone with something of ours unread: what it told may be there
        return False


def shut(fd: int, how: int = _socket.SHUT_RDWR) -> None:
    """End a socket for everybody who holds it: a fork of our caller's may."""
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)  # no new descriptor: there may be none left
    try:
        with contextlib.suppress(OSError):  # the other side has ended already
            end.shutdown(how)
    finally:
        end.detach()


def inheritance() -> tuple[object, ...]:
    """What a command inherits of us besides descriptors: who we are and what we may, limits, niceness and its kind of
    turn, processors, masks of modes and signals."""
    global _inherited
    told, limits = _telling.get("self") or _listen()
    read = brief.read if brief.has_begun else _read
    status, limited = read(told), read(limits)
    turn = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    umask, ids, rest, kept = _inherited
    if umask in status and ids in status and rest in status and kept[2:] == (limited, *turn):
        return kept  # most often
    if len(status) == _PAGE:  # somebody is in a thousand groups
        status = os.pread(told, _PAGE << 8, 0)
    umask, ids = _lines(status, b"Umask:", b"Umask:"), _lines(status, b"Uid:", b"Groups:")
    rest = _lines(status, b"SigBlk:", b"Cpus_allowed:")
    who = _lines(ids, b"Uid:", b"Gid:"), _lines(ids, b"Groups:", b"Groups:")
    masks = umask, _lines(rest, b"SigBlk:", b"SigIgn:"), _lines(rest, b"CapInh:", b"Cpus_allowed:")
    found = who, masks, limited, *turn
    _inherited = umask, ids, rest, found
    return found


def _lines(status: bytes, first: bytes, last: bytes) -> bytes:
    """Those from one to another, with the end of the line before them."""
    begin = status.find(b"\n" + first)
    return status[begin : status.find(b"\n", status.find(b"\n" + last, begin) + 1) + 1]


_inherited: tuple[bytes, bytes, bytes, tuple[object, ...]] = (
    b"\n\n",
    b"",
    b"",
    (),
)  # what was told the last time, and is
_PAGE = 4096
_telling: dict[str, tuple[int, ...]] = {}  # what tells it, held open: to open it anew costs as much as to read it


def _read(fd: int) -> bytes:
    return os.pread(fd, _PAGE, 0)


def _listen() -> tuple[int, ...]:
    mine = tuple(os.open(f"/proc/self/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("status", "limits"))
    kept = _telling.setdefault("self", mine)
    if kept is not mine:  # another thread was faster
        for fd in mine:
            os.close(fd)
    return kept


def disown() -> None:
    """In a fork of our caller's: what is held open tells of the parent, and another thread may have had the lock."""
    global sending
    sending = _thread.RLock()
    for fd in _telling.pop("self", ()):
        os.close(fd)
