"""A command leaves a link into another process where a rule of ours leads: no later run would begin."""

import os
from pathlib import Path

import pytest
from tests.attacks.conftest import Field

LINKS = """
os.makedirs(".git/worktrees")
for name in (".git/hooks", ".git/worktrees/w"):
    attempt(name, lambda: os.symlink("/proc/1/root", name))
"""
LATER = """
attempt("start", lambda: None)
attempt("outside", lambda: write(OUTSIDE + "/canary"))
attempt("by the link", lambda: write(".git/hooks/pre-commit"))
attempt("the link itself", lambda: (os.unlink(".git/hooks"), os.mkdir(".git/hooks"), write(".git/hooks/pre-commit")))
"""


@pytest.mark.needs_a_closed_process
def test_a_link_into_another_process_does_not_refuse_every_later_run(field: Field) -> None:
    ground = field.ground()
    before = ground.state()
    made = field.program(ground, LINKS)
    assert set(made.answers.values()) == {"done"}, made.said  # a repository may be made where there is none

    seen = field.program(ground, LATER)

    assert seen.answers.pop("start") == "done", seen.said
    assert "done" not in seen.answers.values(), (seen.said, [gap.what for gap in seen.gaps])
    assert (ground.state(), os.readlink(ground.workspace / ".git/hooks")) == (before, "/proc/1/root")
    assert not Path("/pre-commit").exists()
