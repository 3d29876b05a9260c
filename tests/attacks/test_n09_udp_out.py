"""N9: a datagram carries a secret out, to a resolver for instance."""

import socket
import threading

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
def asked(family, address, port):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    s.sendto(b"secret.example.org", (address, port))
    s.recv(99)
attempt("a question by IPv4", lambda: asked(socket.AF_INET, "127.0.0.1", int(EXTRA[0])))
attempt("a question by IPv6", lambda: asked(socket.AF_INET6, "::ffff:127.0.0.1", int(EXTRA[0])))
"""


def echo(ground: Ground) -> list[str]:
    """Somebody who answers datagrams, and must not be asked."""
    server = ground.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    server.bind(("127.0.0.1", 0))
    server.settimeout(0.05)
    asked: list[bytes] = []

    def answer(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                data, sender = server.recvfrom(99)
            except TimeoutError:
                continue
            asked.append(data)
            server.sendto(data, sender)

    ground.thread(answer)
    ground.harmed.append(lambda: bool(asked))
    return [str(server.getsockname()[1])]


def test_no_datagram_goes_out(field: Field) -> None:
    field.repels(PROGRAM, echo)
