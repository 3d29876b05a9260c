"""N7: a socket of multipath TCP, which is not TCP to Landlock."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
def connect():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    s.settimeout(2)
    s.connect(("127.0.0.1", int(EXTRA[0])))
attempt("socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
attempt("connect", connect)
attempt("socket of IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262))
"""


def prepare(ground: Ground) -> list[str]:
    return [str(ground.listener().getsockname()[1])]


def test_multipath_tcp_is_closed(field: Field) -> None:
    field.repels(PROGRAM, prepare)
