"""N5: TCP Fast Open sends to an address that connect(2) was never asked for."""

from tests.attacks.conftest import Field, with_listener

PROGRAM = """
import socket
def sent(family, address):
    s = socket.socket(family)
    s.sendto(b"x", 0x20000000, address)
attempt("sendto", lambda: sent(socket.AF_INET, ("127.0.0.1", int(EXTRA[0]))))
def message():
    s = socket.socket()
    s.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", int(EXTRA[0])))
attempt("sendmsg", message)
"""


def test_fast_open_reaches_nobody(field: Field) -> None:
    field.repels(PROGRAM, with_listener)
