"""The service, whole: a real spawner, real tenants, uvicorn on a unix socket, and curl."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.spawning import SERVICE, Served, served

from ringfence.service.accounts import Accounts
from ringfence.service.app import TABLE, openapi

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]
PASSWORD = "correct horse battery"
# The service's user cannot read root's Python: so it is root's until the modules are there, and then it is not.
SERVE = """
import os, sys
import ringfence.service.app, uvicorn, argon2, jwt, sqlite3
import uvicorn.protocols.http.h11_impl, uvicorn.lifespan.on, uvicorn.loops.auto, uvicorn.loops.asyncio
import asyncio, anyio._backends._asyncio, getpass, concurrent.futures.thread, idna, unicodedata, encodings.punycode
from ringfence.cli.service import main
os.setgroups([]); os.setresgid(USER, USER, USER); os.setresuid(USER, USER, USER)
sys.exit(main(sys.argv[1:]))
""".replace("USER", str(SERVICE))


class Client:
    """Somebody with curl."""

    def __init__(self, path: str) -> None:
        self.path, self.token = path, ""

    def raw(self, method: str, url: str, *options: str, data: object = None) -> tuple[int, str]:
        words = ["curl", "-sS", "--globoff", "--path-as-is", "--unix-socket", self.path, "-X", method, "-m", "60"]
        words += ["-w", "\n%{http_code}", *options, f"http://localhost{url}"]
        if self.token:
            words += ["-H", f"Authorization: Bearer {self.token}"]
        if data is not None:
            words += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
        text = "" if data is None else data if isinstance(data, str) else json.dumps(data)
        shown = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
        body, _, status = shown.stdout.rpartition("\n")
        return int(status), body

    def ask(self, method: str, url: str, *options: str, data: object = None) -> tuple[int, dict[str, object]]:
        status, body = self.raw(method, url, *options, data=data)
        return status, json.loads(body)

    def log_in(self, account: str) -> None:
        status, answer = self.ask("POST", "/api/login", data={"account": account, "password": PASSWORD})
        assert status == 200
        self.token = str(answer["token"])


def code(answer: tuple[int, dict[str, object]]) -> tuple[int, object]:
    return answer[0], answer[1]["error"]["code"]  # type: ignore[index]


@contextlib.contextmanager
def serving(spawner: Served, accounts: dict[str, tuple[str, ...]]) -> Iterator[Client]:
    state = f"{spawner.top}/state"
    if not os.path.isdir(state):
        os.mkdir(state, 0o700)
        known = Accounts(f"{state}/accounts.db")
        for account, workspaces in accounts.items():
            known.put(account, PASSWORD, workspaces)
        subprocess.run(["chown", "-R", f"{SERVICE}:{SERVICE}", state], check=True)
    path = f"{state}/service.sock"
    words = [sys.executable, "-c", SERVE, "serve", "--state", state, "--socket", path, "--spawner", f"{spawner.top}/s"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    until = time.monotonic() + 30
    while not os.path.exists(path) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    try:
        yield Client(path)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        Path(path).unlink(missing_ok=True)
        assert b"Traceback" not in said, said.decode()


@pytest.fixture(scope="module")
def place(installed: None) -> Iterator[tuple[Hosting, Served, Client]]:
    """Two tenants, the service over them, and its client."""
    with hosted() as hosting:
        one, other = hosting.create("a").name, hosting.create("b").name
        accounts = {"alice": (one,), "bob": (other,), "both": (one, other)}
        with served(hosting) as spawner, serving(spawner, accounts) as client:
            yield hosting, spawner, client


@pytest.fixture
def client(place: tuple[Hosting, Served, Client]) -> Client:
    return Client(place[2].path)


@pytest.fixture
def home(place: tuple[Hosting, Served, Client]) -> str:
    return f"/api/workspaces/{place[0].name('a')}"


def test_the_seeds_own_test(client: Client, home: str, place: tuple[Hosting, Served, Client]) -> None:
    """Log in, ask for what is outside, and for what is somebody else's."""
    client.log_in("alice")
    outside = client.ask("GET", f"{home}/file?path=../../../etc/passwd")
    assert code(outside) == (403, "path_outside_workspace")
    other = place[0].name("b")
    assert code(client.ask("GET", f"/api/workspaces/{other}/files")) == (403, "workspace_forbidden")
    for path in ("/etc/passwd", "..", "a/../../x", "%2e%2e/%2e%2e/etc/passwd"):
        assert code(client.ask("GET", f"{home}/file?path={path}"))[0] == 403
    client.token = ""
    assert code(client.ask("GET", f"{home}/files")) == (401, "token_missing")


def test_below_the_service_the_kernel_refuses(client: Client, home: str, place: tuple[Hosting, Served, Client]) -> None:
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


