"""The look at the disk: each name as it is, whichever way it was asked for, and only what is granted is held."""

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

from ringfence import enforce
from ringfence.enforce import disk
from ringfence.model import Kind, PlanError


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """One name in each of five directories, and five in one; every other is there."""
    apart = [tmp_path / f"d{number}" / "name" for number in range(5)]
    together = [tmp_path / "many" / f"name{number}" for number in range(5)]
    for number, path in enumerate((*apart, *together)):
        path.parent.mkdir(exist_ok=True)
        if number % 2:
            path.touch()
    return [str(path) for path in (*apart, *together)]


@pytest.mark.parametrize("is_denied", [True, False])
def test_each_name_is_told_as_it_is_and_what_is_denied_is_not_held(names: list[str], is_denied: bool) -> None:
    held: list[int] = []

    disk = enforce.survey(names, held, denied=set(names) if is_denied else set())

    try:
        for path in names:
            assert disk[path].path == path
            assert (disk[path].kind is Kind.FILE) == os.path.exists(path)
        assert len(held) == (0 if is_denied else 5)
    finally:
        enforce.let_go(held)


def test_a_missing_name_behind_a_link_is_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    path = str(tmp_path / "link" / "name")

    assert enforce.survey([path], [])[path].path == str(tmp_path / "real" / "name")


@pytest.mark.parametrize("is_denied", [True, False])
def test_a_name_a_thousand_directories_deep_is_looked_at_like_any_other(tmp_path: Path, is_denied: bool) -> None:
    """A repository's configuration may name such a one for its hooks, and a project's policy."""
    deep = str(tmp_path) + "/d" * 1500
    held: list[int] = []

    disk = enforce.survey([deep], held, denied={deep} if is_denied else set())

    assert (disk[deep].kind, held) == (Kind.MISSING, [])


def test_a_link_into_a_process_of_another_leads_nowhere(tmp_path: Path) -> None:
    """A command leaves it where a rule of ours leads: what it means must not refuse every later run."""
    link = tmp_path.resolve() / "link"
    link.symlink_to("/proc/1/root")
    root, links = "/proc/1/root", [str(link)]
    with contextlib.suppress(PermissionError):
        os.readlink("/proc/1/root")
        root, links = "", [str(link), "/proc/1/root"]  # we may look into it

    for path, real in ((str(link), root or "/"), (f"{link}/nonexistent-name", f"{root}/nonexistent-name")):
        found = enforce.survey([path], [])[path]
        assert (found.path, found.links, found.closed) == (real, tuple(links), "")
        assert found.kind is (Kind.DIRECTORY if real == "/" else Kind.MISSING)
        assert enforce.canonical(path) == real


def test_a_link_that_cannot_be_read_elsewhere_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system in user space may say so now, and lead somewhere later."""
    link = tmp_path.resolve() / "link"
    link.symlink_to("real")

    def closed(path: str, *_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "readlink", closed)
    with pytest.raises(PlanError, match="cannot be looked at: Permission denied"):
        enforce.survey([f"{link}/name"], [])


@pytest.mark.parametrize("beside", [0, 5])
def test_a_link_through_a_name_that_is_not_there_leads_where_its_text_says(tmp_path: Path, beside: int) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "name").touch()
    (tmp_path / "link").symlink_to("missing/../real")
    path = str(tmp_path / "link" / "name")
    others = [f"{tmp_path}/link/other{number}" for number in range(beside)]  # so many that the directory is listed
    held: list[int] = []

    found = enforce.survey([path, *others], held)[path]

    enforce.let_go(held)
    assert (found.asked, found.path, found.kind) == (path, str(tmp_path / "real" / "name"), Kind.FILE)
    assert found.path == enforce.canonical(path)
    assert found.links == (str(tmp_path / "link"),)


def test_a_link_that_comes_and_goes_meanwhile_is_no_fault(tmp_path: Path) -> None:
    """Python's own realpath() looks at a link twice, and fails when it is gone at the second time."""
    name, is_over = tmp_path / "name", threading.Event()

    def change() -> None:
        while not is_over.is_set():
            name.symlink_to("nonexistent")
            name.unlink()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(2000):
            assert enforce.canonical(f"{name}/x") in (f"{name}/x", f"{tmp_path}/nonexistent/x")
            assert enforce.survey([str(name)], [])[str(name)].kind is Kind.MISSING
    finally:
        is_over.set()
        changing.join()


