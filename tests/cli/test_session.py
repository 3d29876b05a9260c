"""`ringfence session` as a person types it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.looking import until
from tests.workspace.conftest import git

AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, place = tmp_path / "home", tmp_path / "project"
    (place / "sub").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (home / ".gitconfig").write_text("[user]\n\tname = n\n\temail = e@x\n")
    git(place, "init", "-q", "-b", "main")
    (place / "sub" / "f").write_text("f\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


def session(where: Path, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-I", "-m", "ringfence", "session", *words]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def test_a_life_at_a_terminal(repo: Path) -> None:
    code, said, told = session(
        repo / "sub", "start", "--name", "x", *AS_ROOT, "--", "sh", "-c", "pwd; echo n > n; exit 3"
    )
    assert (code, said.endswith("/worktrees/x/sub\n")) == (3, True)
    assert "`ringfence session end x`" in told
    assert session(repo, "list")[1].split()[:3] == ["x", "active", "ringfence/x"]
    assert "uncommitted  True" in session(repo, "show", "x")[1]
    assert '"name": "x"' in session(repo, "show", "--json", "x")[1]
    assert session(repo, "resume", *AS_ROOT, "x", "--", "sh", "-c", "exit 4")[0] == 4
    assert "needs a name" in session(repo, "resume", *AS_ROOT, "--", "x")[2]
    assert "+n" in session(repo, "diff", "x")[1]
    code, _, told = session(repo, "merge", "x")
    assert (code, "not committed" in told) == (125, True)
    code, said, _ = session(repo, "end", "x")
    tip = git(repo, "rev-parse", "ringfence/x")[:12]
    assert (code, said) == (0, f"x: ringfence/x is at {tip}, with what was not committed\n")
    assert session(repo, "merge", "x")[0] == 0
    assert (repo / "sub" / "n").exists()
    assert session(repo, "end", "--delete-branch", "x")[0] == 0
    assert session(repo, "list")[:2] == (0, "")
    assert session(repo, "prune")[:2] == (0, "nothing to prune\n")


def test_a_session_whose_command_was_refused_is_said_to_be_there(repo: Path) -> None:
    """Its name was taken, and nobody had said by what."""
    (repo / ".ringfence").mkdir()
    (repo / ".ringfence" / "policy.toml").write_text("junk\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "no policy")

    code, _, told = session(repo, "start", "--name", "x", *AS_ROOT, "--", "true")

    assert (code, "`ringfence session resume x -- …`, or `end x`" in told) == (125, True)
    assert session(repo, "end", "x")[0] == 0


def test_what_an_interruption_left_is_put_right_and_said(repo: Path) -> None:
    session(repo, "start", "--name", "x")
    (record,) = (repo.parent / "home").rglob("x.json")
    tip = git(repo, "rev-parse", "HEAD")
    text = record.read_text().replace('"active"', '"starting"').replace(f'"tip":"{tip}"', '"tip":""')
    record.write_text(text)
    code, said, told = session(repo, "list")
    assert (code, said, told) == (0, "", "ringfence: x: was not fully started, and is taken away\n")
    assert git(repo, "branch", "--list", "ringfence/*") == ""


def test_a_killed_supervisor_loses_nothing(repo: Path) -> None:
    script = "echo 1 > n; git add n; git commit -qm work; echo 2 > loose; touch up; sleep 60"
    words = ["session", "start", "--name", "x", *AS_ROOT, "--", "sh", "-c", script]
    running = subprocess.Popen([sys.executable, "-I", "-m", "ringfence", *words], cwd=repo, stdin=subprocess.DEVNULL)
    place = repo.parent / "home/.local/state/ringfence/sessions"
    assert until(lambda: list(place.glob("*/worktrees/x/up")))
    running.kill()
    running.wait()
    assert session(repo, "list")[1].split()[:2] == ["x", "active"]
    assert until(lambda: not session(repo, "end", "x")[0])  # the lock of the command goes with it
    assert git(repo, "show", "ringfence/x:loose") == "2"
    assert git(repo, "log", "-1", "--format=%s", "ringfence/x~") == "work"


def test_a_session_that_is_damaged_or_gone_does_not_hide_the_others(repo: Path) -> None:
    for name in ("a", "b", "c"):
        session(repo, "start", "--name", name)
    (head,) = (repo.parent / "home").rglob("git/a/worktrees/ringfence@a/HEAD")
    head.write_text("nonsense\n")
    (gone,) = (repo.parent / "home").rglob("worktrees/b")
    shutil.rmtree(gone)
    code, said, told = session(repo, "list")
    assert [line.split()[:2] for line in said.splitlines()] == [["a", "damaged"], ["b", "missing"], ["c", "active"]]
    assert (code, "says 'nonsense'" in told) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("start", "--name", "--force"), 125, "WORKTREE_INVALID_SLUG"),
        (("start", "--from", "--output=x"), 125, "WORKTREE_INVALID_FROM"),
        (("show", "nobody"), 125, "WORKTREE_NOT_FOUND"),
        (("end", "nobody"), 125, "WORKTREE_NOT_FOUND"),
        (("end",), 2, "USAGE"),
        (("list", "x"), 2, "USAGE"),
        (("fly",), 2, "USAGE"),
        ((), 2, "USAGE"),
        (("end", "x", "y"), 2, "USAGE"),
    ],
    ids=str,
)
def test_an_error_has_its_code(repo: Path, words: tuple[str, ...], code: int, error: str) -> None:
    done, said, _ = session(repo, *words, "--json") if words else session(repo, "--json")
    assert (done, json.loads(said)["code"]) == (code, error)


def test_the_help_names_every_verb(repo: Path) -> None:
    assert "start|list|show|resume|diff|merge|end|prune" in session(repo, "--help")[1]
    assert session(repo, "start", "--help")[0] == 0


def test_a_patch_is_written_whole_or_it_is_said(repo: Path, tmp_path: Path) -> None:
    """A limit of a file's size stands for a disk that is nearly full: both take a piece, and refuse the rest."""
    top = Path(session(repo, "start", "--name", "x")[1].split("\n")[1])
    (top / "large").write_text("x" * 100_000)
    patch = tmp_path / "patch"
    words = f"ulimit -f 40; {sys.executable} -I -m ringfence session diff x > {patch}"
    done = subprocess.run(["bash", "-c", words], cwd=repo, capture_output=True, text=True)
    assert (done.returncode, "File too large" in done.stderr) == (125, True), patch.stat().st_size
    assert subprocess.run(["bash", "-c", words.partition(";")[2]], cwd=repo).returncode == 0
    assert patch.stat().st_size > 100_000


def test_a_full_disk_is_said_with_its_place_and_as_json(repo: Path) -> None:
    session(repo, "start", "--name", "x")
    full = "import os, errno, sys\n"
    full += "from ringfence.workspace import ledger\n"
    full += "def no(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
    full += "ledger.Git.prepare = no\n"
    full += "from ringfence.cli import main; main()"
    words = [sys.executable, "-c", full, "session", "list", "--json"]
    done = subprocess.run(words, cwd=repo, capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert (done.returncode, said["schema"], said["what"]) == (125, "ringfence/error@1", "No space left on device")
    assert said["place"].startswith(os.environ["HOME"])
    assert "make room" in done.stderr
