"""N12: raw, packet and ping sockets carry whatever one likes."""

import pytest
from tests.attacks.conftest import Field

PROGRAM = """
import socket
attempt("raw ICMP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("raw IP", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
attempt("raw IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
attempt("packets of the link", lambda: socket.socket(17, socket.SOCK_RAW, 0x0300))
attempt("packets of the link, cooked", lambda: socket.socket(17, socket.SOCK_DGRAM, 0x0300))
attempt("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt("light datagrams", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136))
"""


@pytest.mark.needs_root
def test_no_raw_socket_is_opened(field: Field) -> None:
    field.repels(PROGRAM, bare_as_root=True, unknown=("ping", "packets of the link", "packets of the link, cooked"))
