"""N3: an IPv4 address inside an IPv6 one."""

from tests.attacks.conftest import Field, with_listener

PROGRAM = """
import socket
s = None
def connect():
    s = socket.socket(socket.AF_INET6)
    s.settimeout(2)
    s.connect(("::ffff:127.0.0.1", int(EXTRA[0])))
attempt("connect", connect)
"""


def test_a_mapped_address_is_not_reached(field: Field) -> None:
    field.repels(PROGRAM, with_listener)
