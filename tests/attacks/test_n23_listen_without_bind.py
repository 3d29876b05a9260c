"""N23: listen() without bind() takes a port by itself, and no rule for binding is asked."""

import contextlib
import socket
import threading

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
def served():
    s = socket.socket()
    s.listen()
    write(WS + "/port", str(s.getsockname()[1]))
    s.settimeout(1)
    s.accept()
attempt("a port by itself", served)
"""


def prepare(ground: Ground) -> list[str]:
    def knock(stop: threading.Event) -> None:
        while not stop.wait(0.02):
            with contextlib.suppress(OSError, ValueError):
                port = int((ground.workspace / "port").read_text())
                socket.create_connection(("127.0.0.1", port), 0.2).close()

    ground.thread(knock)
    return []


def test_a_port_taken_by_itself_is_not_reached(field: Field) -> None:
    field.repels(PROGRAM, prepare)
