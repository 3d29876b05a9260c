"""N1: a TCP connection to a service on the loopback of the host."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
attempt("connect", lambda: socket.create_connection(("127.0.0.1", int(EXTRA[0])), 2))
attempt("any address of the loopback", lambda: socket.create_connection(("127.1.2.3", int(EXTRA[1])), 2))
"""


def prepare(ground: Ground) -> list[str]:
    addresses = (("127.0.0.1", 0), ("127.1.2.3", 0))
    return [str(ground.listener(address=address).getsockname()[1]) for address in addresses]


def test_the_loopback_of_the_host_is_not_reached(field: Field) -> None:
    field.repels(PROGRAM, prepare)
