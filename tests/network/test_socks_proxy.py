"""The SOCKS5 proxy, its codes, and the forwarded ports."""

import contextlib
import socket
import struct
import time

import pytest
from tests.network.conftest import Echo, Serve, allowing, everything, hello_for, listener, socks_request

from ringfence.network.hello import ALERT

HELLO = b"\x05\x01\x00"


def test_a_name_is_reached(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"localhost:{echo.port}"), "socks")
    with run.connect("socks") as sock:
        sock.sendall(socks_request("localhost", echo.port) + b"early")
        sock.shutdown(socket.SHUT_WR)

        assert everything(sock) == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + b"early"


WORD = b"\x01\x02me\x06secret"


@pytest.mark.parametrize(
    ("greeting", "word", "answer"),
    [
        (b"\x05\x01\x00", b"", b"\x05\xff"),
        (b"\x05\x02\x00\x02", b"\x01\x02me\x05wrong", b"\x05\x02\x01\x01"),
        (b"\x05\x02\x00\x02", b"\x02\x02me\x06secret", b"\x05\x02\x01\x01"),
        (b"\x05\x01\x02", WORD, b"\x05\x02\x01\x00\x05\x00\x00\x01" + bytes(6) + b"early"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "by bytes"])
def test_another_runs_password_opens_nothing(
    serve: Serve, echo: Echo, greeting: bytes, word: bytes, answer: bytes, is_whole: bool
) -> None:
    """Whether all is said at once or byte by byte."""
    run = serve(allowing(f"127.0.0.1:{echo.port}", credential="secret"), "socks")
    request = b"\x05\x01\x00\x01\x7f\x00\x00\x01" + struct.pack(">H", echo.port) + b"early"
    said = greeting + word + request
    with run.connect("socks") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # it may be hung up on already
            for piece in [said] if is_whole else [said[at : at + 1] for at in range(len(said))]:
                sock.sendall(piece)
                time.sleep(0 if is_whole else 0.002)
            sock.shutdown(socket.SHUT_WR)

        assert everything(sock) == answer
    assert b"".join(echo.heard) == (b"early" if b"early" in answer else b"")


def test_a_server_that_speaks_first_is_heard(serve: Serve) -> None:
    server = Echo(b"SSH-2.0-x\r\n")
    run = serve(allowing(f"127.0.0.1:{server.port}"), "socks")
    with run.connect("socks") as sock:
        sock.sendall(HELLO + b"\x05\x01\x00\x01\x7f\x00\x00\x01" + struct.pack(">H", server.port))
        answer = b""
        while (piece := sock.recv(100)) and not (answer := answer + piece).endswith(b"\r\n"):
            pass
    server.sock.close()

    assert answer.endswith(b"SSH-2.0-x\r\n")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (socks_request("evil.test", 443), 2),
        (socks_request(b"evil.test\0.allowed.test", 443), 2),
        (socks_request(b"allowed.test\r\nx", 443), 2),
        (socks_request(b"\xff\xfe", 443), 2),
        (socks_request("2130706433", 80), 2),
        (HELLO + b"\x05\x01\x00\x01\x7f\x00\x00\x0c\x00\x50", 2),
        (HELLO + b"\x05\x01\x00\x04" + bytes(10) + b"\xff\xff\x7f\x00\x00\x01\x00\x50", 2),
        (HELLO + b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", 7),
        (HELLO + b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", 7),
        (HELLO + b"\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50", 8),
        (HELLO + b"\x04\x01\x00\x01\x7f\x00\x00\x01\x00\x50", 8),
        (HELLO + b"\x05\x01\x01\x01\x7f\x00\x00\x01\x00\x50", 8),
        (socks_request("allowed.invalid", 443), 4),
    ],
)
def test_a_refused_request_gets_its_code(serve: Serve, said: bytes, expected: int) -> None:
    run = serve(allowing("allowed.test", "allowed.invalid"), "socks")

    assert run.ask("socks", said)[2:4] == bytes((5, expected))


@pytest.mark.parametrize("said", [b"\x04\x01\x00\x50\x7f\x00\x00\x01x\0", b"GET / HTTP/1.1\r\n\r\n"])
def test_another_protocol_is_hung_up_on(serve: Serve, said: bytes) -> None:
    assert serve(allowing("a.test"), "socks").ask("socks", said) == b""


def test_a_closed_port_is_refused_as_one(serve: Serve, closed_port: int) -> None:
    run = serve(allowing(f"127.0.0.1:{closed_port}"), "socks")

    assert run.ask("socks", socks_request("127.0.0.1", closed_port))[3] == 5


def test_a_greeting_without_our_method_is_refused(serve: Serve) -> None:
    assert serve(allowing("a.test"), "socks").ask("socks", b"\x05\x01\x02") == b"\x05\xff"


def test_tls_for_another_server_goes_no_further(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"localhost:{echo.port}"), "socks")

    run.ask("socks", socks_request("localhost", echo.port) + hello_for("evil.test"))

    assert echo.heard == []
    assert "evil.test" in run.refusals()[0].reason


