"""Names that are watched through their directories: a change is seen, also one whose time somebody set back."""

import os
import time
from pathlib import Path

from ringfence.enforce import Lookout


def settled(directory: Path) -> None:
    """Let the directory's last change lie far enough behind."""
    time.sleep(0.06)
    assert directory.exists()


def test_a_name_that_comes_is_seen_and_an_unchanged_directory_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def is_there(path: str) -> bool:
        asked.append(path)
        return os.path.lexists(path)

    paths = [str(tmp_path / name) for name in ("a", "b")]
    watch = Lookout(paths)
    settled(tmp_path)

    assert watch.those(is_there) == []
    assert watch.those(is_there) == []
    assert asked == paths
    (tmp_path / "b").symlink_to("nowhere")
    assert watch.those(is_there) == [paths[1]]
    assert watch.those(is_there) == [paths[1]]


def test_a_time_that_is_set_back_hides_nothing(tmp_path: Path) -> None:
    watch = Lookout([str(tmp_path / "a")])
    settled(tmp_path)
    before = tmp_path.stat()
    assert watch.those(os.path.lexists) == []

    (tmp_path / "a").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert watch.those(os.path.lexists) == [str(tmp_path / "a")]


def test_a_directory_that_was_just_changed_is_asked_again(tmp_path: Path) -> None:
    watch = Lookout([str(tmp_path / "a")])
    (tmp_path / "other").touch()

    assert watch.those(os.path.lexists) == []
    (tmp_path / "a").touch()  # within one step of the clock
    assert watch.those(os.path.lexists) == [str(tmp_path / "a")]


def test_a_directory_that_is_replaced_or_missing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    watch = Lookout([str(tmp_path / "d" / "a"), str(tmp_path / "no" / "b")])
    settled(tmp_path)
    assert watch.those(os.path.lexists) == []

    (tmp_path / "d").rename(tmp_path / "old")
    for name in ("d/a", "no/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()

    assert sorted(watch.those(os.path.lexists)) == [str(tmp_path / "d" / "a"), str(tmp_path / "no" / "b")]
