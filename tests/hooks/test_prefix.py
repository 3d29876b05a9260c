"""`ringfence-shell`: what Claude Code puts before its shell."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

from ringfence.cli.prefix import words

PROGRAM = Path(sys.executable).parent / "ringfence-shell"


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=common_place()) as place:
        (Path(place) / "w" / ".git").mkdir(parents=True)
        (Path(place) / "w" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        yield Path(place) / "w"


@pytest.mark.needs_userns
def test_a_line_runs_inside_and_says_where_it_ended(root: Path) -> None:
    kept = Path(f"/tmp/claude-{os.getpid():x}-cwd")
    line = f"mkdir sub && cd sub && echo x > ../../outside; pwd -P >| {kept}"
    done = subprocess.run([PROGRAM, line], cwd=root, capture_output=True, text=True, timeout=60)
    ended = kept.read_text()
    kept.unlink()

    assert (done.returncode, ended) == (0, f"{root}/sub\n")
    assert "outside" in done.stderr
    assert not (root.parent / "outside").exists()


def test_a_link_in_the_place_of_the_file_is_not_let_through(tmp_path: Path) -> None:
    kept = Path(f"/tmp/claude-{os.getpid():x}link-cwd")
    kept.symlink_to(tmp_path / "elsewhere")
    made = words(f"true && pwd -P >| {kept}", {"HOME": str(tmp_path)}, False)
    kept.unlink()

    assert "--allow-write" not in made


@pytest.mark.parametrize(
    ("snapshot", "readable"),
    [
        ("/home/x/.claude/shell-snapshots/snapshot-bash-1-a.sh", True),
        ("/home/x/.claude/../.ssh/shell-snapshots/snapshot-bash-1-a.sh", False),
        ("/etc/shell-snapshots/snapshot-bash-1-a.sh", False),
    ],
)
def test_a_snapshot_is_readable_where_the_agent_keeps_them(snapshot: str, readable: bool) -> None:
    made = words(f"source {snapshot} 2>/dev/null || true && eval 'ls'", {"HOME": "/home/x"}, False)

    assert ("--allow-read" in made) is readable


def test_one_argument_is_wanted() -> None:
    assert subprocess.run([PROGRAM, "a", "b"], capture_output=True, timeout=30).returncode == 2