def test_who_asks_for_another_server_is_told_so_and_the_host_is_let_go(serve: Serve) -> None:
    with listener() as host:
        run = serve(allowing(f"localhost:{host.getsockname()[1]}"), "socks")
        with run.connect("socks") as sock:
            sock.sendall(socks_request("localhost", host.getsockname()[1]) + hello_for("evil.test"))
            server, _ = host.accept()
            with server:
                server.settimeout(10)
                assert (everything(sock)[12:], server.recv(100)) == (ALERT, b"")


@pytest.mark.parametrize("is_client", [True, False], ids=["client", "host"])
def test_who_hangs_up_before_a_word_was_said_ends_both_sides(serve: Serve, is_client: bool) -> None:
    with listener() as host:
        run = serve(allowing(f"localhost:{host.getsockname()[1]}"), "socks")
        with run.connect("socks") as sock:
            sock.settimeout(None)  # or not all twelve bytes are waited for
            sock.sendall(socks_request("localhost", host.getsockname()[1]))
            server, _ = host.accept()
            with server:
                server.settimeout(10)
                assert sock.recv(12, socket.MSG_WAITALL)[:4] == b"\x05\x00\x05\x00"
                one, other = (sock, server) if is_client else (server, sock)
                one.close()
                assert other.recv(100) == b""


@pytest.mark.parametrize("is_half_closed", [False, True], ids=["open", "half closed"])
@pytest.mark.parametrize("door", ["socks", "http"])
def test_who_says_nothing_hears_all_that_a_host_says(serve: Serve, door: str, is_half_closed: bool) -> None:
    """The end of it was lost when the host had ended, and all of it for who had said that nothing will come."""
    said = b"x" * 3_100_000  # more than the sockets between them hold, and less than what makes the host wait
    with listener() as host, socket.socket() as sock:
        port = host.getsockname()[1]
        run = serve(allowing(f"localhost:{port}"), "socks", "http")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for one in (host, sock):
            one.settimeout(10)
        sock.connect(("127.0.0.1", run.ports[door]))
        connect = b"CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (port, port)
        sock.sendall(socks_request("localhost", port) if door == "socks" else connect)
        server, _ = host.accept()
        with server:
            server.settimeout(10)
            if is_half_closed:
                sock.shutdown(socket.SHUT_WR)
                assert server.recv(100) == b""
            server.sendall(said)
        time.sleep(0.5)  # that it has ended is known before all is taken

        assert everything(sock)[-len(said) :] == said


def test_tls_for_another_server_goes_on_where_a_policy_does_not_mind(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"localhost:{echo.port}", match_hosts=False), "socks")
    with run.connect("socks") as sock:
        sock.sendall(socks_request("localhost", echo.port) + hello_for("evil.test"))
        sock.shutdown(socket.SHUT_WR)

        assert everything(sock)[12:] == b"".join(echo.heard) != b""
    assert run.refusals() == []


def test_a_forwarded_port_leads_to_the_service_it_stands_for(serve: Serve, echo: Echo) -> None:
    run = serve(
        allowing(echo.port), f"to localhost {echo.port}", f"via 127.0.0.1 {echo.port}", f"to evil.test {echo.port}"
    )
    answers = []
    for door in run.ports:
        with run.connect(door) as sock:
            with contextlib.suppress(OSError):  # it may be hung up on already
                sock.sendall(b"x")
                sock.shutdown(socket.SHUT_WR)
            answers.append(everything(sock))

    assert answers == [b"x", b"x", b""]
