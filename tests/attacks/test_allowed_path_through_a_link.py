"""A path that a policy allows runs through a link of the workspace, which an earlier command made or turned."""

import contextlib
import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.attacks.conftest import Field, Ground

from ringfence import RingfenceError, matches

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


# ---- What is turned while somebody looks: by a command of an earlier run that is still there ----

BY_NAME = """
attempt("read", lambda: read(HOME + "/.ssh/id_ed25519"))
attempt("write", lambda: write(HOME + "/.ssh/id_ed25519", flags=0))
"""


def exchanged(ground: Ground) -> None:
    """As renameat2 does it at once: the link and the directory."""
    data, other = ground.workspace / "data", ground.workspace / "other"
    os.rename(data, ground.workspace / "third")
    os.rename(other, data)
    os.rename(ground.workspace / "third", other)


def test_where_a_pattern_begins_is_looked_at_once(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link when the pattern is looked for, and a directory when its way is looked at for links."""
    ground = field.ground()
    turned(ground)
    (ground.workspace / "other").mkdir()
    ground.own()
    before = (ground.home / ".ssh/id_ed25519").read_bytes()
    walk: Callable[..., Any] = matches.walk

    def exchanging(*given: object) -> object:
        found = walk(*given)
        exchanged(ground)
        return found

    monkeypatch.setattr(matches, "walk", exchanging)

    with contextlib.suppress(RingfenceError):
        seen = field.program(ground, BY_NAME, allow_read=("data/*",), allow_write=("data/*",))
        assert "done" not in seen.answers.values(), seen.said

    assert (ground.home / ".ssh/id_ed25519").read_bytes() == before
