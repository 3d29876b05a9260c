"""N18: a helper outside hands in a descriptor of a denied file."""

import array
import os
import socket
import threading

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import array, socket
def received():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    s.connect("\\0" + EXTRA[0])
    fds = array.array("i")
    _, control, _, _ = s.recvmsg(1, socket.CMSG_SPACE(4))
    fds.frombytes(control[0][2][:4])
    os.read(fds[0], 9)
attempt("received", received)
"""


def prepare(ground: Ground) -> list[str]:
    name = ground.base.name
    server = ground.stack.enter_context(socket.socket(socket.AF_UNIX))
    server.bind("\0" + name)
    server.listen()
    server.settimeout(0.05)

    def serve(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            fd = os.open(ground.home / ".ssh/id_ed25519", os.O_RDONLY)
            with client:
                client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
            os.close(fd)

    ground.thread(serve)
    return [name]


def test_no_helper_hands_in_a_descriptor(field: Field) -> None:
    field.repels(PROGRAM, prepare)
