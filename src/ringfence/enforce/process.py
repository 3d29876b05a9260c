"""One child process: spawned without copying us, watched by descriptor, its streams moved without a thread each.

`posix_spawn` and not `subprocess`: it costs a tenth less a launch, which is what the walls cost, and importing the
other costs the command twelve milliseconds.
"""

import os
import resource
import select
import signal
import time

PIPE = -1
LOST = 1 << 16  # the code of a process whose end somebody else was told of
# Python ignores the first two, and whoever started us perhaps the third; a command expects them as they were born.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
_CHUNK = 1 << 16

Files = tuple[int | None, int | None, int | None]


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
    """A child. `returncode` is None while it lives, and negative when a signal ended it."""

    def __init__(self, program: str, arguments: list[str], kept: tuple[int, ...], streams: Streams) -> None:
        """Spawn with an empty environment; `kept` stay open."""
        self.returncode: int | None = None
        self.pipes = streams.pipes
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams.theirs) if fd is not None]
        # Onto itself: that clears close-on-exec in the child alone, and no other thread's child inherits it.
        actions += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in kept]
        try:
            self.pid = os.posix_spawn(program, arguments, {}, file_actions=actions, setsigdef=_RESTORED)
        except BaseException:
            self.close()
            raise
        finally:
            streams.given()

    def _ended(self, pid: int, status: int) -> bool:
        if pid == self.pid:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None

    def _waitpid(self, options: int) -> bool:
        try:
            return self._ended(*os.waitpid(self.pid, options))
        except ChildProcessError:  # somebody else took it: SIGCHLD is ignored here, or our caller waits for anybody
            if self.returncode is None:  # a signal handler of ours may have been told meanwhile
                self.returncode = LOST
            return True

    def poll(self) -> bool:
        """Whether it has ended."""
        return self.returncode is not None or self._waitpid(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self.returncode is not None:
            return
        if timeout is None:
            self._waitpid(0)
            return
        if self.poll():
            return
        try:
            watch = os.pidfd_open(self.pid)
        except ProcessLookupError:  # the kernel reaped it, for SIGCHLD is ignored here
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
        if self.poll():
            return
        # Not reaped yet, so the number is still its own.
        (os.killpg if group else os.kill)(self.pid, number)

    def communicate(self, data: bytes, timeout: float | None) -> tuple[bytes | None, bytes | None]:
        """Give it its input, take its output, and wait. What was taken before a timeout is in `output()`."""
        until = None if timeout is None else time.monotonic() + timeout
        rest = memoryview(data)
        if not rest:
            self._close(0)
        taken: list[bytearray | None] = [None if fd is None else bytearray() for fd in self.pipes]
        self._taken = taken
        poller = select.poll()
        names = {fd: number for number, fd in enumerate(self.pipes) if fd is not None}
        for fd, number in names.items():
            os.set_blocking(fd, False)
            poller.register(fd, select.POLLOUT if number == 0 else select.POLLIN)
        while names:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = poller.poll(None if left is None else left * 1000)
            if not ready and left == 0:
                raise TimeoutExpired
            for fd, _ in ready:
                number = names[fd]
                if number == 0:
                    rest = self._give(fd, rest)
                    more = bool(rest)
                else:
                    more = self._take(fd, taken[number])
                if not more:
                    poller.unregister(fd)
                    del names[fd]
                    self._close(number)
        self.wait(None if until is None else until - time.monotonic())
        return self.output()

    def output(self) -> tuple[bytes | None, bytes | None]:
        """What was taken so far."""
        out, err = self._taken[1:]
        return None if out is None else bytes(out), None if err is None else bytes(err)

    def _give(self, fd: int, rest: memoryview) -> memoryview:
        try:
            return rest[os.write(fd, rest[:_CHUNK]) :]
        except BlockingIOError:
            return rest
        except BrokenPipeError:
            return memoryview(b"")  # it reads no more; what is left was not wanted

    def _take(self, fd: int, into: bytearray | None) -> bool:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        if into is not None:
            into += data
        return bool(data)

    def _close(self, number: int) -> None:
        fd = self.pipes[number]
        if fd is not None:
            self.pipes[number] = None
            os.close(fd)

    def close(self) -> None:
        """Close our ends of its streams."""
        for number in range(3):
            self._close(number)


def inheritance() -> tuple[object, ...]:
    """What a command inherits of us besides descriptors: limits, niceness, processors, masks of modes and signals."""
    fd = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.read(fd, 4096)
    finally:
        os.close(fd)
    umask, blocked, caught = status.find(b"Umask:"), status.find(b"SigBlk:"), status.find(b"SigCgt:")
    limits = tuple(map(resource.getrlimit, range(16)))
    niceness, processors = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
    return status[umask : umask + 11], status[blocked:caught], limits, niceness, processors
