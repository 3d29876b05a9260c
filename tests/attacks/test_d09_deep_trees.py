"""D9, T10: a command leaves a tree too deep to walk, or closed, or with a link where root tidies up for somebody."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.attacks.conftest import PYTHON, Field

from ringfence.enforce import shelf, temporary
from ringfence.enforce.removal import remove_tree

MARK = os.urandom(8).hex()  # others run things here too
DEPTH = 3000  # beyond the recursion that Python allows, and the length of a path
DEEP = f"""
import os
os.chdir(os.environ["TMPDIR"])
os.mkdir("top-{MARK}")
os.chdir("top-{MARK}")
try:
    for _ in range({DEPTH}):
        os.mkdir("d")
        os.chdir("d")
except OSError:  # where the warden judges, a path has an end
    os.chdir("../..")
open("f", "w").close()
os.mkdir("closed", 0)
os.chmod(".", 0)
"""


def test_a_deep_tree_in_tmpdir_neither_breaks_the_run_nor_stays(field: Field) -> None:
    ground = field.ground()
    ground.own()
    done = field.run(ground, [PYTHON, "-I", "-S", "-c", DEEP])

    assert done.exit_code == 0, done
    assert not list(Path("/tmp").glob(f"ringfence-{os.geteuid()}-*/top-{MARK}"))


def test_bare_such_a_tree_is_too_deep() -> None:
    """Not in a directory of pytest's, which could not remove it either, should this fail."""
    place = tempfile.mkdtemp(prefix="rf-deep-", dir="/var/tmp")
    top = f"{place}/top-{MARK}"
    try:
        subprocess.run([PYTHON, "-I", "-S", "-c", DEEP], env={"TMPDIR": place}, check=True)
        if sys.version_info < (3, 13):  # later ones do not recurse; before, descriptors may run out first
            with contextlib.suppress(RecursionError):
                shutil.rmtree(top, ignore_errors=True)
            assert os.path.exists(top)

        remove_tree(top)

        assert os.listdir(place) == []
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


def test_links_in_a_tree_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").touch()
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/link").symlink_to(outside)
    (tmp_path / "tree/link").symlink_to(outside / "file")

    remove_tree(str(tmp_path / "tree"))
    (tmp_path / "tree").symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        remove_tree(str(tmp_path / "tree"))

    assert sorted(path.name for path in outside.iterdir()) == ["file", "inner"]


@pytest.mark.needs_root
def test_root_does_not_follow_a_link_in_a_place_for_caches(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    if field.walls.who == "root":
        return  # then the place is in its own home
    ground = field.ground()
    (ground.home / ".cache/pip").mkdir(parents=True)
    ground.own()
    monkeypatch.setattr(shelf, "FOR_OTHERS", str(ground.base / "shelf"))
    field.run(ground, ["true"])
    [work] = (ground.base / "shelf").glob("*/*/layers/pip/work")
    assert work.stat().st_uid == ground.uid, "it is theirs to put a link into"
    victim = ground.base / "victim"
    victim.mkdir(0o755)
    (work / "4194305").symlink_to(victim)

    field.run(ground, ["true"])

    assert stat.S_IMODE(victim.stat().st_mode) == 0o755


@pytest.mark.needs_root
@pytest.mark.parametrize("place", ["made by somebody", "moved there", "made for somebody", "of a cache"])
def test_root_removes_nothing_that_somebody_has_moved_there_and_could_not_remove(tmp_path: Path, place: str) -> None:
    """What he may write he may move, without being able to remove what is below it. Root did, by the name alone."""
    top = tmp_path / "ringfence-0-0123456789abcdef"
    shared = top if place == "moved there" else top / "own/theirs"
    secret = shared / "private/file"
    secret.parent.mkdir(parents=True)
    secret.touch()
    for path in (top, top / "own"):
        if path.exists():
            os.chown(path, 65534, 0 if place == "made for somebody" else 65534)
    for path in (shared, secret.parent, secret):
        os.chown(path, 65533, 65533)
    shared.chmod(0o777)
    if place == "of a cache":
        os.chown(top, 0, 0)
        with contextlib.suppress(PermissionError):
            remove_tree(str(top), 65534)
    else:
        temporary.remove(str(top))
    left = [path.name for path in top.rglob("*") if path.stat().st_uid == 65533]

    assert "file" in left
