"""Paths that somebody else chose, on real trees: the kernel is the oracle for where one leads."""

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.model import SessionError, WorkspaceError
from ringfence.workspace import paths, repository
from ringfence.workspace.paths import (
    canonical,
    is_within,
    open_beneath,
    open_directory,
    read_beneath,
    remove_tree,
    walk,
)

NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories three deep, with a file and links of every kind in each."""
    top = tmp_path_factory.mktemp("forest").resolve()
    for one in ("", "a", "a/b", "b", "b/a"):
        place = top / one
        place.mkdir(exist_ok=True)
        (place / "f").write_text(one)
    for link, target in {
        "l": "a/b",
        "a/up": "..",
        "a/b/far": "../../b",
        "b/abs": str(top / "a"),
        "b/loop": "loop",
        "a/out": "/usr",
        "a/dangling": "nowhere/x",
        "a/b/file": "../f",
    }.items():
        (top / link).symlink_to(target)
    return top


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = open_directory(str(tmp_path.resolve()))
    yield fd
    os.close(fd)


COMPONENT = st.sampled_from([*NAMES, "l", "up", "far", "abs", "loop", "out", "dangling", "file", "f", "..", ".", ""])


@given(parts=st.lists(COMPONENT, max_size=8))
def test_a_path_leads_where_the_kernel_says(forest: Path, parts: list[str]) -> None:
    path = "/".join((str(forest), *parts))
    try:
        fd = os.open(path, os.O_PATH)
    except OSError:
        _check_missing(path)
        return
    try:
        assert canonical(path) == os.readlink(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _check_missing(path: str) -> None:
    """What does not exist keeps its rest as written, below something that is resolved already; or is refused."""
    try:
        real = canonical(path)
    except WorkspaceError:
        return
    deepest = real
    while not os.path.lexists(deepest):
        deepest = os.path.dirname(deepest)
    assert ".." not in real.split("/")
    assert os.path.realpath(deepest) == deepest


@given(parts=st.lists(COMPONENT, max_size=8))
def test_nothing_that_leads_outside_counts_as_inside(forest: Path, parts: list[str]) -> None:
    path = "/".join((str(forest / "a"), *parts))
    try:
        inside = is_within(path, str(forest / "a"))
        real = canonical(path)
    except WorkspaceError:
        return

    assert inside == (real == str(forest / "a") or real.startswith(f"{forest}/a/"))


def test_to_go_up_from_what_does_not_exist_is_refused(forest: Path) -> None:
    with pytest.raises(WorkspaceError, match="goes up from"):
        canonical(f"{forest}/nowhere/../a")


def test_a_prefix_of_a_name_is_not_inside(tmp_path: Path) -> None:
    assert not is_within(f"{tmp_path}/workshop", f"{tmp_path}/work")


@pytest.mark.parametrize("path", ["", " ", "\t\n", "/a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(WorkspaceError):
        canonical(path)


@given(
    name=st.binary(min_size=1, max_size=40).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b".."))
)
def test_names_are_bytes_and_stay_as_they_are(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    top = tmp_path_factory.getbasetemp().resolve() / "bytes"
    top.mkdir(exist_ok=True)
    text = os.fsdecode(name)
    (top / text).write_bytes(b"x")
    try:
        assert canonical(f"{top}/{text}") == f"{top}/{text}"
        with os.scandir(top) as entries:
            assert [os.fsencode(entry.name) for entry in entries] == [name]
    finally:
        (top / text).unlink()


@pytest.mark.needs_userns
def test_one_directory_under_two_names_is_one_directory(tmp_path: Path) -> None:
    """A tree that folds case has two names for one directory, and so has one that is mounted twice."""
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "WORK").mkdir()
    code = (
        "import sys; from ringfence.workspace.paths import is_within;"
        "print(is_within(sys.argv[1] + '/WORK/sub/new', sys.argv[1] + '/work'))"
    )
    script = 'mount --bind "$1/work" "$1/WORK" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]
    done = subprocess.run(
        [*command, tmp_path, sys.executable, code], capture_output=True, text=True, cwd=tmp_path, timeout=30
    )

    assert done.stdout == "True\n", done.stderr
    assert not is_within(f"{tmp_path}/WORK/sub/new", f"{tmp_path}/work")


# ---- Opening ----


def test_a_file_below_is_opened_and_read(tmp_path: Path, root: int) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_bytes(b"content")

    assert read_beneath(root, "a/b/f") == b"content"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "..", ".", "", "a/.."])
def test_a_path_that_could_leave_is_refused(root: int, path: str) -> None:
    with pytest.raises(WorkspaceError):
        open_beneath(root, path)


def test_no_link_is_followed_anywhere(tmp_path: Path, root: int) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("x")
    (tmp_path / "dir").symlink_to("real")
    (tmp_path / "last").symlink_to("real/f")

    for path in ("dir/f", "last"):
        assert (tmp_path / path).read_text() == "x"
        with pytest.raises(WorkspaceError):
            open_beneath(root, path)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
def test_a_fifo_and_a_socket_are_not_opened_and_nobody_waits(tmp_path: Path, root: int, flags: int) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket is short
        listener.bind("socket")
        os.chdir(before)
        for name in ("fifo", "socket"):
            with pytest.raises(WorkspaceError, match="not a regular file"):
                open_beneath(root, name, flags)


def test_a_device_is_not_opened() -> None:
    fd = open_directory("/dev")
    try:
        with pytest.raises(WorkspaceError, match="not a regular file"):
            open_beneath(fd, "null")
    finally:
        os.close(fd)


def test_what_is_made_must_be_new(tmp_path: Path, root: int) -> None:
    (tmp_path / "there").symlink_to("nowhere")
    made = os.O_WRONLY | os.O_CREAT | os.O_EXCL

    os.close(open_beneath(root, "new", made, 0o640))
    for name in ("new", "there"):
        with pytest.raises(WorkspaceError):
            open_beneath(root, name, made)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) & ~0o640 == 0
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, root: int) -> None:
    (tmp_path / "long").write_bytes(b"x" * 101)

    with pytest.raises(WorkspaceError, match="more than 100"):
        read_beneath(root, "long", 100)


def test_a_swap_race_never_gives_the_outside(
    tmp_path: Path, root: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A directory and a link out of the tree change places as fast as they can while it is opened."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "f").write_text("outside")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "f").write_text("inside")
    (tmp_path / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for source in ("inside", "link"):
                os.rename(tmp_path / source, tmp_path / "name")
                os.rename(tmp_path / "name", tmp_path / source)

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(read_beneath(root, "name/f"))
            except WorkspaceError:
                seen.add(b"refused")
    finally:
        stop.set()
        thread.join()

    assert b"outside" not in seen
    assert b"refused" in seen


# ---- Trees ----


def test_a_walk_sees_everything_once_and_follows_nothing(forest: Path) -> None:
    fd = open_directory(str(forest))
    try:
        seen = [entry.path for entry, _ in walk(fd)]
        skipped = [entry.path for entry, _ in walk(fd, frozenset({"a"}))]
    finally:
        os.close(fd)

    assert sorted(seen) == sorted(str(path.relative_to(forest)) for path in forest.rglob("*"))
    assert [path for path in skipped if path.startswith("a/")] == []


def test_what_goes_while_somebody_walks_is_left_out(tmp_path: Path, root: int) -> None:
    for name in ("b", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / "c").touch()
    seen = []
    for entry, _ in walk(root, frozenset({"home"})):
        seen.append(entry.path)
        if entry.path == "b":  # before it is gone into, and the next is looked at
            (tmp_path / "b").rmdir()
            (tmp_path / "c").unlink()

    assert seen == ["b", "d", "home"]


def test_a_tree_is_removed_however_it_was_made(tmp_path: Path, root: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "rf-1").mkdir()
    os.mkfifo(tree / "fifo")
    for name in ("closed", "blind"):
        (tree / name / "in").mkdir(parents=True)
        (tree / name / "in" / "f").write_text("x")
    (tree / "closed").chmod(0o500)
    (tree / "blind").chmod(0)
    deep = os.open(tree, os.O_RDONLY)
    for _ in range(1500):  # beyond any path, any stack, and any table of descriptors
        os.mkdir("deeper", dir_fd=deep)
        below = os.open("deeper", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)

    remove_tree(root, "tree")

    assert not tree.exists()
    assert (outside / "kept").read_text() == "x"


def test_a_link_in_place_of_a_tree_is_removed_itself(tmp_path: Path, root: int) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "kept").write_text("x")
    (tmp_path / "tree").symlink_to("real")

    remove_tree(root, "tree")

    assert not (tmp_path / "tree").is_symlink()
    assert (tmp_path / "real" / "kept").exists()


def test_a_name_is_found_but_not_through_a_link(tmp_path: Path, root: int) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    (tmp_path / "l").symlink_to("d")

    assert [paths.exists_beneath(root, path) for path in ("d/f", "l", "l/f", "d/g")] == [True, True, False, False]


def test_what_nobody_can_look_at_is_not_taken_for_missing(tmp_path: Path) -> None:
    """Who asks is a plain user: no mode stops root."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "commondir").touch()
    root = os.open(tmp_path / "closed", os.O_RDONLY | os.O_DIRECTORY)
    os.fchmod(root, 0)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.seteuid(65534)
            paths.exists_beneath(root, "commondir")
            os._exit(1)
        except WorkspaceError:
            os._exit(0)
        finally:
            os._exit(2)
    answer = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.fchmod(root, 0o700)
    os.close(root)

    assert answer == 0


def test_no_repository_further_up_is_taken_where_nobody_can_look(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    assert repository._mode(str(tmp_path / ".git")) is None
    with pytest.raises(SessionError, match="cannot be looked at"):
        repository._mode(str(tmp_path / "loop" / ".git"))
