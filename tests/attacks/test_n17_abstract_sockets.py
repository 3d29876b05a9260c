"""N17: abstract unix sockets, which have no path to hide: a display, a bus, a container's shim."""

import socket

import msgspec
import pytest
from tests.attacks.conftest import PLAIN, WALLS, Field, Ground

from ringfence import enforce
from ringfence.enforce import enactor
from ringfence.policy import Reach

PROGRAM = """
import socket
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    s.connect("\\0" + EXTRA[0])
attempt("connect", connect)
"""
OWN = """
import socket
server = socket.socket(socket.AF_UNIX)
server.bind("\\0" + os.path.basename(os.path.dirname(WS)))
server.listen()
attempt("own", lambda: socket.socket(socket.AF_UNIX).connect(server.getsockname()))
"""
VIEWS = [walls for walls in WALLS if walls.id and "landlock" not in walls.id]  # type: ignore[attr-defined]
OPEN = {"network": Reach.OPEN}


def prepare(ground: Ground) -> list[str]:
    name = f"/tmp/.X11-unix/{ground.base.name}"
    ground.listener(socket.AF_UNIX, "\0" + name)
    return [name]


@pytest.fixture
def older(field: Field, monkeypatch: pytest.MonkeyPatch) -> Field:
    """Plans as for a kernel whose Landlock has no scopes: Debian 12."""
    host = enforce.probe((PLAIN, PLAIN) if field.walls.who == "owner" else None)
    abi = min(host.landlock_abi, 2)
    monkeypatch.setitem(enactor._hosts, field.walls.uid, msgspec.structs.replace(host, landlock_abi=abi))
    return field


def test_no_abstract_socket_is_reached(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_no_abstract_socket_is_reached_with_the_network_open(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda _: OPEN)  # type: ignore[arg-type, return-value]


@pytest.mark.needs_landlock(2)
@pytest.mark.parametrize("field", VIEWS, indirect=True)
def test_nor_where_landlock_has_no_scopes(older: Field) -> None:
    older.repels(PROGRAM, prepare, denied=lambda _: OPEN)  # type: ignore[arg-type, return-value]


@pytest.mark.needs_landlock(2)
@pytest.mark.parametrize("field", VIEWS, indirect=True)
@pytest.mark.parametrize(("flags", "answer"), [({}, "done"), (OPEN, "EPERM")])
def test_nor_is_one_of_the_run_s_own_told_from_them_in_the_host_s_network(
    older: Field, flags: dict[str, object], answer: str
) -> None:
    assert older.program(older.ground(), OWN, **flags).answers == {"own": answer}  # type: ignore[arg-type]
