"""N7: a socket of multipath TCP, which is not TCP to Landlock."""

from tests.attacks.conftest import Field, with_listener

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


def test_multipath_tcp_is_closed(field: Field) -> None:
    field.repels(PROGRAM, with_listener)
