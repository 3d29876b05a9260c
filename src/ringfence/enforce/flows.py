"""Bytes on their way: from us to the command, from it to us, or from one descriptor to another.

A flow holds one piece at most, so whoever is slow slows the other end down, and nothing grows. None of them waits: it
says what it waits for, and moves when that has happened. Who waits is `supervise`.
"""

import _socket
import errno
import fcntl
import os
import stat
from collections.abc import Callable
from select import POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT

CHUNK = 1 << 16
PIECE = 4096  # what a pipe that has any room takes whole
GONE = POLLERR | POLLHUP | POLLNVAL

Sink = Callable[[int, bytes], None]
Change = Callable[[bytes], bytes]


class Budget:
    """How much output may pass in all; what is beyond it is dropped, and that it was is known."""

    def __init__(self, most: int | None = None) -> None:
        self.most = self.left = most
        self.is_spent = False

    def allowed(self, data: bytes) -> bytes:
        if self.left is None:
            return data
        self.is_spent |= len(data) > self.left
        data = data[: self.left]
        self.left -= len(data)
        return data


class Take:
    """From the command's pipe to a function of ours."""

    is_output = True
    held = 0

    def __init__(self, fd: int, number: int, sink: Sink, budget: Budget) -> None:
        os.set_blocking(fd, False)
        self._fd, self._number, self._sink, self._budget = fd, number, sink, budget
        self.is_paused = False
        self.is_over = False

    def wants(self) -> dict[int, int]:
        return {} if self.is_over or self.is_paused else {self._fd: POLLIN}

    def move(self, _fd: int, _events: int) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.close()
        elif allowed := self._budget.allowed(data):
            self._sink(self._number, allowed)

    def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            os.close(self._fd)


class Give:
    """From us to the command's standard input; closed when `finish` was said and all is given."""

    is_output = False

    def __init__(self, fd: int, data: bytes, finish: bool) -> None:
        os.set_blocking(fd, False)
        self._fd, self._held, self._finish = fd, bytearray(data), finish
        self.is_over = False
        self._rest()

    @property
    def held(self) -> int:
        return len(self._held)

    def add(self, data: bytes) -> None:
        self._held += data

    def finish(self) -> None:
        self._finish = True
        self._rest()

    def _rest(self) -> None:
        if self._finish and not self._held:
            self.close()

    def wants(self) -> dict[int, int]:
        return {self._fd: POLLOUT} if self._held and not self.is_over else {}

    def move(self, _fd: int, _events: int) -> None:
        try:
            with memoryview(self._held) as view:
                count = os.write(self._fd, view[:CHUNK])
        except BlockingIOError:
            return
        except BrokenPipeError:  # it reads no more; what is left was not wanted
            self.close()
            return
        del self._held[:count]
        self._rest()

    def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._held.clear()
            os.close(self._fd)


class Copy:
    """From one descriptor to another, both closed at the end. What stops it goes to `failed`; of what passes, the end
    stays in `heard`."""

    heard: bytearray | None = None
    is_held = False  # a person is asked something at this terminal

    def __init__(
        self,
        source: int,
        sink: int,
        failed: list[OSError],
        is_output: bool,
        budget: Budget | None = None,
        change: Change = bytes,
        is_ours: bool = False,
    ) -> None:
        """`is_ours`: nobody else holds the sink."""
        self._source = source
        self._sink, self._write = _own(sink) if is_ours else writer(sink)
        self._failed, self._budget, self._change = failed, budget or Budget(), change
        self._held = b""
        self.is_output = is_output
        self.is_over = False
        self.is_paused = False

    @property
    def held(self) -> int:
        return len(self._held)

    def wants(self) -> dict[int, int]:
        if self.is_over or self.is_paused or self.is_held:
            return {}
        # Nothing of the sink but its end: when whoever reads it is gone, what comes next is not for it.
        return {self._sink: POLLOUT} if self._held else {self._source: POLLIN, self._sink: 0}

    def move(self, fd: int, events: int) -> None:
        try:
            if fd == self._sink and not self._held:
                if events & GONE:
                    self.close()
                return
            if not self._held:
                data = os.read(self._source, CHUNK)
                if not data:
                    self.close()
                    return
                self._held = self._change(self._budget.allowed(data))
                if self.heard is not None:
                    self.heard += data
                    del self.heard[:-CHUNK]
            if self._held:
                self._held = self._held[self._write(self._held) :]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):  # the other side is gone: nobody is left to tell
            self.close()
        except OSError as error:  # a full disk: the command was told that its output was taken
            # A terminal whose last holder is gone says EIO, too; of a file it is a disk that fails.
            if error.errno != errno.EIO or stat.S_ISREG(os.fstat(self._sink).st_mode):
                self._failed.append(error)
            self.close()

    def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._held = b""
            os.close(self._source)
            os.close(self._sink)


Flow = Take | Give | Copy


def _own(fd: int) -> tuple[int, Callable[[bytes], int]]:
    os.set_blocking(fd, False)
    return fd, lambda data: os.write(fd, data)


def writer(fd: int) -> tuple[int, Callable[[bytes], int]]:
    """A descriptor in place of another one, and how to write to it without waiting.

    Not by making it non-blocking: that would be so for everybody who shares it. So it is opened again where it can be;
    but not one that is for reading alone, as a run's terminal or a pipe of the host's may be: no run makes more of it.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return fd, lambda data: os.write(fd, data)  # of a file the offset is shared, and it never makes us wait
    if stat.S_ISSOCK(mode):
        return fd, lambda data: _send(fd, data)
    try:
        again = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # somebody else's: then in pieces for which there is room
        return fd, lambda data: os.write(fd, data[:PIECE])
    os.close(fd)
    return again, lambda data: os.write(again, data)


def _send(fd: int, data: bytes) -> int:
    end = _socket.socket(fileno=fd)
    try:
        return end.send(data, _socket.MSG_DONTWAIT)
    finally:
        end.detach()
