"""What the guard is told of the disk: what cannot be looked at may lead anywhere."""

import errno
import os
from pathlib import Path

import pytest

from ringfence.judging import follow, leaks
from ringfence.model import Access, Decision, Verdict


def allowed(_access: Access, _path: str) -> Decision:
    return Decision(Verdict.ALLOW, "all of it")


def test_a_directory_that_nobody_can_look_into_is_taken_to_lead_out(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")  # closed to root too

    assert leaks(str(tmp_path / "loop"), allowed)
    assert not leaks(str(tmp_path / "missing"), allowed)
    assert not leaks(str(tmp_path), allowed)


@pytest.mark.parametrize(("number", "leads"), [(errno.EINVAL, "/a/b"), (errno.EACCES, "/a/b"), (errno.EIO, "/..")])
def test_a_name_of_which_nobody_can_say_whether_it_is_a_link_leads_nowhere_allowed(
    monkeypatch: pytest.MonkeyPatch, number: int, leads: str
) -> None:
    def broken(path: str) -> str:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "readlink", broken)  # no file system here fails so when told to

    assert follow("/a/b") == leads
