"""The HTTP proxy: what it carries, and what hostile clients and servers get."""

import base64
import contextlib
import http.client
import socket
import threading
import time

import pytest
from tests.network.conftest import Echo, Serve, Web, allowing, everything, hello_for, listener


def get(target: str, host: str, extra: str = "", method: str = "GET", body: str = "") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n{body}".encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


CLOSE = "Connection: close\r\n"


@pytest.mark.parametrize("path", ["/sized", "/chunked", "/until-closed"])
def test_an_allowed_request_is_carried(serve: Serve, web: Web, path: str) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"

    answer = run.ask("http", get(f"http://{where}{path}", where, CLOSE))

    connection = http.client.HTTPConnection("127.0.0.1", run.ports["http"], timeout=60)
    connection.request("GET", f"http://{where}{path}")
    assert (status(answer), connection.getresponse().read()) == (200, f"GET {path} {where} ".encode())
    connection.close()


def test_many_requests_share_a_connection_and_each_is_judged(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    with run.connect("http") as sock:
        for turn in range(3):
            sock.sendall(get(f"http://{where}/{turn}", where))
            answer = b""
            while not answer.endswith(f"/{turn} {where} ".encode()):
                answer += sock.recv(65536)
        sock.sendall(get("http://evil.test/", "evil.test"))

        assert status(everything(sock)) == 403
    assert [one.target for one in run.refusals()] == ["evil.test:80"]


def basic(word: str) -> str:
    return f"Proxy-Authorization: Basic {base64.b64encode(f'run:{word}'.encode()).decode()}\r\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", 407),
        (basic("wrong"), 407),
        ("Proxy-Authorization: Bearer secret\r\n", 407),
        (basic("secret"), 200),
        (basic("secret") * 2, 400),
        (basic("wrong") + basic("secret"), 400),
    ],
)
def test_another_runs_password_opens_nothing(serve: Serve, web: Web, said: str, expected: int) -> None:
    where = f"127.0.0.1:{web.port}"
    run = serve(allowing(where, credential="secret"), "http")

    assert status(run.ask("http", get(f"http://{where}/x", where, said + CLOSE))) == expected
    assert len(web.seen) == (expected == 200)


def test_what_a_body_holds_is_not_read_as_a_request(serve: Serve, web: Web) -> None:
    """Also where it comes by itself and looks like one."""
    where = f"127.0.0.1:{web.port}"
    run, inner = serve(allowing(where), "http"), get(f"http://{where}/inner", where)
    with run.connect("http") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (
            get(f"http://{where}/", where, "Transfer-Encoding: chunked\r\n" + CLOSE, "POST"),
            b"%x\r\n" % len(inner),
            inner,
            b"\r\n0\r\n\r\n",
        ):
            sock.sendall(piece)
            time.sleep(0.05)
        answer = everything(sock)

    assert answer.endswith(b"POST / %b %b" % (where.encode(), inner))
    assert len(web.seen) == 1


