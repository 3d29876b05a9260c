"""N22: the command listens, and somebody outside connects to it."""

import contextlib
import socket
import threading

from tests.attacks.conftest import Field, Ground
from tests.looking import free_port

PROGRAM = """
import socket
def served(family, address, port):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port))
    s.listen()
    s.settimeout(0.5)
    s.accept()
attempt("every address", lambda: served(socket.AF_INET, "0.0.0.0", int(EXTRA[0])))
attempt("the loopback", lambda: served(socket.AF_INET, "127.0.0.1", int(EXTRA[1])))
attempt("every address of IPv6", lambda: served(socket.AF_INET6, "::", int(EXTRA[2])))
"""


def callers(ground: Ground, ports: list[int]) -> None:
    """Somebody outside who knocks at these ports."""

    def knock(stop: threading.Event) -> None:
        while not stop.wait(0.02):
            for port in ports:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 0.2).close()

    ground.thread(knock)


def prepare(ground: Ground) -> list[str]:
    ports = [free_port() for _ in range(3)]
    callers(ground, ports)
    return [str(port) for port in ports]


def test_nobody_outside_reaches_a_listener_inside(field: Field) -> None:
    field.repels(PROGRAM, prepare)
