"""The sockets that were opened inside, as whoever opened them hands them out."""

import _socket
import os
import struct

from . import wire


def sockets_of(status: int, count: int) -> tuple[tuple[int, ...], bytes]:
    """So many of them, which come on a status channel, each with a record; or none, and what was told instead."""
    fds: list[int] = []
    data, end = b"", _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, status)
    try:
        while len(fds) < count:
            space = _socket.CMSG_SPACE(4)
            data, rights, _, _ = end.recvmsg(wire.RECORD.size, space, _socket.MSG_CMSG_CLOEXEC)
            if len(data) != wire.RECORD.size or wire.RECORD.unpack(data)[0] != wire.OPENED:
                break
            fds += [fd for _, _, given in rights for fd in struct.unpack("i", given)]
    finally:
        end.detach()
    if len(fds) == count:
        return tuple(fds), b""
    for fd in fds:
        os.close(fd)
    return (), data
