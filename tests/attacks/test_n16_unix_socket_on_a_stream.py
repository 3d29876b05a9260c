"""N14, N16: a unix socket on descriptor 0 reaches others than whom it was given for: each datagram names where it goes,
and one that is not connected yet is connected to whoever listens."""

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest
from tests.attacks.conftest import PYTHON, Field, Ground, as_user, ringfence_words, said

PROGRAM = """
import os, socket, sys
s = socket.socket(fileno=os.dup(0))
try:
    if s.type == socket.SOCK_DGRAM:
        s.sendto(b"out", sys.argv[1])
    else:
        s.connect(sys.argv[1])
    print("done")
except OSError as error:
    print(error)
"""


@contextlib.contextmanager
def given(kind: str) -> Iterator[int]:
    sort = socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM
    pair = (
        socket.socketpair(socket.AF_UNIX, sort) if kind == "end of a pair" else (socket.socket(socket.AF_UNIX, sort),)
    )
    try:
        yield pair[0].fileno()
    finally:
        for one in pair:
            one.close()


class Outside:
    """Somebody outside who hears what is sent to a path."""

    def __init__(self, ground: Ground, kind: str) -> None:
        self.path = f"{ground.outside}/sock"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM)
        ground.stack.callback(self._socket.close)
        self._socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self._socket.settimeout(0.2)
        if kind == "stream":
            self._socket.listen()

    def is_reached(self) -> bool:
        try:
            if self._socket.type == socket.SOCK_STREAM:
                self._socket.accept()[0].close()
            else:
                self._socket.recv(9)
        except TimeoutError:
            return False
        return True


@pytest.mark.parametrize("kind", ["end of a pair", "datagrams", "stream"])
def test_a_unix_socket_on_standard_input_reaches_nobody_else(field: Field, kind: str) -> None:
    ground = field.ground()
    ground.own()
    outside = Outside(ground, kind)

    def tried(words: list[str]) -> str:
        with given(kind) as stdin:
            whole = [*words, PYTHON, "-I", "-S", "-c", PROGRAM, outside.path]
            return said(whole, ground.workspace, stdin=stdin).out

    assert tried(as_user(ground.uid)) == "done\n"
    assert outside.is_reached()
    answer = tried(ringfence_words(field.walls, "--allow-read", str(ground.base)))
    assert not outside.is_reached(), answer
