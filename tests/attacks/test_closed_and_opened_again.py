"""What a command closes to its own user in one run it can open again in the next. What nobody could look at meanwhile
is protected whole, or told. A mode keeps only a plain user out, so ringfence itself is one here."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.attacks.everybody import NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace

pytestmark = [pytest.mark.needs_userns, pytest.mark.usefixtures("installed")]

AS_PLAIN = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []


def plain(workspace: Path, script: str, *before: str) -> str:
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    words = [*AS_PLAIN, *before, "sh", "-c", script]
    ran = subprocess.run(words, cwd=workspace, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return ran.stdout + ran.stderr


def inside(workspace: Path, script: str) -> str:
    return plain(workspace, script, *RUN, "--")


MADE = """
git init -q . && for m in a b; do
  mkdir -p .git/modules/$m/hooks .git/worktrees/$m
  echo ref: refs/heads/main > .git/modules/$m/HEAD; echo old > .git/modules/$m/config
  echo old > .git/worktrees/$m/commondir; echo old > .git/worktrees/$m/gitdir
done
"""
CLOSE = "chmod {} .git/modules/b; chmod {} .git/worktrees"
OPEN = """
chmod 755 .git/modules/b .git/worktrees
echo new > .git/modules/b/config; echo new > .git/modules/b/hooks/post-checkout; echo new > .git/worktrees/b/commondir
"""
LOOK = """
chmod 755 .git/modules/b .git/worktrees
cat .git/modules/b/config .git/worktrees/b/commondir; ls .git/modules/b/hooks
"""


@pytest.mark.parametrize("mode", ["000", "400", "100"])
def test_a_submodule_and_a_worktree_are_held_although_nobody_could_look(workspace: Path, mode: str) -> None:
    plain(workspace, MADE + CLOSE.format(mode, mode) + OPEN)
    assert plain(workspace, LOOK) == "new\nnew\npost-checkout\n"  # bare it succeeds

    plain(workspace, "rm -rf .git;" + MADE)
    inside(workspace, CLOSE.format(mode, mode))
    inside(workspace, OPEN)

    assert plain(workspace, LOOK) == "old\nold\n"


PLANT = "mkdir -p deep/sub && cd deep/sub && git init -q . && {}"
PLANTS = {
    "a configuration": ("git config core.fsmonitor evil", "deep/sub/.git"),
    "a hook": ("echo evil > .git/hooks/post-checkout", "deep/sub/.git"),
}


@pytest.mark.parametrize("closed", ["deep", "deep/sub/.git", "deep/sub/.git/hooks"])
@pytest.mark.parametrize("plant", PLANTS)
def test_a_repository_that_is_closed_is_told_of(workspace: Path, plant: str, closed: str) -> None:
    how, where = PLANTS[plant]

    said = inside(workspace, f"({PLANT.format(how)}); chmod 000 {closed}")
    said += inside(workspace, f"chmod 755 {closed}")

    assert any(f"{workspace}/{path} may have come" in said for path in (closed, where)), said
