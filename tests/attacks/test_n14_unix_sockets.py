"""N14: unix sockets of services, by their path: in a hidden place, in a visible one, and in the workspace itself."""

import socket

import pytest
from tests.attacks.conftest import Field, Ground

from ringfence.policy.flags import Reach

PROGRAM = """
import socket
os.symlink(EXTRA[0], "link")
def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    s.connect(path)
attempt("in a hidden place", lambda: connect(EXTRA[0]))
attempt("through a link", lambda: connect("link"))
attempt("in a visible place", lambda: connect(EXTRA[1]))
attempt("in the workspace", lambda: connect(EXTRA[2]))
"""


def prepare(ground: Ground) -> list[str]:
    paths = [str(ground.base / name) for name in ("home/.config/docker.sock", "outside/s", "ws/src/daemon.ipc")]
    for path in paths:
        ground.listener(socket.AF_UNIX, path)
    return paths


def test_sockets_of_services_are_out_of_reach(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_hidden_sockets_are_out_of_reach(field: Field) -> None:
    def hidden(ground: Ground) -> list[str]:
        path = str(ground.home / ".config/docker.sock")
        ground.listener(socket.AF_UNIX, path)
        return [path]

    program = "\n".join(line for line in PROGRAM.splitlines() if "EXTRA[1]" not in line and "EXTRA[2]" not in line)
    field.repels(program, hidden)


def test_an_open_network_is_no_leave_for_sockets_of_services(field: Field) -> None:
    """Without a view nobody judges what a unix socket reaches, so none is made."""
    field.repels(PROGRAM, prepare, denied=lambda _ground: {"network": Reach.OPEN})  # type: ignore[dict-item]


def test_a_socket_that_may_be_read_is_not_reached(field: Field) -> None:
    """In a closed place it is a mount of its own then, as one is that may be reached; but read-only."""

    def readable(ground: Ground) -> list[str]:
        path = str(ground.home / ".config/service.sock")
        ground.listener(socket.AF_UNIX, path)
        return [path]

    program = "\n".join(line for line in PROGRAM.splitlines() if "EXTRA[1]" not in line and "EXTRA[2]" not in line)
    field.repels(program, readable, denied=lambda ground: {"allow_read": (str(ground.home / ".config/service.sock"),)})


@pytest.mark.parametrize("names", ["itself", "itself in a directory", "by a pattern"])
def test_a_rule_about_files_is_no_leave_for_a_socket(field: Field, names: str) -> None:
    """It was mounted by itself for the rule, and may be written: as a socket is that the policy lets be reached."""

    def visible(ground: Ground) -> list[str]:
        path = str(ground.base / "outside/s")
        ground.listener(socket.AF_UNIX, path)
        return [path]

    def granted(ground: Ground) -> dict[str, tuple[str, ...]]:
        place = f"{ground.base}/outside"
        if names == "itself":
            return {"allow_write": (f"{place}/s",)}
        return {
            "allow_write": (place,),
            "allow_read": (f"{place}/s" if names == "itself in a directory" else f"{place}/?",),
        }

    program = "\n".join(line for line in PROGRAM.splitlines() if "EXTRA[1]" not in line and "EXTRA[2]" not in line)
    field.repels(program, visible, denied=granted)
