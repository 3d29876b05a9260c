"""A socket of the host's network on descriptor 0 is connected anew, to anywhere."""

import socket

import pytest
from tests.attacks.conftest import PYTHON, Field, as_user, ringfence_words, said

PROGRAM = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
libc.connect(0, (ctypes.c_char * 16)(), 16)  # AF_UNSPEC: what it was connected to is forgotten
try:
    s = socket.socket(fileno=os.dup(0))
    s.settimeout(1)
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.send(b"out")
    print("done")
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
def test_a_socket_on_standard_input_reaches_nobody_else(field: Field, kind: socket.SocketKind) -> None:
    ground = field.ground()
    ground.own()
    with socket.socket(type=kind) as friend, socket.socket(type=kind) as other:
        for one in (friend, other):
            one.bind(("127.0.0.1", 0))
            one.settimeout(0.2)
            if kind == socket.SOCK_STREAM:
                one.listen()

        def tried(words: list[str]) -> str:
            with _joined(friend, kind) as given:
                whole = [*words, PYTHON, "-I", "-S", "-c", PROGRAM, str(other.getsockname()[1])]
                return said(whole, ground.workspace, stdin=given.fileno()).out

        def reached() -> bool:
            try:
                if kind == socket.SOCK_STREAM:
                    other.accept()[0].close()
                else:
                    other.recv(9)
            except TimeoutError:
                return False
            return True

        assert tried(as_user(ground.uid)) == "done\n"
        assert reached()
        answer = tried(ringfence_words(field.walls))
        assert not reached(), answer


def _joined(friend: socket.socket, kind: socket.SocketKind) -> socket.socket:
    made = socket.socket(type=kind)
    made.connect(friend.getsockname())
    return made
