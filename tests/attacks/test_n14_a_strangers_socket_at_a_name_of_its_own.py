"""N14: a socket is bound while somebody outside exchanges directories, so that a service's stands where the warden
looks for what was bound. It is the run's own only if who listens on it is who was bound."""

import contextlib
import ctypes
import os
import socket
import threading

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket, time
places = {}
while len(places) < 2:
    for name in "ab":
        fd = os.open(name, os.O_RDONLY)
        places[os.fstat(fd).st_ino] = fd
free = min(places.values(), key=lambda fd: len(os.listdir(fd)))
def is_reached(name, own):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(name)
        client.send(b"word")
        try:
            own.accept()[0].close()
        except BlockingIOError:
            return True
def reached():
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            with socket.socket(socket.AF_UNIX) as own:
                own.bind("a/s")
                own.listen()
                own.setblocking(False)
                for name in ("a/s", "b/s"):
                    try:
                        if is_reached(name, own):
                            return
                    except OSError:
                        pass
            os.unlink("s", dir_fd=free)
        except OSError:
            pass
    raise PermissionError(errno.EACCES, "")
write("src/begun")
attempt("who listens outside", reached)
"""


def prepare(ground: Ground) -> list[str]:
    one, other = ground.workspace / "a", ground.workspace / "b"
    one.mkdir()
    other.mkdir()
    service = ground.stack.enter_context(socket.socket(socket.AF_UNIX))
    service.bind(str(one / "s"))
    (one / "s").chmod(0o777)
    service.listen()
    service.settimeout(0.01)
    heard: list[bytes] = []
    ground.harmed.append(lambda: b"word" in heard)
    libc = ctypes.CDLL(None)

    def exchange(stop: threading.Event) -> None:
        while not stop.wait(0.001) and not (ground.workspace / "src" / "begun").exists():
            pass
        while not stop.is_set():
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)

    def serve(stop: threading.Event) -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = service.accept()
                with client:
                    client.settimeout(1)
                    heard.append(client.recv(9))

    ground.thread(serve)
    ground.thread(exchange)
    return []


def test_whose_socket_stands_at_a_name_is_proven_before_anybody_connects(field: Field) -> None:
    field.repels(PROGRAM, prepare)
