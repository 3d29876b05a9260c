"""N6: TCP_FASTOPEN_CONNECT puts the connection off until the first byte."""

from tests.attacks.conftest import Field, with_listener

PROGRAM = """
import socket
def sent():
    s = socket.socket()
    s.settimeout(2)
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)
    s.connect(("127.0.0.1", int(EXTRA[0])))
    s.send(b"x")
attempt("the option", lambda: socket.socket().setsockopt(socket.IPPROTO_TCP, 30, 1))
attempt("the connection", sent)
"""


def test_a_connection_put_off_reaches_nobody(field: Field) -> None:
    field.repels(PROGRAM, with_listener)
