"""Claude Code's worktrees are sessions of ringfence: made, used, and ended without losing work."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "ringfence"
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    found.mkdir()
    (found / "a.txt").write_text("a\n")
    names = (["config", "user.name", "a"], ["config", "user.email", "a@b"])
    for words in (["init", "-qb", "main"], *names, ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=found, check=True)
    return found


def hook(project: Path, **given: str) -> subprocess.CompletedProcess[str]:
    data = json.dumps({"session_id": "s", "cwd": str(project), **given})
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    env = os.environ | {"HOME": str(home)}
    words: list[str | Path] = [PROGRAM, "hook", "claude", *AS_ROOT]
    return subprocess.run(words, input=data, env=env, capture_output=True, text=True, timeout=60)


def test_a_worktree_is_made_and_ended_and_its_work_is_kept(project: Path) -> None:
    made = hook(project, hook_event_name="WorktreeCreate", name="feature")
    place = Path(made.stdout.splitlines()[-1])
    (place / "new.txt").write_text("work\n")
    was = (place / "a.txt").read_text()
    ended = hook(project, hook_event_name="WorktreeRemove", worktree_path=str(place))
    kept = subprocess.run(
        ["git", "show", "ringfence/feature:new.txt"], cwd=project, check=True, capture_output=True, text=True
    )

    assert (made.returncode, was, ended.returncode, place.exists(), kept.stdout) == (0, "a\n", 0, False, "work\n")


def test_a_worktree_that_cannot_be_made_is_said_with_exit_code_two(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = hook(tmp_path / "none", hook_event_name="WorktreeCreate", name="x")

    assert (done.returncode, done.stdout, done.stderr.startswith("ringfence: ")) == (2, "", True)


def test_another_directory_is_left_alone(project: Path) -> None:
    done = hook(project, hook_event_name="WorktreeRemove", worktree_path=str(project / ".git"))

    assert (done.returncode, (project / ".git").is_dir()) == (0, True)
