"""Whoever is slow, asks too often or takes too much holds up nobody else: real connections, with shorter times."""

import base64
import contextlib
import json
import os
import resource
import select
import socket
import time
from collections.abc import Iterator

import pytest
from tests.attacks.everybody import installed as installed
from tests.looking import free_port
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.serving import Client, Living, certificate, code, living
from tests.tenants.spawning import served

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]
SHORT = """
from ringfence.service import accounts, desk, listening, stewards
listening.HEAD = listening.STALL = 1.5
desk.SLOWEST = 1.5
listening.MOST_WAITING, desk.MOST_STREAMS, desk.MOST_LARGE = 20, 2, 2
"""
BARE = "import uvicorn.protocols.http.h11_impl as bare\nlistening.Prompt = bare.H11Protocol\n"
SLEEPS = 2.0  # longer than any of them


@pytest.fixture(scope="module")
def place(installed: None) -> Iterator[tuple[Hosting, Living]]:
    with hosted() as hosting:
        accounts = {name: (hosting.create(name).name,) for name in ("alice", "bob", "carol")}
        with served(hosting) as spawner, living(spawner, accounts, before=SHORT) as made:
            yield hosting, made


@pytest.fixture
def client(place: tuple[Hosting, Living]) -> Client:
    made = Client(place[1].path)
    made.log_in("alice")
    return made


@pytest.fixture
def bob(place: tuple[Hosting, Living]) -> tuple[Client, str]:
    """Somebody else, with another workspace: what one uses up, nobody else lacks."""
    made = Client(place[1].path)
    made.log_in("bob")
    return made, f"/api/workspaces/{place[0].name('bob')}"


@pytest.fixture
def home(place: tuple[Hosting, Living]) -> str:
    return f"/api/workspaces/{place[0].name('alice')}"


_made: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    _closed_all()


def _closed_all() -> None:
    while _made:
        _made.pop().close()


def opened(path: str, *pieces: bytes) -> socket.socket:
    """A connection on which this much was said; it is closed with the test."""
    made = socket.socket(socket.AF_UNIX)
    _made.append(made)
    made.settimeout(60)
    made.connect(path)
    for piece in pieces:
        made.sendall(piece)
    return made


