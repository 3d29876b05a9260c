"""Directories in /tmp: whose run is gone are removed, and no others."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import enforce

LONG_AGO = 1_000_000_000


@pytest.fixture
def left() -> Iterator[dict[str, Path]]:
    """Directories as runs leave them, by what became of the run."""
    ours = f"ringfence-{os.geteuid()}-"
    found = {word: Path(tempfile.mkdtemp(prefix=ours, dir="/tmp")) for word in ("gone", "begins", "runs")}
    found["another's"] = Path(tempfile.mkdtemp(prefix="ringfence-", dir="/tmp"))
    locked = os.open(found["runs"], os.O_RDONLY)
    try:
        fcntl.flock(locked, fcntl.LOCK_SH)
        (found["gone"] / "left").touch()
        for word in ("gone", "runs", "another's"):
            os.utime(found[word], (LONG_AGO, LONG_AGO))
        yield found
    finally:
        os.close(locked)
        for path in found.values():
            enforce.remove(str(path))


def test_a_new_directory_takes_away_those_whose_run_is_gone(left: dict[str, Path]) -> None:
    held: list[int] = []
    enforce.remove(enforce.new_directory(None, held))
    enforce.let_go(held)

    assert {word for word, path in left.items() if path.exists()} == {"begins", "runs", "another's"}
