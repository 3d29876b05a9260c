"""What the guard is told of the disk: what cannot be looked at may lead anywhere."""

import errno
import itertools
import os
import random
from pathlib import Path

import pytest

from ringfence.judging import follow, follower, leaks
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


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory of every kind of name: there, missing, a link to one of them, a loop, and what is below them."""
    root = Path(os.path.realpath(tmp_path))
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "file").touch()
    for name, target in (("to-dir", "dir"), ("to-file", f"{root}/file"), ("to-none", "none"), ("loop", "loop")):
        (root / name).symlink_to(target)
    (root / "dir" / "up").symlink_to("..")
    (root / "dir" / "sub" / "away").symlink_to("/usr/bin/../lib")
    return root


NAMES = ("dir", "file", "none", "to-dir", "to-file", "to-none", "loop", "sub", "up", "away", "..", ".", "", "n" * 300)


@pytest.mark.parametrize("refused", [False, True], ids=["asked", "where that is refused"])
def test_many_paths_are_followed_as_one_is(odd: Path, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if refused:
        monkeypatch.setattr("ringfence.judging._is_there", lambda _: False)  # by a filter that does not know the call
    paths = [f"{odd}/{'/'.join(names)}" for size in (1, 2, 3) for names in itertools.product(NAMES, repeat=size)]
    random.shuffle(paths)  # what is remembered of one must not change another
    paths += ["/", "", "/proc", "/proc/self/exe", "/usr", "/nonexistent/a/b", *paths[:50]]
    look = follower()

    assert {path: look(path) for path in paths} == {path: follow(path) for path in paths}