def events(client: Client, url: str, *options: str) -> tuple[dict[str, str], dict[str, object]]:
    status, body = client.raw("GET", f"{url}/events", "-N", *options)
    assert status == 200, body
    text, ended = {"stdout": "", "stderr": ""}, {}
    for block in body.strip().split("\n\n"):
        data = json.loads(block.partition("data: ")[2])
        if "stream" in data:
            text[data["stream"]] += base64.b64decode(data["data"]).decode()
        else:
            ended = data
    return text, ended


def test_files_and_runs(client: Client, home: str, place: tuple[Hosting, Served, Client]) -> None:
    client.log_in("alice")
    data = base64.b64encode(b"echo hi; echo no >&2; echo made > out.txt; exit 4").decode()
    assert client.ask("PUT", f"{home}/file?path=x.sh", data={"data": data})[0] == 200
    status, run = client.ask("POST", f"{home}/runs", data={"argv": ["sh", "x.sh"], "timeout": 30})
    assert status == 201
    text, ended = events(client, f"{home}/runs/{run['run']}")
    assert (text, ended["exitCode"]) == ({"stdout": "hi\n", "stderr": "no\n"}, 4)
    assert events(client, f"{home}/runs/{run['run']}")[0] == text  # whoever comes late is told all
    assert events(client, f"{home}/runs/{run['run']}", "-H", "Last-Event-ID: 1")[0] != text
    _, listed = client.ask("GET", f"{home}/files")
    assert {"out.txt", "x.sh"} <= {entry["name"] for entry in listed["entries"]}  # type: ignore[attr-defined]
    assert client.ask("GET", f"{home}/runs")[1]["runs"][0]["run"] == run["run"]  # type: ignore[index]
    client.log_in("bob")
    bobs = f"/api/workspaces/{place[0].name('b')}"
    assert code(client.ask("GET", f"{bobs}/runs/{run['run']}")) == (404, "run_not_found")


def test_a_run_is_cancelled(client: Client, home: str, place: tuple[Hosting, Served, Client]) -> None:
    client.log_in("alice")
    _, run = client.ask("POST", f"{home}/runs", data={"argv": ["sh", "-c", "trap '' TERM; echo up; sleep 100"]})
    uid = str(place[0].registry.find(place[0].name("a")).uid)
    assert becomes(True, uid)
    assert client.ask("DELETE", f"{home}/runs/{run['run']}")[0] == 202
    _, ended = events(client, f"{home}/runs/{run['run']}")
    assert ended
    assert becomes(False, uid)


def becomes(wanted: bool, uid: str) -> bool:
    """Whether the user sleeps, or does not, within a while."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if (subprocess.run(["pgrep", "-u", uid, "sleep"], capture_output=True).returncode == 0) == wanted:
            return True
        time.sleep(0.05)
    return False


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
    client.token = token[:-4] + "AAAA"
    assert code(client.ask("GET", f"{home}/files")) == (401, "token_invalid")
    client.token = token
    status, headers = client.raw("GET", f"{home}/files", "-i")
    assert status == 200
    for name in ("content-security-policy: default-src 'none'", "x-content-type-options: nosniff", "no-store"):
        assert name in headers.lower()
    for workspace in ("..", "%2e%2e", "A" * 300, "%00", "localhost", "a/b"):
        assert client.raw("GET", f"/api/workspaces/{workspace}/files")[0] in (403, 404)


def test_an_account_that_is_gone_opens_nothing(client: Client, place: tuple[Hosting, Served, Client]) -> None:
    """A token outlives its account, and is worth nothing then."""
    known = Accounts(f"{place[1].top}/state/accounts.db")
    known.put("carol", PASSWORD, (place[0].name("a"),))
    client.log_in("carol")
    url = f"/api/workspaces/{place[0].name('a')}/files"
    assert client.ask("GET", url)[0] == 200
    assert known.remove("carol")
    assert code(client.ask("GET", url)) == (403, "workspace_forbidden")


def test_too_many_logins(client: Client) -> None:
    answers = {
        code(client.ask("POST", "/api/login", data={"account": "mallory", "password": str(n)})) for n in range(14)
    }
    assert answers == {(401, "login_failed"), (429, "too_many")}


def test_the_document_has_every_row() -> None:
    paths = openapi()["paths"]
    assert isinstance(paths, dict)
    described = {(method, path) for path, methods in paths.items() for method in methods}
    assert described == {(row.method.lower(), row.path) for row in TABLE}


def test_the_spawner_dies_and_is_there_again(hosting: Hosting) -> None:
    """The service says so, and goes on when it is back."""
    name = hosting.create("a").name
    with served(hosting) as spawner:
        with serving(spawner, {"alice": (name,)}) as client:
            client.log_in("alice")
            assert client.ask("GET", f"/api/workspaces/{name}/files")[0] == 200
            spawner.process.kill()
            spawner.process.communicate()
            assert code(client.ask("GET", f"/api/workspaces/{name}/files")) == (503, "unavailable")
            os.unlink(f"{spawner.top}/s")
            spawner.start()
            assert client.ask("GET", f"/api/workspaces/{name}/files")[0] == 200
