"""N4: 0.0.0.0 and :: mean this host."""

import socket

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
attempt("0.0.0.0", lambda: socket.create_connection(("0.0.0.0", int(EXTRA[0])), 2))
attempt("::", lambda: socket.create_connection(("::", int(EXTRA[1])), 2))
"""


def prepare(ground: Ground) -> list[str]:
    four = ground.listener(address=("0.0.0.0", 0))
    six = ground.listener(socket.AF_INET6, ("::", 0))
    return [str(listener.getsockname()[1]) for listener in (four, six)]


def test_no_address_means_the_host(field: Field) -> None:
    field.repels(PROGRAM, prepare)
