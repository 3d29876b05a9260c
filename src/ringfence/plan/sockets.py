"""The rows about sockets: which can be made, and what could send past a judged connection. Pure."""

from collections.abc import Iterator

from .row import LOW, Answer, AnyBit, OneOf, Row, row
from .sorts import Sockets

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DGRAM, _RAW, _SEQPACKET = 1, 2, 3, 5
_TCP, _UDP, _ROUTE = 6, 17, 0


def _family(*families: int, text: str) -> OneOf:
    return OneOf(0, families, f"the family is {text}")


def _type(*types: int, text: str) -> OneOf:
    return OneOf(1, types, text, LOW & ~0x80800)  # without SOCK_CLOEXEC and SOCK_NONBLOCK


def _protocol(*protocols: int, text: str) -> OneOf:
    return OneOf(2, protocols, text)


_INET = _family(_AF_INET, _AF_INET6, text="AF_INET or AF_INET6")
_NETLINK = _family(_AF_NETLINK, text="AF_NETLINK")
_UNIX = _family(_AF_UNIX, text="AF_UNIX")
_UNIX_DATAGRAMS = (_UNIX, _type(_DGRAM, _RAW, text="it is datagrams"))  # AF_UNIX takes one for the other
_OVER_UDP = (_INET, _type(_DGRAM, text="it is datagrams"), _protocol(0, _UDP, text="over UDP"))
_OVER_TCP = (_INET, _type(_STREAM, text="it is a stream"), _protocol(0, _TCP, text="over TCP"))

# EOPNOTSUPP and ENOPROTOOPT are what a kernel answers that has it switched off.
_FAST_OPEN = "fast open sends to an address that no connect() was judged for"
_FAST_OPEN_FLAG = 0x20000000
# Tried: without any right, and with a socket that is connected to another.
_ROUTED = "a source route sends what is written to a host that nobody judged, by a socket that is connected to one"
_BY_IP = OneOf(1, (0,), "the level is IP"), OneOf(2, (4,), "it is IP_OPTIONS")
FAST_OPEN = (
    row("sendmsg", Answer.EOPNOTSUPP, _FAST_OPEN, AnyBit(2, _FAST_OPEN_FLAG, "it has MSG_FASTOPEN")),
    row("sendto sendmmsg", Answer.EOPNOTSUPP, _FAST_OPEN, AnyBit(3, _FAST_OPEN_FLAG, "it has MSG_FASTOPEN")),
    row(
        "setsockopt",
        Answer.ENOPROTOOPT,
        "fast open needs no connect(), and TCP_ULP turns a TCP socket into SMC, which Landlock's port rules do not see",
        OneOf(1, (_TCP,), "the level is TCP"),
        OneOf(2, (23, 30, 31), "it is TCP_FASTOPEN, TCP_FASTOPEN_CONNECT or TCP_ULP"),
    ),
    row("setsockopt", Answer.ENOPROTOOPT, _ROUTED, *_BY_IP),
    row(
        "setsockopt",
        Answer.ENOPROTOOPT,
        _ROUTED,
        OneOf(1, (41,), "the level is IPv6"),
        OneOf(2, (6, 57), "it is IPV6_2292PKTOPTIONS or IPV6_RTHDR"),
    ),
    # EPERM, as before 5.7 for all but root: curl and its like go on without. Tried: by a plain user, on a wire.
    row(
        "setsockopt",
        Answer.EPERM,
        "what is written to a host that was judged goes to another network, to whoever there takes its address",
        OneOf(1, (1,), "the level is that of all sockets"),
        OneOf(2, (25, 62), "it is SO_BINDTODEVICE or SO_BINDTOIFINDEX"),
    ),
)

SOCKETS = {
    Sockets.UNIX: (
        row(
            "socket",
            Answer.ALLOW,
            "which socket may be reached is judged by path",
            _UNIX,
            _type(_STREAM, _SEQPACKET, text="it is a stream or packets"),
        ),
        row("socket", Answer.EPERM, "no other type is needed", _UNIX),
    ),
    Sockets.INET: (
        row("socket", Answer.ALLOW, "TCP is judged by port and by namespace", *_OVER_TCP),
        row("socket", Answer.ALLOW, "UDP is judged by namespace", *_OVER_UDP),
        row(
            "socket",
            Answer.EPROTONOSUPPORT,
            "MPTCP, SCTP, SMC and UDP-Lite are not TCP to Landlock, whose port rules they pass",
            _INET,
            _type(_STREAM, _DGRAM, text="it is a stream or datagrams"),
        ),
        row("socket", Answer.EPERM, "raw packets carry any address and any protocol", _INET),
    ),
    Sockets.TCP: (
        row("socket", Answer.ALLOW, "TCP is judged by port", *_OVER_TCP),
        row("socket", Answer.EPERM, "no port rule judges anything but TCP", _INET),
        row("listen", Answer.EPERM, "one that was never bound listens on a port of its choice, that nobody judges"),
    ),
    Sockets.NETLINK_ROUTE: (
        row(
            "socket",
            Answer.ALLOW,
            "asking for interfaces; changing them needs a capability",
            _NETLINK,
            _type(_DGRAM, _RAW, text="it is datagrams or raw"),
            _protocol(_ROUTE, text="the protocol is NETLINK_ROUTE"),
        ),
        row("socket", Answer.EPROTONOSUPPORT, "audit, netfilter and sock_diag tell of the whole machine", _NETLINK),
    ),
}


def socket_rows(sockets: Sockets) -> Iterator[Row]:
    if Sockets.UNIX_DATAGRAMS in sockets:
        yield row("socket", Answer.ALLOW, "where they go nobody judges, and a policy wants them", *_UNIX_DATAGRAMS)
    else:
        why = "each sending call names where it goes, in memory that nobody can judge; an end of a pair does so too"
        yield row("socket socketpair", Answer.EPROTONOSUPPORT, why, *_UNIX_DATAGRAMS)
    yield row("socketpair", Answer.ALLOW, "a pair has no address, and its ends stay with those it is given to", _UNIX)
    for flag, kinds in SOCKETS.items():
        if flag in sockets:
            yield from kinds
    yield row(
        "socket socketpair",
        Answer.EAFNOSUPPORT,
        "a socket of any other family (vsock, packet, netlink, AF_ALG, XDP …) is a way out that nothing else judges",
    )