def test_what_was_a_link_a_moment_ago_counts_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was opened through the link, and is a directory by the time it is asked which links there are."""
    secret, way = tmp_path / "secret", tmp_path / "way"
    for directory in (secret, tmp_path / "other"):
        directory.mkdir()
        (directory / "file").touch()
    way.symlink_to(secret)
    look = os.readlink

    def swap(path: str) -> str:
        found = look(path)
        if found == str(secret / "file"):
            way.unlink()
            (tmp_path / "other").rename(way)
        return found

    monkeypatch.setattr(os, "readlink", swap)
    held: list[int] = []
    place = enforce.survey([f"{way}/file"], held)[f"{way}/file"]
    enforce.let_go(held)

    assert place.path == str(secret / "file")
    assert place.links == (f"{way}/file",)


@pytest.mark.parametrize("name", ["away", "WAY"])
def test_nor_is_that_hidden_by_a_link_of_others_or_by_a_spelling(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule comes by a link outside, and where the link inside has led differs by its case alone."""
    (tmp_path / "real" / "way").mkdir(parents=True)
    (tmp_path / name.replace("WAY", "REAL")).mkdir()
    (tmp_path / name.replace("WAY", "REAL") / "way").mkdir()
    (tmp_path / "link").symlink_to("real")
    way, secret = tmp_path / "real" / "way", tmp_path / name.replace("WAY", "REAL") / "way"
    way.rename(tmp_path / "real" / "other")
    way.symlink_to(secret)
    look = os.readlink

    def swap(path: str) -> str:
        found = look(path)
        if found == str(secret) and way.is_symlink():
            way.unlink()
            (tmp_path / "real" / "other").rename(way)
        return found

    monkeypatch.setattr(os, "readlink", swap)
    held: list[int] = []
    place = enforce.survey([f"{tmp_path}/link/way"], held)[f"{tmp_path}/link/way"]
    enforce.let_go(held)

    assert place.path == str(secret)
    assert place.links == (f"{tmp_path}/link", str(way))


def test_a_path_with_a_link_on_it_is_no_spelling_of_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    real = str(tmp_path / "real" / "deep")

    assert [disk._spelled(path) for path in (real, f"{tmp_path}/link/deep", f"{tmp_path}/link")] == [real, "", ""]


def test_a_name_beside_others_is_told_as_it_is_alone(tmp_path: Path) -> None:
    """A directory of which many names are asked is looked at once, and its links are seen all the same."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "file").touch()
    (there / "again").hardlink_to(there / "file")
    (there / "directory").mkdir()
    for name, target in (("link", "file"), ("dangling", "nowhere"), ("loop", "loop"), ("up", "../there/directory")):
        (there / name).symlink_to(target)
    names = [str(there / name) for name in ("file", "directory", "link", "dangling", "loop", "up", "missing")]
    below = [f"{name}/below" for name in names]
    held: list[int] = []

    together = enforce.survey([*names, *below], held)

    try:
        assert [together[path] for path in (*names, *below)] == [
            enforce.survey([path], held)[path] for path in (*names, *below)
        ]
        assert enforce.survey(names, held, denied={*names})[names[0]] == together[names[0]]
        assert together[names[2]].path == names[0]
        assert [set(together[path].links) for path in names[2:6]] == [{path} for path in names[2:6]]
    finally:
        enforce.let_go(held)


def test_what_is_removed_while_somebody_looks_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC)
    path.unlink()
    held: list[int] = []
    place = disk.looked(str(path), fd, held, None, {})
    enforce.let_go(held)

    assert (place.kind, place.inode) == (Kind.MISSING, 0)


def test_whose_a_workspace_is_no_link_says(tmp_path: Path) -> None:
    """Root runs a command as its owner: of what stands at its path, and not of what a link there leads to."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")

    assert enforce.standing_at(str(tmp_path / "there")).st_ino == (tmp_path / "there").stat().st_ino
    for name in ("link", "link/."):
        with pytest.raises(PlanError, match="leads elsewhere"):
            enforce.standing_at(str(tmp_path / name))
    with pytest.raises(PlanError, match="No such file"):
        enforce.standing_at(str(tmp_path / "gone"))


def test_what_was_closed_for_a_moment_is_not_left_unheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of another run can close and open the way; what is behind a closed one is held by what closes it."""
    path, real = str(tmp_path.resolve() / "config"), os.open
    Path(path).touch()

    def closed(name: str, *given: int, **more: int) -> int:
        if name == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, *given, **more)

    monkeypatch.setattr(os, "open", closed)
    with pytest.raises(PlanError, match="cannot be looked at: Permission denied"):
        enforce.survey([path], [])


def test_a_link_that_leads_where_nobody_can_look_is_named_with_where_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clone brings, or a command left; root may look into any process, so it is told that it may not."""

    def closed(_path: str) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(disk, "real_path", closed)
    link = tmp_path.resolve() / "link"
    link.symlink_to("/proc/1/root/gone")
    with pytest.raises(PlanError, match="cannot be looked at: Permission denied") as caught:
        enforce.survey([f"{link}/commondir"], [])

    assert caught.value.hint == f"repair or remove what stands there; {link} is a link to /proc/1/root/gone"
