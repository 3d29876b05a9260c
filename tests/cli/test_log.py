"""`ringfence log`: what happened, found, followed, verified and exported."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ringfence import RingfenceError
from ringfence.audit import otel
from ringfence.audit.wanted import Wanted
from ringfence.cli import log

RINGFENCE = str(Path(sys.executable).with_name("ringfence"))
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("ws", "home"):
        (tmp_path / name).mkdir()
    return tmp_path / "ws"


def environment(workspace: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(workspace.parent / "home"), "LANG": "C.UTF-8"}


def ringfence(workspace: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([RINGFENCE, *words], cwd=workspace, env=environment(workspace), capture_output=True,
                          text=True, timeout=30, stdin=subprocess.DEVNULL)  # fmt: skip


def run(workspace: Path, *words: str) -> None:
    ringfence(workspace, "run", *AS_ROOT, "--", *words)


def audit(workspace: Path) -> Path:
    return workspace.parent / "home/.local/state/ringfence/audit"


def test_it_shows_what_was_run_and_refused(workspace: Path) -> None:
    run(workspace, "echo", "hello")
    run(workspace, "mkdir", ".vscode")
    every = ringfence(workspace, "log")
    denied = ringfence(workspace, "log", "--denied")

    assert "run     echo hello: exited with 0" in every.stdout
    assert len(denied.stdout.splitlines()) == 1
    assert "denied  write" in denied.stdout
    assert [done.stderr for done in (every, denied)] == ["", ""]


def test_as_json_it_is_the_lines_of_the_log(workspace: Path) -> None:
    run(workspace, "true")
    done = ringfence(workspace, "log", "--json", "--since", "1h")

    assert done.stdout == (audit(workspace) / "000001.jsonl").read_text()
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == ["log", "run"]


def test_what_is_older_is_not_shown(workspace: Path) -> None:
    run(workspace, "true")

    assert ringfence(workspace, "log", "--since", "2999-01-01").stdout == ""
    assert ringfence(workspace, "log", "--since", "yesterday").returncode == 2


def test_without_a_log_there_is_nothing_to_show(workspace: Path) -> None:
    done = ringfence(workspace, "log")

    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr.startswith("ringfence: log: no event yet in /")
    assert ringfence(workspace, "log", "verify").returncode == 0


def test_verify_says_whether_it_is_whole(workspace: Path) -> None:
    run(workspace, "true")
    whole = ringfence(workspace, "log", "verify")
    head = json.loads(ringfence(workspace, "log", "verify", "--json").stdout)["head"]
    assert (whole.returncode, whole.stdout[:17]) == (0, "whole: 2 events i")
    assert ringfence(workspace, "log", "verify", "--head", head).returncode == 0
    assert ringfence(workspace, "log", "verify", "--head", "0" * 64).returncode == 1

    file = audit(workspace) / "000001.jsonl"
    file.write_text(file.read_text().replace("true", "evil"))
    broken = ringfence(workspace, "log", "verify", "--json")

    assert broken.returncode == 1
    assert json.loads(broken.stdout)["faults"] == ["000001.jsonl:2: event 2 was changed, or the one before it"]


def test_it_follows_what_happens(workspace: Path) -> None:
    run(workspace, "echo", "before")
    words = [RINGFENCE, "log", "--follow", "--json"]
    process = subprocess.Popen(words, cwd=workspace, env=environment(workspace), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        seen = [json.loads(process.stdout.readline()) for _ in range(2)]
        run(workspace, "echo", "after")
        seen.append(json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    assert [event.get("argv", [""])[-1] for event in seen] == ["", "before", "after"]


def test_it_exports_ocsf(workspace: Path) -> None:
    run(workspace, "mkdir", ".vscode")
    done = ringfence(workspace, "log", "export", "ocsf")

    assert [json.loads(line)["class_uid"] for line in done.stdout.splitlines()] == [0, 1007, 1001]


def test_trust_is_a_change_of_policy(workspace: Path) -> None:
    (workspace / ".ringfence").mkdir()
    (workspace / ".ringfence/policy.json").write_text("{}")
    ringfence(workspace, "trust")
    ringfence(workspace, "trust", "--remove")
    events = [json.loads(line) for line in ringfence(workspace, "log", "--json").stdout.splitlines()]

    assert [event["what"] for event in events if event["kind"] == "policy"] == ["trusted", "no longer trusted"]


def test_a_collector_that_is_not_there_is_said_with_the_variable_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_events: object) -> int:
        raise OSError(errno.EIO, "the collector took 0 spans and no more")

    monkeypatch.setattr(otel, "export", refused)
    with pytest.raises(RingfenceError, match="export otel: the collector took 0 spans") as error:
        log.export(str(tmp_path), "otel", Wanted())
    assert error.value.hint.startswith("OTEL_EXPORTER_OTLP_ENDPOINT names the collector")
