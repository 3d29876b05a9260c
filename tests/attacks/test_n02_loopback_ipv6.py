"""N2: the same service by IPv6, for those who thought of one family only."""

import socket

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
attempt("connect", lambda: socket.create_connection(("::1", int(EXTRA[0])), 2))
"""


def prepare(ground: Ground) -> list[str]:
    return [str(ground.listener(socket.AF_INET6, ("::1", 0)).getsockname()[1])]


def test_the_loopback_is_not_reached_by_ipv6(field: Field) -> None:
    field.repels(PROGRAM, prepare)
