"""The service, whole: a real spawner, real tenants, uvicorn on a unix socket, and curl."""

import base64
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.serving import (
    NEEDS_SERVER,
    PASSWORD,
    Client,
    Living,
    becomes,
    code,
    database,
    events,
    living,
    visited,
)
from tests.tenants.spawning import served

from ringfence.service import handlers, page
from ringfence.service.accounts import Accounts
from ringfence.service.app import TABLE, openapi

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=NEEDS_SERVER)])
def place(request: pytest.FixtureRequest, installed: None) -> Iterator[tuple[Hosting, Living]]:
    """Two tenants, the service over them, and its state in each kind of database."""
    with hosted() as hosting, database(request.param) as url:
        one, other = hosting.create("a").name, hosting.create("b").name
        accounts = {"alice": (one,), "bob": (other,), "both": (one, other)}
        with served(hosting) as spawner, living(spawner, accounts, url) as made:
            yield hosting, made


@pytest.fixture
def client(place: tuple[Hosting, Living]) -> Client:
    return Client(place[1].path)


@pytest.fixture
def home(place: tuple[Hosting, Living]) -> str:
    return f"/api/workspaces/{place[0].name('a')}"


def test_the_seeds_own_test(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    """Log in, ask for what is outside, and for what is somebody else's."""
    client.log_in("alice")
    outside = client.ask("GET", f"{home}/file?path=../../../etc/passwd")
    assert code(outside) == (403, "path_outside_workspace")
    other = place[0].name("b")
    assert code(client.ask("GET", f"/api/workspaces/{other}/files")) == (403, "workspace_forbidden")
    for path in ("/etc/passwd", "..", "a/../../x", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd"):
        assert code(client.ask("GET", f"{home}/file?path={path}"))[0] == 403
    for path in ("%252e%252e/passwd", "%c0%ae%c0%ae/passwd", "....//passwd", "..%5c..%5cpasswd", "%2e%2e%00/passwd"):
        assert code(client.ask("GET", f"{home}/file?path={path}"))[0] in (
            400,
            404,
        )  # names, of files that are not there
    client.token = ""
    assert code(client.ask("GET", f"{home}/files")) == (401, "token_missing")


def test_below_the_service_the_kernel_refuses(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    hosting = place[0]
    secret = f"{hosting.base}/{hosting.name('b')}/user/src/secret"
    Path(secret).write_text("bob's")
    os.chmod(secret, 0o644)
    client.log_in("alice")
    status, run = client.ask("POST", f"{home}/runs", data={"argv": ["cat", secret]})
    assert status == 201
    text, ended = events(client, f"{home}/runs/{run['run']}")
    assert "bob" not in text["stdout"]
    assert ended["exitCode"] == 1
    client.log_in("bob")
    status, answer = client.ask("GET", f"/api/workspaces/{hosting.name('b')}/file?path=secret")
    assert base64.b64decode(str(answer["data"])) == b"bob's"


def test_files_and_runs(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    client.log_in("alice")
    data = base64.b64encode(b"echo hi; echo no >&2; echo made > out.txt; exit 4").decode()
    assert client.ask("PUT", f"{home}/file?path=x.sh", data={"data": data})[0] == 200
    status, run = client.ask("POST", f"{home}/runs", data={"argv": ["sh", "x.sh"], "timeout": 30})
    assert status == 201
    text, ended = events(client, f"{home}/runs/{run['run']}")
    assert (text, ended.get("exitCode")) == ({"stdout": "hi\n", "stderr": "no\n"}, 4), ended
    assert events(client, f"{home}/runs/{run['run']}")[0] == text  # whoever comes late is told all
    assert events(client, f"{home}/runs/{run['run']}", "-H", "Last-Event-ID: 1")[0] != text
    _, listed = client.ask("GET", f"{home}/files")
    assert {"out.txt", "x.sh"} <= {entry["name"] for entry in listed["entries"]}
    assert client.ask("GET", f"{home}/runs")[1]["runs"][0]["run"] == run["run"]
    client.log_in("bob")
    bobs = f"/api/workspaces/{place[0].name('b')}"
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/events"), ("GET", "/denials")):
        assert code(client.ask(method, f"{bobs}/runs/{run['run']}{end}")) == (404, "run_not_found")


def test_a_run_is_cancelled(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    client.log_in("alice")
    _, run = client.ask("POST", f"{home}/runs", data={"argv": ["sh", "-c", "echo up; sleep 100"]})
    uid = str(place[0].registry.find(place[0].name("a")).uid)
    assert becomes(True, uid)
    assert client.ask("DELETE", f"{home}/runs/{run['run']}")[0] == 202
    _, ended = events(client, f"{home}/runs/{run['run']}")
    assert ended["error"] == {"code": "cancelled", "message": "it was cancelled"}
    assert becomes(False, uid)


def test_a_run_is_cancelled_before_it_has_begun(hosting: Hosting) -> None:
    """Who starts it may have a lot to do; who pressed the button meant it."""
    name = hosting.create("a").name
    base, mark = f"/api/workspaces/{name}/runs", Path(hosting.base, name, "user", "src", "begun")
    with served(hosting) as spawner, living(spawner, {"alice": (name,)}) as made:
        client = Client(made.path)
        client.log_in("alice")
        spawner.process.send_signal(signal.SIGSTOP)
        try:
            run = client.ask("POST", base, data={"argv": ["touch", "begun"]})[1]["run"]
            assert client.ask("DELETE", f"{base}/{run}")[0] == 202
        finally:
            spawner.process.send_signal(signal.SIGCONT)
        assert events(client, f"{base}/{run}")[1]["error"]["code"] == "cancelled"  # type: ignore[index]
        assert not mark.exists()


def test_who_may_have_one_run_has_one_after_a_question_too(hosting: Hosting) -> None:
    """Who answered it waits for the next for 20 s, and was counted for that long as the run that there may be; and the
    page, which asks before each run, was one of that trouble while one went on."""
    name = hosting.create("a", limits={"runs": 1}).name
    base = f"/api/workspaces/{name}"
    with served(hosting) as spawner, living(spawner, {"alice": (name,)}) as made:
        client = Client(made.path)
        client.log_in("alice")
        for _ in range(2):
            assert client.ask("GET", f"{base}/files")[0] == 200
            run = client.ask("POST", f"{base}/runs", data={"argv": ["echo", "hi"]})[1]["run"]
            assert events(client, f"{base}/runs/{run}")[0]["stdout"] == "hi\n"
        client.ask("GET", f"{base}/files")
        run = client.ask("POST", f"{base}/runs", data={"argv": ["sh", "-c", "echo up; sleep 100"]})[1]["run"]
        assert becomes(True, str(hosting.registry.find(name).uid))
        other = client.ask("POST", f"{base}/runs", data={"argv": ["echo", "hi"]})[1]["run"]
        assert events(client, f"{base}/runs/{other}")[1]["error"]["code"] == "tenant_failed"  # type: ignore[index]
        client.token, cookie = "", f"Cookie: __Host-ringfence={visited(made, 'alice')}"
        status, page = client.raw("GET", f"/w/{name}", "-H", cookie)
        assert (status, "running" in page) == (200, True)


def test_nothing_of_anothers_is_opened_by_any_request(client: Client, place: tuple[Hosting, Living]) -> None:
    """Every row of the API and of the page: for another's workspace, and for what is another's in one's own."""
    hosting, made = place
    own, other = hosting.name("a"), hosting.name("b")
    client.log_in("bob")
    theirs = f"/api/workspaces/{other}"
    run = client.ask("POST", f"{theirs}/runs", data={"argv": ["echo", "bob's secret"]})[1]["run"]
    assert "secret" in events(client, f"{theirs}/runs/{run}")[0]["stdout"]
    shared = Path(hosting.base, "shared")
    shared.mkdir(mode=0o755)
    wanted = {"operation": "read", "target": str(shared)}
    grant = client.ask("POST", f"{theirs}/approvals", data=wanted)[1]["id"]
    client.log_in("alice")
    visit = visited(made, "alice")
    cookie = ("-H", f"Cookie: {page.COOKIE}={visit}", "-H", "Origin: http://localhost")
    bodies = {
        handlers.Content: {"data": "QUFB"},
        handlers.NewRun: {"argv": ["true"]},
        handlers.Said: {"answer": "always"},
        handlers.NewWorktree: {},
        handlers.Merge: {},
        handlers.NewApproval: wanted,
    }
    rows: list[tuple[str, str, tuple[str, ...], object]]
    rows = [(row.method, row.path, (), bodies.get(row.takes)) for row in TABLE]  # type: ignore[call-overload]
    rows += [(method, path, cookie, None) for method, path, _ in page.TABLE]
    asked = 0
    for method, path, options, data in rows:
        if "{workspace}" not in path:
            continue
        names = {"run": run, "question": "1", "slug": "x", "approval": grant}
        query = "?path=secret" if path.endswith("/file") else ""
        url = path.format(workspace=other, **names) + query
        status, body = client.raw(method, url, *options, data=data)
        assert (status, "not open to you" in body) == (403, True), (method, url, status, body)
        if "{run}" in path or "{approval}" in path:
            status, body = client.raw(method, path.format(workspace=own, **names), *options, data=data)
            assert (status, "secret" in body) == (404, False), (method, path, status, body)
        asked += 1
    assert asked == len([path for _, path, _, _ in rows if "{workspace}" in path])
    client.log_in("bob")
    assert [one["id"] for one in client.ask("GET", f"{theirs}/approvals")[1]["approvals"]] == [grant]


WRONG = [
    ("POST", "/api/login", "{", (400, "bad_request")),
    ("POST", "/api/login", {"account": "alice", "password": "wrong password"}, (401, "login_failed")),
    ("POST", "/api/login", {"account": "nobody", "password": PASSWORD}, (401, "login_failed")),
    ("POST", "/api/login", {"account": "a", "password": "b", "admin": True}, (400, "bad_request")),
    ("GET", "/nowhere", None, (404, "not_found")),
    ("DELETE", "/api/login", None, (405, "method_not_allowed")),
]


@pytest.mark.parametrize(("method", "url", "data", "expected"), WRONG)
def test_wrong_requests(client: Client, method: str, url: str, data: object, expected: tuple[int, str]) -> None:
    assert code(client.ask(method, url, data=data)) == expected


def test_host_origin_size_and_the_place_of_a_token(client: Client, home: str) -> None:
    client.log_in("both")
    token = client.token
    assert code(client.ask("GET", f"{home}/files", "-H", "Host: evil.example")) == (403, "host_refused")
    assert code(client.ask("GET", f"{home}/files", "-H", "Origin: http://evil.example")) == (403, "host_refused")
    big = json.dumps({"argv": ["x" * 100_000]})
    assert code(client.ask("POST", f"{home}/runs", data=big)) == (413, "too_large")
    client.token = ""
    assert code(client.ask("GET", f"{home}/files?token={token}&access_token={token}")) == (401, "token_missing")
    twice = ("-H", f"Authorization: Bearer {token}", "-H", "Authorization: Bearer x")
    assert code(client.ask("GET", f"{home}/files", *twice)) == (401, "token_missing")
    client.token = token[:-4] + "AAAA"
    assert code(client.ask("GET", f"{home}/files")) == (401, "token_invalid")
    client.token = token
    status, headers = client.raw("GET", f"{home}/files", "-i")
    assert status == 200
    for name in ("content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "no-store"):
        assert name in headers.lower()
    for workspace in ("..", "%2e%2e", "A" * 300, "%00", "localhost", "a/b"):
        assert client.raw("GET", f"/api/workspaces/{workspace}/files")[0] in (403, 404)


def test_a_body_with_two_lengths_is_refused_and_nothing_after_it_is_read(client: Client) -> None:
    second = b"GET /api/workspaces HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for lengths in (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    ):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(30)
            link.connect(client.path)
            link.sendall(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n\r\n0\r\n\r\n" + second)
            said = b"".join(iter(lambda link=link: link.recv(65536), b""))  # type: ignore[misc]
        assert said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 400") == 1, said


def test_an_account_that_is_gone_opens_nothing(client: Client, place: tuple[Hosting, Living]) -> None:
    """A token outlives its account, and is worth nothing then."""
    known = Accounts(place[1].database)
    known.put("carol", PASSWORD, (place[0].name("a"),))
    client.log_in("carol")
    url = f"/api/workspaces/{place[0].name('a')}/files"
    assert client.ask("GET", url)[0] == 200
    assert known.remove("carol")
    assert code(client.ask("GET", url)) == (401, "token_invalid")


def test_too_many_logins(client: Client) -> None:
    """Ten are let through, and one more every five seconds; a busy machine needs that long for some."""
    answers: list[object] = []
    while (429, "too_many") not in answers and len(answers) < 60:
        asked = {"account": "mallory", "password": str(len(answers))}
        answers.append(code(client.ask("POST", "/api/login", data=asked)))
    assert answers[:10] == [(401, "login_failed")] * 10
    assert answers[-1] == (429, "too_many")


def test_the_document_has_every_row() -> None:
    paths = openapi()["paths"]
    assert isinstance(paths, dict)
    described = {(method, path) for path, methods in paths.items() for method in methods}
    assert described == {(row.method.lower(), row.path) for row in TABLE}


def test_the_spawner_dies_and_is_there_again(hosting: Hosting) -> None:
    """The service says so, and goes on when it is back."""
    name = hosting.create("a").name
    with served(hosting) as spawner:
        with living(spawner, {"alice": (name,)}) as made:
            client = Client(made.path)
            client.log_in("alice")
            assert client.ask("GET", f"/api/workspaces/{name}/files")[0] == 200
            spawner.process.kill()
            spawner.process.communicate()
            assert code(client.ask("GET", f"/api/workspaces/{name}/files")) == (503, "unavailable")
            os.unlink(f"{spawner.top}/s")
            spawner.start()
            assert client.ask("GET", f"/api/workspaces/{name}/files")[0] == 200
