"""Whether an address is this machine's: the kernel says where it would lead a connection to it."""

import errno
import ipaddress
import socket
import struct

_NETLINK = getattr(socket, "AF_NETLINK", 16)
_ASKS, _FAILS = 26, 2  # RTM_GETROUTE, NLMSG_ERROR
_TO, _PROTOCOL, _PORT = 1, 27, 29  # attributes of a route
_ELSEWHERE = frozenset((1, 6, 7, 8, 9))  # unicast, and what is dropped or refused; the other kinds may lead here
_NOWHERE = frozenset((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EOPNOTSUPP))
_HEAD = struct.Struct("=IHHII")


def is_own(address: str, port: int = 0) -> bool:
    """Whether a canonical address leads to this machine, by the rules and tables that hold for whoever asks. What
    leads nowhere is nobody's; what is not understood is ours; and where nobody can be asked, that is an error."""
    to = ipaddress.ip_address(address).packed
    family = socket.AF_INET if len(to) == 4 else socket.AF_INET6
    asked = struct.pack("=8BI", family, len(to) * 8, *bytes(7)) + _attribute(_TO, to)
    asked += _attribute(_PROTOCOL, bytes((socket.IPPROTO_TCP,))) + _attribute(_PORT, port.to_bytes(2, "big"))
    with socket.socket(_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.sendto(_HEAD.pack(_HEAD.size + len(asked), _ASKS, 1, 0, 0) + asked, (0, 0))
        answer = kernel.recv(4096)
    if _HEAD.unpack_from(answer)[1] == _FAILS:
        return -struct.unpack_from("=i", answer, _HEAD.size)[0] not in _NOWHERE
    return answer[_HEAD.size + 7] not in _ELSEWHERE


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
