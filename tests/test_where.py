"""Which directory is the workspace: one that cannot be looked at is not passed by."""

import errno
import os
from pathlib import Path

import pytest

from ringfence.where import find_workspace


@pytest.mark.parametrize("name", ["inner/.git/HEAD", "inner/.git", "inner/.ringfence/policy.json"])
def test_what_cannot_be_looked_at_is_not_taken_for_missing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next directory that has a repository may be a much larger one."""
    place, real = tmp_path.resolve(), os.stat
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").touch()
    inner = place / "inner"
    inner.mkdir()
    (inner / ".git").touch()
    assert find_workspace(str(inner)) == str(inner)

    def failing(path: str, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == str(place / name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(OSError, match="Input/output error"):
        find_workspace(str(inner))
