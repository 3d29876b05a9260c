"""Directories listed for a plan without a view: bounded, and what was left out is closed and said."""

import contextlib
import os
from pathlib import Path

import pytest
from tests.attacks.conftest import Field
from tests.attacks.conftest import field as field

from ringfence.enforce import disk as enforce_disk
from ringfence.model import Disk


def test_no_more_is_listed_than_can_be_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforce_disk, "MOST_CHILDREN", 5)
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
        for number in range(4):
            (tmp_path / directory / str(number)).touch()
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]

    listed = enforce_disk.list_children(Disk({}), paths)

    assert [len(listed.children[path]) for path in paths] == [4, 1]
    assert listed.cut == (paths[1],)


def test_what_goes_while_it_is_listed_closes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a program had a lock in a home come and go, nothing of that home was granted."""
    for name in ("gone", "there"):
        (tmp_path / name).touch()
    listed = os.scandir

    def late(path: str) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        with listed(path) as entries:
            found = list(entries)
        (tmp_path / "gone").unlink()
        return contextlib.nullcontext(found)

    monkeypatch.setattr(os, "scandir", late)

    assert [place.path for place in enforce_disk.children(str(tmp_path))[0]] == [str(tmp_path / "there")]


def test_what_was_left_out_is_closed_and_said(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = field.walls.backend == "landlock"
    most = 3000 if lists else 50  # those of the system's directories come first, where there is no view
    monkeypatch.setattr(enforce_disk, "MOST_CHILDREN", most)
    ground = field.ground()
    for number in range(most + 100):
        ground.file(f"ws/many/{number}", "x\n")
    ground.file("ws/many/private")
    ground.own()

    script = f"seq -f many/%.0f 0 {most + 99} | xargs cat"
    outcome = field.run(ground, ["sh", "-c", script], deny_read=(str(ground.workspace / "many/private"),))

    read = (outcome.stdout or b"").count(b"x")
    if lists:
        assert 0 < read < most + 100
        assert any("everything in" in gap.what for gap in outcome.gaps)
    else:
        assert read == most + 100


def test_of_proc_no_process_is_listed() -> None:
    """They come and go: a launch was begun anew for each that had ended, and refused in the end."""
    places = enforce_disk.list_children(Disk({}), ["/proc"]).children["/proc"]

    assert "/proc/uptime" in [place.path for place in places]
    assert not [place.path for place in places if place.path[6:].isdigit()]
