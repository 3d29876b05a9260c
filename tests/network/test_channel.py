"""What is large is carried by the kernel: whole, in order, and nothing that was not announced."""

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.looking import until
from tests.network.conftest import Serve, allowing, everything, listener, socks_request

BODY = random.Random(1).randbytes(20 << 20)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does so with everybody who connects."""
    door = listener(socket.SOCK_STREAM)

    def work() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = door.accept()
                with one, contextlib.suppress(OSError):
                    serve(one)

    thread = threading.Thread(target=work)
    thread.start()
    yield door.getsockname()[1]
    door.shutdown(socket.SHUT_RDWR)
    door.close()
    thread.join()


def get(port: int, path: str, *headers: str) -> bytes:
    lines = [f"GET http://127.0.0.1:{port}{path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def read(sock: socket.socket, size: int, pause: float = 0) -> bytes:
    found = bytearray()
    while len(found) < size and (more := sock.recv(min(1 << 20, size - len(found)))):
        found += more
        time.sleep(pause)
    return bytes(found)


@pytest.mark.parametrize("pause", [0, 0.01])
def test_a_large_answer_comes_whole_and_another_after_it(serve: Serve, pause: float) -> None:
    def answer(sock: socket.socket) -> None:
        while b"/" in (asked := sock.recv(65536)):
            body = BODY if b"/big" in asked else b"small"
            sock.sendall(HEAD % len(body) + body)

    with server(answer) as port, serve(allowing(f"127.0.0.1:{port}"), "http").connect("http") as sock:
        sock.sendall(get(port, "/big"))
        big = read(sock, len(HEAD % len(BODY)) + len(BODY), pause)
        sock.sendall(get(port, "/small", "Connection: close"))
        small = everything(sock)

    assert (big.endswith(b"\r\n\r\n" + BODY), small.endswith(b"small")) == (True, True)


def test_nothing_follows_that_was_not_announced(serve: Serve) -> None:
    def answer(sock: socket.socket) -> None:
        asked = sock.recv(65536)
        sock.sendall(
            HEAD % len(BODY) + BODY + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
            if b"/big" in asked
            else HEAD % 4 + b"good"
        )
        sock.recv(1)

    with server(answer) as port, serve(allowing(f"127.0.0.1:{port}"), "http").connect("http") as sock:
        sock.sendall(get(port, "/big") + get(port, "/next", "Connection: close"))
        said = everything(sock)

    assert (said.count(b"evil"), said.endswith(b"good")) == (0, True)


def test_an_answer_that_breaks_off_ends_the_connection(serve: Serve) -> None:
    def answer(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(HEAD % len(BODY) + BODY[: 12 << 20])

    with server(answer) as port, serve(allowing(f"127.0.0.1:{port}"), "http").connect("http") as sock:
        sock.sendall(get(port, "/big"))
        said = b""
        with contextlib.suppress(ConnectionResetError):
            said = everything(sock)

    assert len(said) < len(BODY)


@pytest.mark.parametrize("pause", [0, 0.01])
def test_a_tunnel_carries_much_both_ways_and_its_end(serve: Serve, pause: float) -> None:
    def echo(sock: socket.socket) -> None:
        got = read(sock, len(BODY), pause)
        sock.sendall(got)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""

    with server(echo) as port, serve(allowing(f"127.0.0.1:{port}"), "socks").connect("socks") as sock:
        sock.sendall(socks_request("127.0.0.1", port))
        assert read(sock, 12)[2:4] == b"\x05\x00"
        writer = threading.Thread(target=sock.sendall, args=(BODY,))
        writer.start()
        got = bytearray()
        while more := sock.recv(1 << 20):
            got += more
            time.sleep(pause)
        writer.join()

    assert bytes(got) == BODY


def test_who_hangs_up_in_the_middle_leaves_no_pipe(serve: Serve) -> None:
    def answer(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(HEAD % (1 << 30) + BODY)
        sock.sendall(BODY)

    run_of: list[int] = []

    def pipes() -> int:
        found = 0
        for one in Path(f"/proc/{run_of[0]}/fd").iterdir():
            with contextlib.suppress(OSError):
                found += os.readlink(one).startswith("pipe:")
        return found

    with server(answer) as port:
        run = serve(allowing(f"127.0.0.1:{port}"), "http")
        run_of.append(run.gate.pid)
        before = pipes()
        for _ in range(60):
            with run.connect("http") as sock:
                sock.sendall(get(port, "/big"))
                assert len(read(sock, 1 << 20)) == 1 << 20

        assert until(lambda: pipes() <= before, 0.05)
        assert pipes() == before
