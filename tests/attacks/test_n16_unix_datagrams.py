"""N16: datagrams to unix sockets, whose path is in the sending call."""

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
attempt("sendto", lambda: sent(EXTRA[0]))
attempt("sendmsg", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, EXTRA[0]))
attempt("abstract", lambda: sent("\\0" + EXTRA[1]))
"""


def prepare(ground: Ground) -> list[str]:
    path, name = str(ground.home / "log"), ground.base.name
    for address in (path, "\0" + name):
        server = ground.stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        server.bind(address)
        server.setblocking(False)
        ground.harmed.append(functools.partial(_got, server))
    os.chmod(path, 0o777)
    return [path, name]


def _got(server: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return bool(server.recv(9, socket.MSG_PEEK))
    return False


def test_no_datagram_reaches_a_service(field: Field) -> None:
    field.repels(PROGRAM, prepare)
