"""The service, whole, for tests: a real spawner, real tenants, a real database, uvicorn on a unix socket, and curl."""

import asyncio
import base64
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.tenants.spawning import SERVICE, Served

from ringfence.service.accounts import Accounts
from ringfence.service.database import Database

PASSWORD = "correct horse battery"
# Debian keeps them beside each other by version, and not on the way of commands.
PROGRAMS = max(glob.glob("/usr/lib/postgresql/*/bin"), default="/usr/bin")
NEEDS_SERVER = pytest.mark.needs_program(f"{PROGRAMS}/postgres")
PLAIN = ["setpriv", f"--reuid={SERVICE}", f"--regid={SERVICE}", "--clear-groups"]
# The service's user cannot read root's Python: so it is root's until the modules are there, and then it is not.
SERVE = """
import os, sys
import ringfence.service.app, ringfence.service.desk, uvicorn, argon2, jwt, sqlite3, psycopg, psycopg_binary, ssl
import ringfence.service.listening, resource
import uvicorn.protocols.http.h11_impl, uvicorn.lifespan.on, uvicorn.loops.auto, uvicorn.loops.asyncio
import asyncio, anyio._backends._asyncio, getpass, concurrent.futures.thread, idna, unicodedata, encodings.punycode
from ringfence.cli.service import main
BEFORE
os.setgroups([]); os.setresgid(USER, USER, USER); os.setresuid(USER, USER, USER)
sys.exit(main(sys.argv[1:]))
""".replace("USER", str(SERVICE))


class Client:
    """Somebody with curl."""

    _tokens: ClassVar[dict[tuple[str, str], str]] = {}

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

    def ask(self, method: str, url: str, *options: str, data: object = None) -> tuple[int, dict[str, Any]]:
        status, body = self.raw(method, url, *options, data=data)
        return status, json.loads(body)

    def log_in(self, account: str) -> None:
        """With a password the first time, which takes a while on purpose; then with what that gave."""
        known = self._tokens.get((self.path, account))
        if known is None:
            status, answer = self.ask("POST", "/api/login", data={"account": account, "password": PASSWORD})
            assert status == 200
            known = self._tokens[self.path, account] = str(answer["token"])
        self.token = known


def code(answer: tuple[int, dict[str, Any]]) -> tuple[int, object]:
    return answer[0], answer[1]["error"]["code"]


class Living:
    """A service that lives, with its accounts; it can be killed and begun again."""

    def __init__(
        self, spawner: Served, accounts: Mapping[str, tuple[str, ...]], database: str, *options: str, before: str = ""
    ) -> None:
        self.state = f"{spawner.top}/state"
        self.path = f"{self.state}/service.sock"
        os.mkdir(self.state, 0o700)
        self.database = Database(database or f"{self.state}/service.db")
        known = Accounts(self.database)
        for account, workspaces in accounts.items():
            known.put(account, PASSWORD, workspaces)
        Path(self.state, "url").write_text(database)
        subprocess.run(["chown", "-R", f"{SERVICE}:{SERVICE}", self.state], check=True)
        self._words = [
            sys.executable,
            "-c",
            SERVE.replace("BEFORE", before),
            "serve",
            "--state",
            self.state,
            "--spawner",
            f"{spawner.top}/s",
        ]
        self._words += ["--database", f"{self.state}/url"] if database else []
        self._words += options or ("--socket", self.path)
        self._family, self._address = socket.AF_UNIX, self.path  # type: tuple[int, str | tuple[str, int]]
        if options:
            self._family, self._address = socket.AF_INET, ("127.0.0.1", int(options[1].rpartition(":")[2]))
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._words, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.socket(self._family) as probe:
                probe.connect(self._address)
                return
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        self.database.close()
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=30)
        assert b"Traceback" not in said, said.decode()


@contextlib.contextmanager
def living(
    spawner: Served, accounts: Mapping[str, tuple[str, ...]], database: str = "", *options: str, before: str = ""
) -> Iterator[Living]:
    made = Living(spawner, accounts, database, *options, before=before)
    try:
        yield made
    finally:
        made.close()


def visited(made: Living, account: str) -> str:
    """The word of a browser that is an account."""
    known = Accounts(made.database)
    return asyncio.run(known.visit(account, asyncio.run(known.opened(account))[1]))


def certificate(top: str) -> tuple[str, str]:
    """A certificate for localhost that nobody signed, and its key."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    paths = f"{top}/certificate.pem", f"{top}/key.pem"
    subprocess.run([*words, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    for path in paths:
        os.chown(path, SERVICE, SERVICE)
    return paths


class Server:
    """A PostgreSQL server of our own."""

    def __init__(self, top: str) -> None:
        self._data = f"{top}/pg"
        self.url = f"postgresql://tester@/postgres?host={top}"
        self._environ = {"PATH": f"{os.environ['PATH']}:{PROGRAMS}", "LANG": "C.UTF-8"}
        os.chown(top, SERVICE, SERVICE)
        words = ["initdb", "-D", self._data, "-U", "tester", "--no-sync", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*PLAIN, *words], check=True, capture_output=True, env=self._environ, cwd="/")
        self._words = ["postgres", "-D", self._data, "-h", "", "-k", top]
        self.start()

    def start(self) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*PLAIN, *self._words], env=self._environ, cwd="/", **quiet)  # type: ignore[call-overload]

    def kill(self) -> None:
        """As a machine that loses its power would: the whole family at once."""
        family = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        for pid in (self.process.pid, *map(int, family)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


@contextlib.contextmanager
def database(kind: str) -> Iterator[str]:
    """The URL of one, or nothing for the file that is the default."""
    if kind == "sqlite":
        yield ""
        return
    with server() as made:
        yield made.url


@contextlib.contextmanager
def server() -> Iterator[Server]:
    top = tempfile.mkdtemp(prefix="rf-pg-", dir="/var/tmp")
    made = Server(top)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(top)


def events(client: Client, url: str, *options: str) -> tuple[dict[str, str], dict[str, object]]:
    """What a run said, by its streams, and how it ended."""
    status, body = client.raw("GET", f"{url}/events", "-N", *options)
    assert status == 200, body
    text, ended = {"stdout": "", "stderr": ""}, {}
    for block in body.strip().split("\n\n"):
        if block.startswith(":"):  # it was quiet
            continue
        data = json.loads(block.partition("data: ")[2])
        if "stream" in data:
            text[data["stream"]] += base64.b64decode(data["data"]).decode()
        else:
            ended = data
    return text, ended


def becomes(wanted: bool, uid: str) -> bool:
    """Whether the user sleeps, or does not, within a while."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if (subprocess.run(["pgrep", "-u", uid, "sleep"], capture_output=True).returncode == 0) == wanted:
            return True
        time.sleep(0.05)
    return False
