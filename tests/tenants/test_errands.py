"""Worktrees, approvals and the audit log over HTTP: done by the tenant's own steward."""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.serving import Client, Living, becomes, code, events, living
from tests.tenants.spawning import served

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed"), pytest.mark.needs_program("curl")]


@pytest.fixture(scope="module")
def place(installed: None) -> Iterator[tuple[Hosting, Living]]:
    """Two tenants; the workspace of the first is a repository."""
    with hosted() as hosting:
        one, other = hosting.create("a"), hosting.create("b")
        accounts = {"alice": (one.name,), "bob": (other.name,)}
        hosting.commit(one)
        with served(hosting) as spawner, living(spawner, accounts) as made:
            yield hosting, made


@pytest.fixture(scope="module")
def client(place: tuple[Hosting, Living]) -> Client:
    client = Client(place[1].path)
    client.log_in("alice")
    return client


@pytest.fixture
def home(place: tuple[Hosting, Living]) -> str:
    return f"/api/workspaces/{place[0].name('a')}"


def test_a_worktree_from_its_start_to_its_end(client: Client, home: str) -> None:
    trees = f"{home}/worktrees"
    status, made = client.ask("POST", trees, data={"slug": "feature-x"})
    assert status == 201, made
    assert (status, made["branch"], made["state"]) == (201, "ringfence/feature-x", "active")
    run = client.ask(
        "POST", f"{home}/runs", data={"argv": ["sh", "-c", "echo two >> f; pwd"], "worktree": "feature-x"}
    )[1]
    said, ended = events(client, f"{home}/runs/{run['run']}")
    assert (said["stdout"].endswith("/feature-x\n"), ended["exitCode"]) == (True, 0), ended
    assert "+two" in str(client.ask("GET", f"{trees}/feature-x/diff")[1]["patch"])
    assert client.ask("GET", f"{trees}/feature-x")[1]["uncommitted"] is True
    assert code(client.ask("POST", f"{trees}/feature-x/merge", data={})) == (409, "worktree_dirty")
    assert code(client.ask("DELETE", f"{trees}/feature-x?deleteBranch=true")) == (409, "worktree_dirty")
    status, ended = client.ask("DELETE", f"{trees}/feature-x")
    assert status == 200, ended
    assert (status, ended["state"], ended["saved"]) == (200, "ended", True)
    status, merged = client.ask("POST", f"{trees}/feature-x/merge", data={})
    assert (status, merged["into"]) == (200, "main")
    assert "feature-x" in [one["slug"] for one in client.ask("GET", trees)[1]["worktrees"]]


WRONG = [
    ("POST", "/worktrees", {"slug": "../x"}, (400, "worktree_invalid_slug")),
    ("POST", "/worktrees", {"slug": "user"}, (400, "worktree_invalid_slug")),
    ("POST", "/worktrees", {"slug": "y", "from": "nowhere"}, (400, "worktree_invalid_from")),
    ("GET", "/worktrees/none", None, (404, "worktree_not_found")),
    ("GET", "/worktrees/none/diff", None, (404, "worktree_not_found")),
    ("DELETE", "/worktrees/none", None, (404, "worktree_not_found")),
    ("POST", "/worktrees/none/merge", {}, (404, "worktree_not_found")),
    ("DELETE", "/approvals/00000000", None, (404, "approval_not_found")),
    ("POST", "/approvals", {"operation": "read", "target": "/etc/shadow"}, (422, "policy")),
    ("POST", "/approvals", {"operation": "own", "target": "/"}, (400, "bad_request")),
    ("POST", "/approvals", {"operation": "read", "target": "/tmp/\0"}, (400, "bad_request")),
    ("POST", "/approvals", {"operation": "connect", "target": "localhost:5432"}, (422, "policy")),
    ("POST", "/approvals", {"operation": "bind", "target": "8443"}, (422, "policy")),
    ("GET", "/runs/none/denials", None, (404, "run_not_found")),
    ("POST", "/runs/none/questions/1", {"answer": "once"}, (404, "run_not_found")),
]


@pytest.mark.parametrize(("method", "path", "data", "expected"), WRONG)
def test_wrong_errands(
    client: Client, home: str, method: str, path: str, data: object, expected: tuple[int, str]
) -> None:
    assert code(client.ask(method, home + path, data=data)) == expected