def test_a_host_that_is_not_ascii_is_not_understood(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")

    assert status(run.ask("http", b"GET / HTTP/1.1\r\nHost: b\xfccher.test\r\n\r\n")) == 400


def test_requests_sent_at_once_are_answered_in_order(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    bodies = [get(f"http://{where}/{n}", where, f"Content-Length: {n}\r\n", "POST", "x" * n) for n in range(5)]
    last = get(f"http://{where}/last", where, CLOSE)

    answer = run.ask("http", b"".join(bodies) + last)

    assert [f"POST /{n} {where} {'x' * n}".encode() in answer for n in range(5)] == [True] * 5
    assert answer.endswith(f"GET /last {where} ".encode())


def test_a_chunked_body_is_carried(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    request = get(
        f"http://{where}/", where, CLOSE + "Transfer-Encoding: chunked\r\n", "POST", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )

    assert run.ask("http", request).endswith(b"abcde")


def test_a_head_request_has_no_body(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"

    answer = run.ask("http", get(f"http://{where}/", where, method="HEAD") + get(f"http://{where}/", where, CLOSE))

    assert (status(answer), answer.count(b"HTTP/1.1 200")) == (200, 2)


def test_origin_form_goes_where_its_host_says(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"

    assert status(run.ask("http", get("/x", where, CLOSE))) == 200
    assert status(run.ask("http", get("/x", "evil.test", CLOSE))) == 403


def test_what_is_about_the_hop_stays_on_the_hop(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    extra = (
        "Connection: close, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: x\r\nX-End: 2\r\n"
    )

    run.ask("http", get(f"http://{where}/", where, extra))

    assert "X-End: 2" in web.seen[0].title()
    assert not [word for word in ("x-hop", "proxy-") if word in web.seen[0].lower()]


def test_a_refusal_says_the_rule_and_the_reason(serve: Serve) -> None:
    run = serve(allowing("*.a.test", denied=("x.a.test",)), "http")

    answer = run.ask("http", get("http://x.a.test/", "x.a.test"))

    assert status(answer) == 403
    assert answer.endswith(b"ringfence: x.a.test:80 may not be reached: test denies x.a.test\n")


HOSTILE = {
    "another host in the Host header": (b"GET http://ALLOWED/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: ALLOWED\r\nHost: evil.test\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "userinfo": (b"CONNECT ALLOWED@evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "a NUL": (b"CONNECT evil.test\0.ALLOWED HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a NUL, encoded": (b"CONNECT evil.test%00.ALLOWED HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "a bare CR": (b"GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: a\rb\r\n\r\n", 400),
    "space in a name": (b"GET http://ALLOWED/ HTTP/1.1\r\nHost : ALLOWED\r\n\r\n", 400),
    "both lengths": (
        b"POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0",
        400,
    ),
    "two lengths": (
        b"POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        400,
    ),
    "a length that is left out on the way": (
        (b"POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nConnection: content-length\r\nContent-Length: 37\r\n\r\n"
        b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n\r\n"),
        400,
    ),
    "a host that is left out on the way": (
        b"GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nConnection: close, Host\r\n\r\n",
        400,
    ),
    "a strange coding": (b"POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: x\r\n\r\n", 501),
    "a folded header": (b"GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: a\r\n b: c\r\n\r\n", 200),
    "another scheme": (b"GET ftp://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", 400),
    "decimal": (b"CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "hex": (b"CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "octal": (b"CONNECT 0177.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "mapped": (b"CONNECT [::ffff:7f00:1]:22 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "this host": (b"CONNECT 0.0.0.0:22 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "metadata": (b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "a port too far": (b"CONNECT 127.0.0.1:65536 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
    "a port of words": (b"CONNECT 127.0.0.1:http HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "a header without end": (b"GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: " + b"a" * 70000, 431),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_request_is_refused(serve: Serve, web: Web, name: str) -> None:
    request, expected = HOSTILE[name]
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    request = request.replace(b"ALLOWED", f"127.0.0.1:{web.port}".encode())
    with run.connect("http") as sock:
        sock.sendall(request)
        if expected == 200:
            assert status(sock.recv(65536)) == 200
            return
        answer = everything(sock)

    assert status(answer) == expected
    assert web.seen == []


def test_a_smuggled_request_is_a_request_of_its_own(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    smuggled = get("http://evil.test/", "evil.test")

    answer = run.ask("http", get(f"http://{where}/", where, "Content-Length: 0\r\n", "POST") + smuggled)

    assert [status(part) for part in answer.replace(b"HTTP/1.1", b"\nHTTP/1.1").split(b"\n") if status(part)] == [
        200,
        403,
    ]
    assert len(web.seen) == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Content-Length\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000,
        b"",
    ],
)
def test_a_server_that_speaks_no_http_gives_a_502(serve: Serve, reply: bytes) -> None:
    server = listener()

    def answer() -> None:
        client, _ = server.accept()
        client.recv(65536)
        client.sendall(reply)
        client.close()

    thread = threading.Thread(target=answer)
    thread.start()
    where = f"127.0.0.1:{server.getsockname()[1]}"
    run = serve(allowing(where), "http")

    assert status(run.ask("http", get(f"http://{where}/", where))) == 502
    thread.join()
    server.close()


def test_a_server_that_says_more_than_it_announced_is_not_passed_on(serve: Serve) -> None:
    server = listener()

    def answer() -> None:
        client, _ = server.accept()
        client.recv(65536)
        client.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        )
        client.recv(1)
        client.close()

    thread = threading.Thread(target=answer)
    thread.start()
    where = f"127.0.0.1:{server.getsockname()[1]}"
    run = serve(allowing(where), "http")

    assert run.ask("http", get(f"http://{where}/", where, CLOSE)).endswith(b"\r\n\r\nok")
    thread.join()
    server.close()


def test_a_closed_port_is_a_502(serve: Serve, closed_port: int) -> None:
    where = f"127.0.0.1:{closed_port}"
    run = serve(allowing(where), "http")

    answer = run.ask("http", f"CONNECT {where} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert (status(answer), b"Connection refused" in answer) == (502, True)


def tunnel(run: object, where: str) -> socket.socket:
    sock: socket.socket = run.connect("http")  # type: ignore[attr-defined]
    sock.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
    assert sock.recv(100) == b"HTTP/1.1 200 Connection established\r\n\r\n"
    return sock


def test_a_tunnel_carries_both_ways_and_both_ends(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"127.0.0.1:{echo.port}"), "http")
    with tunnel(run, f"127.0.0.1:{echo.port}") as sock:
        sock.sendall(b"x" * 5_000_000)
        sock.shutdown(socket.SHUT_WR)

        assert len(everything(sock)) == 5_000_000


def test_bytes_that_come_with_the_connect_are_the_tunnels(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"127.0.0.1:{echo.port}"), "http")
    with run.connect("http") as sock:
        sock.sendall(f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1\r\nHost: x\r\n\r\nearly".encode())
        sock.shutdown(socket.SHUT_WR)

        assert everything(sock).endswith(b"\r\n\r\nearly")


@pytest.mark.parametrize(
    ("name", "passes"), [("localhost", True), ("LocalHost", True), ("evil.test", False), ("", True)]
)
def test_tls_for_another_server_than_the_tunnel_is_for_goes_no_further(
    serve: Serve, echo: Echo, name: str, passes: bool
) -> None:
    run = serve(allowing(f"localhost:{echo.port}"), "http")
    first = hello_for(name)
    with tunnel(run, f"localhost:{echo.port}") as sock:
        for byte in range(0, len(first), 100):  # in pieces: the name is found all the same
            sock.sendall(first[byte : byte + 100])
        answer = sock.recv(65536) if passes else everything(sock)

    assert (b"".join(echo.heard) != b"") is passes
    assert answer.startswith(b"\x16" if passes else b"\x15")


@pytest.mark.parametrize(
    ("before", "passes"),
    [(b"\x15\3\1\0\2\1\x5a", False), (b"\x14\3\3\0\1\1", False), (b"\x16\3\1\0\0", False), (b"\x15\0\0\0", True)],
)
def test_tls_that_does_not_begin_with_its_hello_goes_no_further(
    serve: Serve, echo: Echo, before: bytes, passes: bool
) -> None:
    """Go's servers pass over an alert that comes first, and read the name behind it."""
    run = serve(allowing(f"localhost:{echo.port}"), "http")
    with tunnel(run, f"localhost:{echo.port}") as sock:
        for byte in before:
            sock.sendall(bytes((byte,)))
        sock.sendall(hello_for("evil.test"))
        sock.recv(65536) if passes else everything(sock)

    assert (b"".join(echo.heard) != b"") is passes


def test_hosts_need_not_match_when_the_policy_says_so(serve: Serve, echo: Echo) -> None:
    run = serve(allowing(f"localhost:{echo.port}", match_hosts=False), "http")
    with tunnel(run, f"localhost:{echo.port}") as sock:
        sock.sendall(hello_for("evil.test"))

        assert sock.recv(65536)


def test_a_name_that_leads_to_loopback_is_refused_unless_the_address_is_named(serve: Serve, echo: Echo) -> None:
    """`localhost.` is a name like any other here: what matters is where it leads."""
    run = serve(
        allowing(f"ip6-localhost.test:{echo.port}", f"127.0.0.1:{echo.port + 1 if echo.port < 65535 else 1}"), "http"
    )

    answer = run.ask("http", f"CONNECT 127.0.0.1:{echo.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    assert (status(answer), echo.count) == (403, 0)


def test_a_hundred_hostile_clients_at_once_do_not_keep_others_out(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    where = f"127.0.0.1:{web.port}"
    slow = [run.connect("http") for _ in range(100)]
    for number, sock in enumerate(slow):
        sock.sendall(HOSTILE[list(HOSTILE)[number % len(HOSTILE)]][0][: 5 + number])

    assert status(run.ask("http", get(f"http://{where}/", where, CLOSE))) == 200
    for sock in slow:
        sock.close()


def test_two_runs_at_one_gate_have_each_its_own_policy(serve: Serve, web: Web) -> None:
    where = f"127.0.0.1:{web.port}"
    one, other = serve(allowing(where), "http"), serve(allowing("a.test"), "http")

    request = get(f"http://{where}/", where, CLOSE)

    assert (status(one.ask("http", request)), status(other.ask("http", request))) == (200, 403)


def test_a_run_that_is_over_has_no_doors(serve: Serve, web: Web) -> None:
    run = serve(allowing(f"127.0.0.1:{web.port}"), "http")
    with run.connect("http") as sock:
        run.refusals()
        assert everything(sock) == b""

    with pytest.raises(ConnectionRefusedError):
        run.connect("http")


def test_the_basic_credential_is_read_as_everybody_writes_it() -> None:
    from ringfence.network.heads import Request
    from ringfence.network.http_proxy import _credential_of

    word = base64.b64encode(b"ringfence:secret").decode()

    def given(value: str) -> bytes:
        return _credential_of(Request(b"GET", b"/", [(b"host", b"x"), (b"proxy-authorization", value.encode())]))

    assert [given(f"Basic {word}"), given(f"basic {word}"), given("Bearer x"), given("Basic ###")] == [
        b"secret", b"secret", b"", b"",
    ]  # fmt: skip


def test_a_server_that_was_asked_before_says_nothing_in_a_tunnel_to_another(serve: Serve) -> None:
    with listener() as first, listener() as second:
        places = [sock.getsockname()[1] for sock in (first, second)]
        served = serve(allowing(*(f"127.0.0.1:{port}" for port in places)), "http")
        with served.connect("http") as client:
            client.sendall(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (places[0], places[0]))
            before = first.accept()[0]
            before.recv(4096)
            before.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            assert client.recv(4096).endswith(b"ok")
            client.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % places[1])
            after = second.accept()[0]
            assert client.recv(4096).startswith(b"HTTP/1.1 200 Connection established")
            with before, after:
                with contextlib.suppress(OSError):  # it was hung up on
                    before.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
                client.sendall(b"question")
                assert after.recv(4096) == b"question"
                after.sendall(b"answer")
                assert client.recv(4096) == b"answer"
