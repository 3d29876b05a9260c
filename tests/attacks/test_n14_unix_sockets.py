"""N14: unix sockets of services, by their path: in a hidden place, in a visible one, and in the workspace itself."""

import socket

from tests.attacks.conftest import Field, Ground

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
