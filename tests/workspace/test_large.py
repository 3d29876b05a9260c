"""The whole life on a repository of 20,000 files, by the command and by Python, with `git fsck` after each step."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workspace.conftest import AS_ROOT, git, is_sound

from ringfence.session import Session

FILES = 20_000


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A repository that git imports in a second."""
    place = tmp_path / "large"
    git(tmp_path, "init", "-q", "-b", "main", "large")
    rows = [b"commit refs/heads/main\ncommitter n <e@x> 0 +0000\ndata 0\n"]
    for number in range(FILES):
        data = f"file {number}\n".encode() * 9
        rows.append(b"M 644 inline d%d/f%d\ndata %d\n%s\n" % (number // 100, number, len(data), data))
    subprocess.run(["git", "fast-import", "--quiet"], input=b"".join(rows), cwd=place, check=True, timeout=60)
    git(place, "reset", "-q", "--hard")
    return place


def ringfence(where: Path, *words: str) -> str:
    command = [sys.executable, "-I", "-m", "ringfence", "session", *words]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert is_sound(where if (where / ".git").is_dir() else where.parent)
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_whole_life_by_the_command(large: Path) -> None:
    as_root = ["--as-root"] if AS_ROOT else []
    commit = "echo new > d0/new && rm d1/f100 && git add -A && git -c user.name=a -c user.email=a@x commit -qm work"
    said = ringfence(
        large, "start", "--name", "big", *as_root, "--", "sh", "-c", f"{commit} && echo loose > loose && ls | wc -l"
    )
    assert int(said) == FILES // 100 + 1
    (listed,) = json.loads(ringfence(large, "list", "--json"))["sessions"]
    assert (listed["name"], listed["state"], listed["branch"]) == ("big", "active", "ringfence/big")
    assert json.loads(ringfence(large, "show", "big", "--json"))["uncommitted"] is True
    assert "+loose" in ringfence(large, "diff", "big")
    ringfence(large, "resume", "big", *as_root, "--", "rm", "loose")
    ringfence(large, "merge", "big")
    assert (large / "d0" / "new").read_text() == "new\n"
    assert git(large, "status", "--porcelain") == ""
    assert json.loads(ringfence(large, "end", "big", "--json"))["saved"] is False
    assert "forgotten" in ringfence(large, "prune")
    assert json.loads(ringfence(large, "list", "--json"))["sessions"] == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_whole_life_by_python(large: Path) -> None:
    with Session(str(large), name="big", as_root=AS_ROOT) as one:
        assert is_sound(large)
        assert one.run(["sh", "-c", "echo changed > d7/f777 && echo loose > loose"]).ok
        place = one.path
    assert is_sound(large)
    assert not os.path.exists(place)
    assert git(large, "diff", "--name-status", "main", "ringfence/big").split() == ["M", "d7/f777", "A", "loose"]


def test_a_file_that_git_takes_for_a_large_one_is_saved_with_the_others(repo: Path) -> None:
    """Of more than 512 MiB, or what the repository says, git makes a pack of its own, unless it is told otherwise."""
    git(repo, "config", "core.bigFileThreshold", "1m")
    with Session(str(repo), name="big", as_root=AS_ROOT) as one:
        assert one.run(["sh", "-c", "echo a > before; truncate -s 2M large; echo z > zz"]).ok
        assert b"zz" in one.diff()
    assert git(repo, "cat-file", "-s", "ringfence/big:large").strip() == str(2 << 20)
    assert is_sound(repo)
