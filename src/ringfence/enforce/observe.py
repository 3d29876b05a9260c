"""What the warden tells of the accesses that it answers.

It sends without waiting and loses what the socket does not hold, so that no command can hold us up or fill our memory.
Where much is told somebody reads all the time; otherwise the socket keeps the little there is until the end.
"""

import _socket
import _thread
import struct
from collections.abc import Callable

from ..model import Observe, Observed

HEAD = struct.Struct("<II6H")  # pid, row, access, verdict, errno, size of the path, size of the program's, 0
ACCESSES = {1: "read", 2: "write", 4: "make", 8: "remove", 16: "change", 32: "connect"}
VERDICTS = {1: "refused", 2: "failed", 4: "allowed"}
LONGEST = HEAD.size + 2 * 8192
MOST = 1 << 16  # kept, of one run
_NO_ROW = 0xFFFFFFFF


class Observer:
    """Our end of the socket."""

    def __init__(self, channel: _socket.socket, wanted: Observe, on_seen: Callable[[Observed], None] | None) -> None:
        """`on_seen` is called with each as it comes, where somebody reads all the time."""
        self._on_seen = on_seen
        self._socket = channel
        self._seen: list[Observed] = []
        self.lost = 0
        self._is_read = wanted >= Observe.FAILURES
        if self._is_read:
            self._done = _thread.allocate_lock()
            self._done.acquire()
            _thread.start_new_thread(self._read_all, ())

    def _read_all(self) -> None:
        try:
            while self._read(0):
                if self._on_seen is not None and self._seen and not self.lost:
                    self._on_seen(self._seen[-1])
        finally:
            self._done.release()

    def _read(self, flags: int) -> bool:
        """One message; whether there was one."""
        try:
            data = self._socket.recv(LONGEST, flags)
        except OSError:  # nothing is there now; or the warden is gone with something of ours unread
            return False
        if data and len(self._seen) < MOST:
            self._seen.append(decode(data))
        elif data:
            self.lost += 1
        return bool(data)

    def finish(self) -> list[Observed]:
        """All that was told, once the warden is gone or has said that the run has ended."""
        if self._is_read:
            self._is_read = False
            self._socket.shutdown(_socket.SHUT_RDWR)  # what is there can still be read, and then it ends
            self._done.acquire()
        while self._read(_socket.MSG_DONTWAIT):
            pass
        return self._seen

    def close(self) -> None:
        self._socket.close()


def decode(data: bytes) -> Observed:
    """One message of the warden's."""
    pid, row, access, verdict, error, path, program, _ = HEAD.unpack_from(data)
    names = data[HEAD.size : HEAD.size + path], data[HEAD.size + path : HEAD.size + path + program]
    rule = -1 if row == _NO_ROW else row
    return Observed(ACCESSES[access], names[0], pid, names[1], VERDICTS[verdict], rule, error)
