"""N16: datagrams to unix sockets, whose path is in the sending call: in a hidden place, in a visible one, and in the
workspace itself; by a socket of one's own, and by an end of a pair, which takes another path all the same."""

import contextlib
import functools
import os
import socket

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
def sent(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.sendto(b"x", path)
def paired(path, kind):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.sendto(b"x", path)
attempt("abstract", lambda: sent("\\0" + EXTRA[0]))
for place, path in zip(("hidden", "visible", "workspace"), EXTRA[1:]):
    attempt("sendto " + place, lambda: sent(path))
    attempt("sendmsg " + place, lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, path))
    attempt("a pair " + place, lambda: paired(path, socket.SOCK_DGRAM))
    attempt("a raw pair " + place, lambda: paired(path, socket.SOCK_RAW))
"""


def prepare(ground: Ground) -> list[str]:
    name, paths = ground.base.name, [str(ground.base / path) for path in ("home/log", "outside/log", "ws/src/log")]
    for address in ("\0" + name, *paths):
        server = ground.stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        server.bind(address)
        server.setblocking(False)
        ground.harmed.append(functools.partial(_got, server))
        if address in paths:
            os.chmod(address, 0o777)
    return [name, *paths]


def _got(server: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return bool(server.recv(9, socket.MSG_PEEK))
    return False


def test_no_datagram_reaches_a_service(field: Field) -> None:
    field.repels(PROGRAM, prepare)
