"""A path that a policy allows runs through a link of the workspace, which an earlier command made or turned."""

import contextlib

from tests.attacks.conftest import Field, Ground

from ringfence import RingfenceError

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
