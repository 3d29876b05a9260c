"""A steward is the tenant, and may be whatever that makes of it: odd answers are its own trouble, and no failure."""

import contextlib
import http.client
import os
import re
import socket
import time
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.serving import Client, living, visited
from tests.tenants.spawning import served

from ringfence.service.page import COOKIE

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]
ODD = [
    b"{}",
    b"[]",
    b"\xff\xfe",
    b'{"a": ' + b"[" * 2000,
    b'{"error": {"a": [1]}, "what": []}',
    b'{"error": "<b>", "what": 5}',
    b'{"worktrees": 5, "events": 5, "approvals": 7, "patch": [], "data": {}}',
    b'{"worktrees": [5], "events": [5], "approvals": [5], "patch": 1, "cut": "x"}',
    b'{"worktrees": [{"slug": 1}], "events": [{"kind": "run"}], "approvals": [{"id": "../x"}], "patch": "", "cut": 1}',
    b'{"stream": "stdout", "data": 5}\n{"ended": 1}',
    b'{"stream": "x", "data": "%%%"}\n{"ended": 1, "denials": 7, "exitCode": "a"}',
    b'{"ended": {}, "exitCode": 0, "denials": [5]}',
    b'{"ended": {}, "exitCode": 0, "denials": [{"access": [], "target": 1}]}',
    b'{"asked": 5}\n{"ended": 1}',
    b'{"asked": {"state": "query", "query_id": [1]}}\n{"ended": 1}',
    b'{"asked": {"state": "query", "query_id": "\\"><b>"}}',
    b'{"asked": {"state": "query", "query_id": "1"}, "stream": "stdout"}',
    # Where a person's answer must not go: another workspace of theirs.
    b'{"asked": {"state": "query", "query_id": "../../../../b/sessions/x/merge"}}',
    (
        b'{"worktrees": [{"slug": "../../b/sessions/x", "state": "active", "branch": "", "base": "", "head": ""}],'
        b' "approvals": [{"id": "../../b/sessions/x/merge?", "rule": "", "counts": true}], "patch": "", "cut": false,'
        b' "slug": "../../b/sessions/x", "state": "active", "branch": "", "base": "", "head": ""}'
    ),
]
FORM = re.compile(r'action="([^"]*)"')
STEWARD = """
import os, sys
for _ in sys.stdin.buffer:
    with open("WHERE", "rb") as file:
        os.write(1, file.read() + b"\\n")
"""
PAGES = ("", "/sessions", "/sessions/a", "/approvals", "/audit", "/runs/{}")
ROWS = ("/files", "/file?path=a", "/worktrees", "/worktrees/a/diff", "/approvals", "/audit", "/questions")


def ask(path: str, url: str, headers: dict[str, str]) -> tuple[int, str]:
    link = http.client.HTTPConnection("localhost")
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(path)
    with contextlib.closing(link):
        link.request("GET", url, headers=headers)
        answer = link.getresponse()
        return answer.status, answer.read().decode()


def test_odd_answers_are_no_failure(hosting: Hosting) -> None:
    said = Path(hosting.base, "said")
    name = hosting.create("a").name
    with (
        served(hosting, STEWARD.replace("WHERE", str(said))) as spawner,
        living(spawner, {"alice": (name,)}) as made,
    ):
        client = Client(made.path)
        client.log_in("alice")
        visit = visited(made, "alice")
        headers = {"Cookie": f"{COOKIE}={visit}", "Authorization": f"Bearer {client.token}"}
        base, failed = f"/api/workspaces/{name}", []
        for odd in ODD:
            new = said.with_name("new")
            new.write_bytes(odd)
            new.chmod(0o644)
            os.rename(new, said)
            run = client.ask("POST", f"{base}/runs", data={"argv": ["x"]})[1]["run"]
            time.sleep(0.1)
            asked = [f"{base}{row}" for row in (*ROWS, "/runs", f"/runs/{run}", f"/runs/{run}/denials")]
            for url in (*asked, *(f"/w/{name}{page.format(run)}" for page in PAGES)):
                status, body = ask(made.path, url, headers)
                if status >= 500 and "not understood" not in body and "steward is gone" not in body:
                    failed.append((odd, url, status, body))
                assert "<b>" not in body or url.startswith("/api"), (odd, url)
                for action in map(os.path.normpath, FORM.findall(body)):
                    assert action == "/logout" or action.startswith(f"/w/{name}/"), (odd, url)
            client.raw("DELETE", f"{base}/runs/{run}")
        assert failed == []