def test_more_of_the_codes(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    assert client.ask("POST", f"{home}/worktrees", data={"slug": "twice"})[0] == 201
    assert code(client.ask("POST", f"{home}/worktrees", data={"slug": "TWICE "})) == (409, "worktree_exists")
    run = client.ask("POST", f"{home}/runs", data={"argv": ["sh", "-c", "echo up; sleep 60"], "worktree": "twice"})[1]
    other = Client(place[1].path)
    other.log_in("bob")
    bobs = f"/api/workspaces/{place[0].name('b')}"
    assert code(other.ask("GET", f"{bobs}/worktrees")) == (404, "worktree_not_git")
    assert becomes(True, str(place[0].registry.find(place[0].name("a")).uid))
    assert code(client.ask("DELETE", f"{home}/worktrees/twice")) == (409, "worktree_locked")
    client.ask("DELETE", f"{home}/runs/{run['run']}")
    events(client, f"{home}/runs/{run['run']}")
    assert client.ask("DELETE", f"{home}/worktrees/twice?deleteBranch=true&allowDirty=true")[0] == 200
    default = client.ask("POST", f"{home}/worktrees", data={})[1]
    assert str(default["slug"]).startswith("wt-")


def test_what_is_approved_counts_until_it_is_revoked(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    """A run is refused, is told why, has it after a yes, and not after that is taken back."""
    shared = Path(place[0].base) / "shared"
    shared.mkdir(mode=0o755)
    (shared / "prices").write_text("12")
    (shared / "prices").chmod(0o644)

    def ran() -> tuple[str, list[dict[str, object]]]:
        run = client.ask("POST", f"{home}/runs", data={"argv": ["cat", f"{shared}/prices"]})[1]
        said, _ = events(client, f"{home}/runs/{run['run']}")
        return said["stdout"], client.ask("GET", f"{home}/runs/{run['run']}/denials")[1]["denials"]

    said, denials = ran()
    assert (said, [one["target"] for one in denials]) == ("", [f"{shared}/prices"])
    asked = {"operation": "read", "target": str(shared), "scope": "session", "reason": "prices"}
    status, grant = client.ask("POST", f"{home}/approvals", data=asked)
    assert (status, grant["target"], grant["answer"]) == (201, str(shared), "session")
    assert f"--allow-read {shared}" in str(grant["rule"])
    listed = client.ask("GET", f"{home}/approvals")[1]["approvals"]
    assert [one["id"] for one in listed if one["counts"]] == [grant["id"]]
    assert ran() == ("12", [])
    assert client.ask("DELETE", f"{home}/approvals/{grant['id']}")[0] == 200
    assert ran()[0] == ""


def test_the_audit_log_is_searched(client: Client, home: str, place: tuple[Hosting, Living]) -> None:
    for word in ("first", "second"):
        run = client.ask("POST", f"{home}/runs", data={"argv": ["echo", f"{word}-mark"]})[1]
        events(client, f"{home}/runs/{run['run']}")
    found = client.ask("GET", f"{home}/audit?q=FIRST-mark")[1]["events"]
    assert [(one["kind"], one["argv"]) for one in found] == [("run", ["echo", "first-mark"])]
    newest = client.ask("GET", f"{home}/audit")[1]["events"]
    assert newest[0]["argv"] == ["echo", "second-mark"]
    assert client.ask("GET", f"{home}/audit?since=2999-01-01")[1] == {"events": [], "cut": False}
    assert all(
        one["kind"] == "denial" or one["error"] for one in client.ask("GET", f"{home}/audit?denied=true")[1]["events"]
    )
    other = Client(place[1].path)
    other.log_in("bob")
    assert code(other.ask("GET", f"{home}/audit")) == (403, "workspace_forbidden")
    assert other.ask("GET", f"/api/workspaces/{place[0].name('b')}/audit?q=mark")[1] == {"events": [], "cut": False}


def test_a_question_is_answered_over_http(client: Client, home: str) -> None:
    """The command waits; whoever asks the service for questions sees it with its rule, and the first answer counts."""
    with tempfile.TemporaryDirectory(dir="/srv") as shared:
        os.chmod(shared, 0o755)
        Path(shared, "prices").write_text("12")
        Path(shared, "prices").chmod(0o644)
        run = client.ask("POST", f"{home}/runs", data={"argv": ["cat", f"{shared}/prices"], "ask": True})[1]["run"]
        until = time.monotonic() + 60
        while not (questions := client.ask("GET", f"{home}/questions")[1]["questions"]) and time.monotonic() < until:
            time.sleep(0.05)
        assert questions, json.dumps(client.ask("GET", f"{home}/runs/{run}"))
        (question,) = questions
        assert (question["run"], question["operation"], question["path"]) == (run, "read", f"{shared}/prices")
        url = f"{home}/runs/{run}/questions/{question['query_id']}"
        assert code(client.ask("POST", url, data={"answer": "perhaps"})) == (400, "bad_request")
        assert client.ask("POST", url, data={"answer": "once"})[0] == 202
        said, ended = events(client, f"{home}/runs/{run}")
        assert (said["stdout"], ended["exitCode"]) == ("12", 0)
        assert code(client.ask("POST", url, data={"answer": "once"})) == (404, "question_not_found")
