"""The warden's questions about calls that wait, and our answers.

Each is one message on a socket of packets. A call is known by the kernel's number for it, which is nobody else's while
it waits; an answer to one that waits no longer has no effect.
"""

import _socket
import array
import enum
import struct

import msgspec

INQUIRY = struct.Struct("<QQIIII4H")  # id, number, pid, call, flags, errno, sizes of path, other, program, directory
VERDICT = struct.Struct("<QiI")  # id, errno, what it is
LONGEST = INQUIRY.size + 6 * 4096
IS_ERROR, IS_HANDED, IS_NAMED = 0, 1, 2


class Call(enum.IntEnum):
    """What somebody waits in; GONE says that it does not any more."""

    GONE = 0
    OPEN = 1
    MKDIR = 2
    UNLINK = 3
    RMDIR = 4
    RENAME = 5
    LINK = 6
    SYMLINK = 7
    TRUNCATE = 8
    CHMOD = 9


class Inquiry(msgspec.Struct, frozen=True):
    """One call that waits."""

    id: int
    call: Call
    path: bytes = b""  # as it was spelled, behind the directory it started from
    other: bytes = b""  # the second path; of a symbolic link its text
    flags: int = 0
    number: int = 0  # a mode, or a length
    errno: int = 0  # what it is told when nobody grants it
    pid: int = 0
    exe: bytes = b""
    cwd: bytes = b""


class Pauses:
    """Our end of the socket."""

    def __init__(self, fd: int) -> None:
        self._socket = _socket.socket(fileno=fd)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> Inquiry | None:
        """The next question, which is there; None: there will be no more. BlockingIOError: not now."""
        try:
            data = self._socket.recv(LONGEST)
        except BlockingIOError:
            raise
        except OSError:  # the warden is gone
            return None
        try:
            return decode(data) if data else None
        except (struct.error, ValueError):  # not the warden that we know
            return None

    def refuse(self, inquiry: Inquiry, error: int = 0) -> None:
        """It fails; without a number as it would have."""
        self._send(VERDICT.pack(inquiry.id, error or inquiry.errno, IS_ERROR))

    def done(self, inquiry: Inquiry) -> None:
        """It was done outside."""
        self._send(VERDICT.pack(inquiry.id, 0, IS_ERROR))

    def hand(self, inquiry: Inquiry, fd: int) -> None:
        """It gets a descriptor."""
        self._send(VERDICT.pack(inquiry.id, 0, IS_HANDED), fd)

    def name(self, inquiry: Inquiry, path: str) -> None:
        """The warden opens this path itself."""
        self._send(VERDICT.pack(inquiry.id, 0, IS_NAMED) + path.encode("utf-8", "surrogateescape"))

    def _send(self, data: bytes, *fds: int) -> None:
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
        self._socket.setblocking(True)  # the warden reads all the time
        try:
            self._socket.sendmsg([data], rights)
        except OSError:
            pass  # it is gone, and everybody who waited with it
        finally:
            self._socket.setblocking(False)

    def close(self) -> None:
        self._socket.close()


def decode(data: bytes) -> Inquiry:
    """One message of the warden's."""
    number, amount, pid, call, flags, error, *sizes = INQUIRY.unpack_from(data)
    texts, at = [], INQUIRY.size
    for size in sizes:
        texts.append(data[at : at + size])
        at += size
    return Inquiry(number, Call(call), texts[0], texts[1], flags, amount, error, pid, texts[2], texts[3])
