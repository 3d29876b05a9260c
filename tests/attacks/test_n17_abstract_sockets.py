"""N17: abstract unix sockets, which have no path to hide: a display, a bus, a container's shim."""

import socket

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    s.connect("\\0" + EXTRA[0])
attempt("connect", connect)
"""


def prepare(ground: Ground) -> list[str]:
    name = f"/tmp/.X11-unix/{ground.base.name}"
    ground.listener(socket.AF_UNIX, "\0" + name)
    return [name]


def test_no_abstract_socket_is_reached(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_no_abstract_socket_is_reached_with_the_network_open(field: Field) -> None:
    from ringfence.policy import Reach

    field.repels(PROGRAM, prepare, denied=lambda _: {"network": Reach.OPEN})  # type: ignore[dict-item]
