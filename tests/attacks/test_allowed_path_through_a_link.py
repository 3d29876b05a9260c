"""A path that a policy allows runs through a link of the workspace, which an earlier command made or turned."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.attacks.conftest import Field, Ground

from ringfence import Flags, RingfenceError, enforce, keep, matches
from ringfence.enforce import walker
from ringfence.job import make_request

PROGRAM = """
attempt("read", lambda: read("data/id_ed25519"))
attempt("write", lambda: write("data/authorized_keys"))
"""


def turned(ground: Ground) -> None:
    """What an earlier command left: the directory that the policy names is a link now."""
    (ground.workspace / "data").symlink_to(ground.home / ".ssh")
    ground.own()


def test_a_link_of_the_workspace_does_not_choose_what_is_allowed(field: Field) -> None:
    ground = field.ground()
    turned(ground)
    before = ground.state()

    with contextlib.suppress(RingfenceError):  # refusing to start is an answer too
        seen = field.program(ground, PROGRAM, allow_write=("data",))
        escaped = {name for name, answer in seen.answers.items() if answer == "done"}
        assert not escaped, f"{seen.said}\n{[gap.what for gap in seen.gaps]}"

    assert ground.state() == before


def test_a_link_of_the_workspace_does_not_choose_what_may_be_read(field: Field) -> None:
    ground = field.ground()
    turned(ground)

    with contextlib.suppress(RingfenceError):
        seen = field.program(ground, PROGRAM, allow_read=("data",))
        assert "done" not in seen.answers.values(), seen.said


SHOWN = """
def shown():
    with open(OUTSIDE + "/shown") as file:
        if file.read() == "as it was\\n":
            raise OSError(errno.ENOENT, "nothing else is shown")
attempt("read", shown)
"""


def test_a_link_of_the_workspace_does_not_choose_what_is_shown_elsewhere(field: Field) -> None:
    ground = field.ground()
    (ground.workspace / "settings").symlink_to(ground.home / ".ssh/id_ed25519")
    ground.file("outside/shown")
    ground.own()

    with contextlib.suppress(RingfenceError):
        seen = field.program(ground, SHOWN, inject=(("settings", str(ground.outside / "shown")),))
        assert "done" not in seen.answers.values(), seen.said


# ---- What is turned while somebody looks: by a command of an earlier run that is still there ----

BY_NAME = """
attempt("read", lambda: read(HOME + "/.ssh/id_ed25519"))
attempt("write", lambda: write(HOME + "/.ssh/id_ed25519", flags=0))
"""


def exchange(place: Path) -> None:
    """As renameat2 does it at once: the link and the directory."""
    os.rename(place / "data", place / "third")
    os.rename(place / "other", place / "data")
    os.rename(place / "third", place / "other")


def test_where_a_pattern_begins_is_looked_at_once(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link when the pattern is looked for, and a directory when its way is looked at for links."""
    ground = field.ground()
    turned(ground)
    (ground.workspace / "other").mkdir()
    ground.own()
    before = (ground.home / ".ssh/id_ed25519").read_bytes()
    walk: Callable[..., Any] = walker.walk

    def exchanging(*given: object) -> object:
        found = walk(*given)
        exchange(ground.workspace)
        return found

    monkeypatch.setattr(matches, "walk", exchanging)

    with contextlib.suppress(RingfenceError):
        seen = field.program(ground, BY_NAME, allow_read=("data/*",), allow_write=("data/*",))
        assert "done" not in seen.answers.values(), seen.said

    assert (ground.home / ".ssh/id_ed25519").read_bytes() == before


@pytest.mark.parametrize("beginning", ["data", "link/data"])
def test_nor_is_it_looked_at_again_for_runs_beside(tmp_path: Path, beginning: str) -> None:
    """They are judged by the policy as it was carried out, and not by what the command has made of it since."""
    secret, place = tmp_path / "secret", tmp_path / "ws"
    (place / "data").mkdir(parents=True)
    secret.mkdir()
    (place / "data" / "file").touch()
    (place / "other").symlink_to(secret)
    (tmp_path / "link").symlink_to("ws")
    pattern = f"{tmp_path if '/' in beginning else place}/{beginning}/*"
    flags = Flags(deny_read=(str(tmp_path),), allow_read=(pattern,))
    made = keep.prepare(make_request(place, flags=flags, as_root=True))

    exchange(place)

    patterns = [rule.path for rule in made.judged().rules if rule.glob and rule.origin.source == "--allow-read"]
    keep.forget(made)
    assert set(patterns) <= {f"{place}/data/*"}  # or nothing, for who may write above the link may turn it


AS_WORKSPACE = """
attempt("write", lambda: write(OUTSIDE + "/planted"))
"""


@pytest.mark.parametrize(("place", "look"), [(keep, "load_policy"), (enforce, "survey")])
def test_nor_does_what_stands_in_place_of_the_workspace(
    field: Field, monkeypatch: pytest.MonkeyPatch, place: ModuleType, look: str
) -> None:
    """A run that may write above it is still there: the workspace is asked for by its path, and a link when somebody
    looks."""
    ground = field.ground()
    above = ground.workspace
    (above / "data").mkdir()
    (above / "other").symlink_to(ground.outside)
    ground.own()
    ground.workspace = above / "data"
    before, looking = ground.state(), getattr(place, look)

    def exchanging(*given: object, **more: object) -> object:
        exchange(above)
        try:
            return looking(*given, **more)
        finally:
            exchange(above)

    monkeypatch.setattr(place, look, exchanging)

    with contextlib.suppress(RingfenceError):
        seen = field.program(ground, AS_WORKSPACE)
        assert "done" not in seen.answers.values(), seen.said
    assert ground.state() == before
