"""F52: binding a unix socket makes a node outside."""

from tests.attacks.conftest import Field

PROGRAM = """
import socket
attempt("stream", lambda: socket.socket(socket.AF_UNIX).bind(OUTSIDE + "/s"))
attempt("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(OUTSIDE + "/d"))
attempt("in the home", lambda: socket.socket(socket.AF_UNIX).bind(HOME + "/s"))
"""


def test_no_socket_is_bound_outside(field: Field) -> None:
    field.repels(PROGRAM)