def head(client: Client, method: str, url: str, *more: str) -> bytes:
    lines = [f"{method} {url} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {client.token}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def heard(made: socket.socket) -> bytes:
    """Everything that is said until it is closed, or reset."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := made.recv(1 << 16):
            said += piece
    return said


def is_open(made: socket.socket) -> bool:
    made.setblocking(False)
    try:
        return made.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_others_are_served_beside_many_who_never_finish(client: Client, home: str) -> None:
    slow = [opened(client.path, b"GET / HTTP/1.1\r\nHost: local") for _ in range(60)]
    assert client.ask("GET", f"{home}/runs")[0] == 200
    gone = [one for one in slow[:40] if not is_open(one)]
    assert len(gone) == 40  # the oldest made room
    until = time.monotonic() + 60
    while any(map(is_open, slow)) and time.monotonic() < until:  # a letter now and then buys no time
        for one in slow:
            with contextlib.suppress(OSError):
                one.send(b"x")
        time.sleep(0.1)
    assert not any(map(is_open, slow))


def test_the_server_alone_would_wait_for_ever(hosting: Hosting) -> None:
    name = hosting.create("a").name
    with served(hosting) as spawner, living(spawner, {"alice": (name,)}, before=SHORT + BARE) as made:
        slow = [opened(made.path, b"GET / HTTP/1.1\r\nHost: local") for _ in range(30)]
        time.sleep(SLEEPS)
        assert all(map(is_open, slow))


@pytest.mark.needs_program("openssl")
def test_a_handshake_has_its_time(hosting: Hosting) -> None:
    with served(hosting) as spawner:
        (chain, key), port = certificate(spawner.top), free_port()
        options = ("--listen", f"127.0.0.1:{port}", "--certificate", chain, "--key", key)
        with living(spawner, {}, "", *options, before=f"{SHORT}listening.HANDSHAKE = 1.0"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as silent:
                assert heard(silent) == b""


def test_a_connection_that_is_used_again_has_the_same_time(client: Client, home: str) -> None:
    with opened(client.path, head(client, "GET", f"{home}/runs")) as one:
        assert one.recv(12) == b"HTTP/1.1 200"
        one.sendall(b"GET / HT")
        assert b"HTTP/1.1" not in heard(one)


def test_who_asks_on_without_waiting_is_answered_once(client: Client, home: str) -> None:
    """Five hundred connections with fifty requests each kept everybody else waiting for three seconds."""
    asked = head(client, "GET", f"{home}/runs")
    said = heard(opened(client.path, asked * 3))
    assert said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 200 ") == 1


def test_a_body_has_its_time(client: Client, home: str) -> None:
    with opened(client.path, head(client, "POST", f"{home}/runs", "Content-Length: 100"), b'{"ar') as one:
        said = heard(one)
    assert b"408" in said.split(b"\r\n")[0]
    assert b"too_slow" in said


def test_who_does_not_take_what_it_asked_for_is_left(bob: tuple[Client, str]) -> None:
    client, home = bob
    data = base64.b64encode(os.urandom(3 << 20)).decode()
    status, answer = client.ask("PUT", f"{home}/file?path=large", data={"data": data})
    assert status == 200, answer
    with opened(client.path, head(client, "GET", f"{home}/file?path=large")) as one:
        gone = select.poll()
        gone.register(one, select.POLLRDHUP)
        assert gone.poll(60_000)
        assert len(heard(one)) < 3 << 20
    with opened(client.path, head(client, "GET", f"{home}/file?path=large", "Connection: close")) as one:
        said = heard(one)
    assert json.loads(said.partition(b"\r\n\r\n")[2])["data"] == data  # and who takes it gets it whole


def test_streams_of_a_workspace(client: Client, home: str) -> None:
    _, run = client.ask("POST", f"{home}/runs", data={"argv": ["sleep", "60"]})
    url = f"{home}/runs/{run['run']}/events"
    held = [opened(client.path, head(client, "GET", url)) for _ in range(2)]
    assert all(one.recv(12) == b"HTTP/1.1 200" for one in held)
    assert code(client.ask("GET", url)) == (429, "too_many")
    for one in held:
        one.close()
    until = time.monotonic() + 60
    while (status := opened(client.path, head(client, "GET", url)).recv(12)) != b"HTTP/1.1 200":
        assert status == b"HTTP/1.1 429"
        assert time.monotonic() < until
        time.sleep(0.05)
    assert client.ask("DELETE", f"{home}/runs/{run['run']}")[0] == 202


def test_streams_that_are_asked_for_at_one_moment(client: Client, home: str) -> None:
    """Each saw a place that was free, until the first had said its first word."""
    _, run = client.ask("POST", f"{home}/runs", data={"argv": ["sleep", "60"]})
    asked = head(client, "GET", f"{home}/runs/{run['run']}/events")
    said: list[bytes] = []
    while said.count(b"HTTP/1.1 200") < 2:  # those of the test before may not be gone yet
        held = [opened(client.path, asked[:-1]) for _ in range(15)]
        for one in held:
            one.sendall(asked[-1:])
        said = [one.recv(12) for one in held]
        for one in held:
            one.close()
        time.sleep(0.2)
    assert said.count(b"HTTP/1.1 200") == 2
    assert said.count(b"HTTP/1.1 429") == 13
    assert client.ask("DELETE", f"{home}/runs/{run['run']}")[0] == 202


def test_files_on_their_way(client: Client, home: str) -> None:
    asked = head(client, "PUT", f"{home}/file?path=x", "Content-Length: 1000"), b"{"
    said: tuple[int, object] = (404, "path_not_found")
    while said == (404, "path_not_found"):  # a busy machine may not come to it while they are held
        held = [opened(client.path, *asked) for _ in range(2)]
        until = time.monotonic() + 1.4
        while said == (404, "path_not_found") and time.monotonic() < until:
            said = code(client.ask("GET", f"{home}/file?path=x"))
        assert all(b"too_slow" in heard(one) for one in held)
    assert said == (429, "too_many")


def test_requests_of_an_account_and_of_a_workspace(client: Client, place: tuple[Hosting, Living]) -> None:
    """One who asks too often is told so, and another asks on."""
    often = Client(client.path)
    often.log_in("carol")
    asked = head(often, "GET", f"/api/workspaces/{place[0].name('carol')}/runs")
    one, said = opened(client.path), b""
    for _ in range(1000):
        one.sendall(asked)
        while not said.endswith(b"}"):
            said += one.recv(1 << 16)
        if b" 429 " in said:
            break
        said = b""
    assert b"too_many" in said
    assert client.ask("GET", "/api/workspaces")[0] == 200


def is_closed(one: socket.socket) -> bool:
    looked = select.poll()  # `select` takes no such high numbers
    looked.register(one, select.POLLIN)
    return bool(looked.poll(0))


def test_whoever_asks_is_answered_beside_more_idle_ones_than_are_kept(installed: None) -> None:
    """With the times and numbers of the service itself: some sixteen hundred who say nothing, or half a head."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with hosted() as hosting:
        accounts = {"alice": (hosting.create("alice").name,)}
        with served(hosting) as spawner, living(spawner, accounts) as made:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
            client = Client(made.path)
            client.log_in("alice")
            began = time.monotonic()
            for number in range(1600):
                opened(made.path, b"GET / HTTP/1.1\r\nHost: lo" if number % 2 else b"")
            idle = time.monotonic() - began
            first = [client.ask("GET", "/api/workspaces")[0] for _ in range(5)]
            took = time.monotonic() - began - idle
            gone = sum(is_closed(one) for one in _made)
    _closed_all()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert first == [200] * 5
    assert 600 <= gone <= 610  # the oldest made room
    assert took < 5
