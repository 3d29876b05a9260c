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


@pytest.mark.parametrize("umask", [0o777, 0o000])
def test_a_new_directory_is_its_users_alone_whatever_the_umask(umask: int) -> None:
    held: list[int] = []
    before = os.umask(umask)
    try:
        path = enforce.new_directory(None, held)
    finally:
        os.umask(before)

    assert os.stat(path).st_mode & 0o777 == 0o700
    enforce.let_go(held)
    enforce.remove(path)
