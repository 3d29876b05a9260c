"""Much that goes from one socket to another, through a pipe of the kernel's: it is never copied to us and back.

On two processors a copy more is half of what a download could have. A pipe takes two descriptors and memory that a user
has only so much of, so it is made when much has come already or is announced; where none can be had, we copy.
"""

import fcntl
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .link import Link

LARGE = 1 << 22  # what is less is copied
MOST = 48  # of all runs together; a user's pipes have 64 MB
_SIZE = 1 << 20
_SET_SIZE = 1031  # F_SETPIPE_SZ
_splice: Any = getattr(os, "splice", None)  # Linux
_FLAGS = getattr(os, "SPLICE_F_NONBLOCK", 0) | getattr(os, "SPLICE_F_MOVE", 0)


class Channel:
    """Carries `left` bytes of what `source` gets to `target`, and says then that it is `done`. Bytes that are in the
    pipe when the source ends still go out, before whatever is written to the target later."""

    __slots__ = ("_done", "_ends", "_held", "_left", "_source", "_target")

    def __init__(
        self, source: "Link", target: "Link", left: int, done: Callable[[], None], ends: tuple[int, ...]
    ) -> None:
        self._source, self._target, self._left, self._done = source, target, left, done
        self._ends = ends
        self._held = 0
        source.channel = self
        _open.add(self)

    def move(self) -> None:
        """The source can be read."""
        if self._target.is_full:  # what was written to it before goes first
            self._source.pause()
            return
        try:
            count = _splice(self._source.sock.fileno(), self._ends[1], min(self._left, _SIZE), flags=_FLAGS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
            self._source.close()
        if not count:
            self._source.pause()
            self._source.on_end()
            return
        self._held += count
        self._left -= count
        self._source.last = self._source.now()
        if not self.flush():
            self._source.pause()

    def flush(self) -> bool:
        """Give the target what the pipe holds; False when it takes no more for now."""
        while self._held:
            try:
                self._held -= _splice(self._ends[0], self._target.sock.fileno(), self._held, flags=_FLAGS)
            except (BlockingIOError, InterruptedError):
                self._target.wait_behind(self)
                return False
            except OSError:
                self._held = 0
                self._target.close()
                self._target.on_end()
        self._target.last = self._target.now()
        if self._source.closed or self._target.closed:
            self.close()
        elif not self._left:
            self.close()
            self._done()
        return True

    def end(self) -> None:
        """The source is closed."""
        if not self._held or self._target.closed:
            self.close()

    def close(self) -> None:
        """Let go of the pipe, and of what is in it."""
        ends, self._ends, self._held = self._ends, (), 0
        if self._source.channel is self:
            self._source.channel = None
        for fd in ends:
            os.close(fd)
        _open.discard(self)


_open: set[Channel] = set()


def open_channel(source: "Link", target: "Link", left: int, done: Callable[[], None]) -> None:
    """Have the rest carried by the kernel; where that cannot be, all is as before."""
    if _splice is None or source.closed or target.closed or source.channel is not None or len(_open) >= MOST:
        return
    ends: tuple[int, ...] = ()
    try:
        ends = os.pipe()
        fcntl.fcntl(ends[1], _SET_SIZE, _SIZE)
    except OSError:  # no descriptor, or no memory for pipes is left
        for fd in ends:
            os.close(fd)
        return
    Channel(source, target, left, done, ends)
