"""A connected stream socket in the event loop: what comes in is handed on at once, what cannot go out yet is kept.

One buffer serves every link of the process, for what is read is handed on before anything else is read; asyncio's own
transports allocate one for each read, which halves what a tunnel carries.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from time import thread_time
from typing import ClassVar

from .channel import LARGE, Channel, open_channel

BUFFER = memoryview(bytearray(1 << 18))
_ENDLESS = 1 << 62
HIGH = 1 << 20  # beyond this much kept, whoever writes is asked to wait
# The same of all links together, for a run can have thousands that nobody reads from: each then keeps a little alone.
MOST_KEPT, _LITTLE = 1 << 26, 1 << 14
ALL, FEW = 0, 1 << 14  # bytes heard at once: of what is carried, and of what is read, which takes much longer
_TURN = 0.01  # seconds of the processor's, or who is busy beside us would have us hear less
_FEWEST, _MORE = 512, 64  # of what is read: heard at once where it takes longer than a turn, and each time it does not


def _nothing() -> None:
    pass


class Turn:
    """How long the links of one run are heard before others' are; then each in the order in which it came."""

    __slots__ = ("_is_over_soon", "_left", "_loop", "_waiting", "few")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._left, self._is_over_soon = loop, _TURN, False
        self.few = FEW
        self._waiting = deque[Callable[[], None]]()

    def has_come(self, link: "Link") -> bool:
        """Whether a link is heard now; if not, it will be."""
        if self._left > 0:
            return True
        self._waiting.append(link.hear)
        return False

    def take(self, act: Callable[[], None]) -> None:
        """Do in its turn what takes as long as hearing something."""

        def taken() -> None:
            begun = thread_time()
            act()
            self.spend(thread_time() - begun, is_read=True)

        self._waiting.append(taken)
        self._end_soon()

    def spend(self, seconds: float, is_read: bool) -> None:
        """One was heard; what is only carried never takes long."""
        self._left -= seconds
        if is_read:  # a chunk of one letter takes as long as one of a thousand
            self.few = max(_FEWEST, self.few // 2) if seconds > _TURN else min(FEW, self.few + _MORE)
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._is_over_soon:
            self._is_over_soon = True
            self._loop.call_soon(self._begin)  # behind all that can be heard now

    def _begin(self) -> None:
        self._left, self._is_over_soon = _TURN, False
        try:
            while self._waiting and self._left > 0:
                self._waiting.popleft()()
        finally:
            if self._waiting:  # whatever went wrong with one, the others are heard
                self._end_soon()


class Link:
    """`on_data` gets a view that is true only during the call; `on_end` is told once that no more comes."""

    kept_by_all: ClassVar[int] = 0

    __slots__ = (
        "_ahead",
        "_is_reading",
        "_kept",
        "_loop",
        "_shut",
        "channel",
        "closed",
        "last",
        "most",
        "now",
        "on_data",
        "on_drain",
        "on_end",
        "sock",
        "turn",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, turn: Turn | None = None) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.closed = False
        self.now = loop.time
        self.last = loop.time()
        self.channel: Channel | None = None  # carries what comes, instead of on_data
        self._ahead: Channel | None = None  # has something that goes out before what is kept
        self.on_data: Callable[[memoryview], None] = lambda _: None
        self.on_end: Callable[[], None] = _nothing
        self.on_drain: Callable[[], None] = _nothing
        self.most = FEW
        self._loop = loop
        self.turn = turn or Turn(loop)
        self._kept = bytearray()
        self._is_reading = False
        self._shut = False

    def read(self) -> None:
        """Read from now on."""
        if not self._is_reading and not self.closed:
            self._is_reading = True
            self._loop.add_reader(self.sock.fileno(), self._readable)

    def pause(self) -> None:
        """Read no more for now: the other side then waits."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self.sock.fileno())

    def hear(self) -> None:
        """Its turn has come."""
        if self._is_reading:
            self._loop.add_reader(self.sock.fileno(), self._readable)
            self._readable()

    def _readable(self) -> None:
        if not self.turn.has_come(self):
            self._loop.remove_reader(self.sock.fileno())
            return
        begun, most = thread_time(), min(self.most, self.turn.few)
        if self.channel is not None:
            self.channel.move()
            self.turn.spend(thread_time() - begun, is_read=False)
            return
        try:
            count = self.sock.recv_into(BUFFER, most or (_LITTLE if Link.kept_by_all > MOST_KEPT else ALL))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
            self.close()
        if count:
            self.last = self._loop.time()
            self.on_data(BUFFER[:count])
            self.turn.spend(thread_time() - begun, is_read=most > 0)
        else:
            self.pause()
            self.on_end()

    def write(self, data: bytes | bytearray | memoryview) -> bool:
        """Send, or keep what does not go; False asks the writer to wait for `on_drain`."""
        if self.closed or self._shut:
            return True
        if not self.is_full:
            self.last = self._loop.time()
            try:
                sent = self.sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self.close()
                self.on_end()
                return True
            if sent == len(data):
                return True
            data = data[sent:]
            self._loop.add_writer(self.sock.fileno(), self._writable)
        self._kept += data
        Link.kept_by_all += len(data)
        return len(self._kept) < HIGH and Link.kept_by_all <= MOST_KEPT

    @property
    def is_full(self) -> bool:
        """Whether something has yet to go out."""
        return bool(self._kept) or self._ahead is not None

    def wait_behind(self, channel: Channel) -> None:
        """Have a channel go on when there is room, and all that is written meanwhile wait."""
        if self._ahead is None and not self.closed:
            self._ahead = channel
            self._loop.add_writer(self.sock.fileno(), self._writable)

    def _writable(self) -> None:
        if self._ahead is not None:
            if not self._ahead.flush() or self.closed:
                return
            self._ahead = None
        try:
            sent = self.sock.send(self._kept) if self._kept else 0
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            self.on_end()
            return
        self.last = self._loop.time()
        del self._kept[:sent]
        Link.kept_by_all -= sent
        if self._kept:
            return
        self._loop.remove_writer(self.sock.fileno())
        if self._shut:
            self._shut_down()
        self.on_drain()

    def finish(self) -> None:
        """No more will be written: say so once all is sent."""
        if not self._shut and not self.closed:
            self._shut = True
            if not self.is_full:
                self._shut_down()

    def _shut_down(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def close_after_writing(self) -> None:
        """Close once all is sent; what still comes in is dropped."""
        self.on_data = lambda _: None
        self.on_end = self.close
        if self.is_full and not self.closed:
            self.on_drain = self.close
        else:
            self.close()

    def close(self) -> None:
        """End it at once."""
        if self.closed:
            return
        self.pause()
        self._loop.remove_writer(self.sock.fileno())
        self.closed = True
        Link.kept_by_all -= len(self._kept)
        self._kept.clear()
        self.sock.close()
        if self.channel is not None:
            self.channel.end()
        if self._ahead is not None:
            self._ahead.close()


class Tunnel:
    """Two links, each carrying to the other what it reads, until both have ended."""

    __slots__ = ("_done", "_ended", "_links")

    def __init__(self, one: Link, other: Link, done: Callable[[], None]) -> None:
        self._links = (one, other)
        self._ended: set[Link] = set()
        self._done = done
        self._carry(one, other)
        self._carry(other, one)
        one.read()
        other.read()

    def _carry(self, source: Link, target: Link) -> None:
        left, source.most = LARGE, ALL

        def forward(view: memoryview) -> None:
            nonlocal left
            if not target.write(view):
                source.pause()
            left -= len(view)
            if -len(view) <= left < 0:
                open_channel(source, target, _ENDLESS, _nothing)

        source.on_data = forward
        source.on_end = lambda: self._end(source, target)
        target.on_drain = lambda: None if source in self._ended else source.read()

    def _end(self, source: Link, target: Link) -> None:
        """One side says no more: so do we to the other. After an error both end."""
        self._ended.add(source)
        if source.closed or len(self._ended) == 2:
            for link in self._links:
                link.close_after_writing()
            self._done()
        else:
            target.finish()
