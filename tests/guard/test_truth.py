"""The corpus against the truth: each command runs for real in a throw-away view under strace.

What is allowed writes nothing outside the worktree, and everything it writes was found beforehand. What is denied
because of a path does go there. Tools that run the project's code keep caches of their own in HOME and /tmp, which the
sandbox gives them or does not; that alone is not held against them.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.guard.truth import Truth, observe
from tests.guard.worktree import corpus, make_template

from ringfence.guard import Judgement, ToolCall, judge
from ringfence.judging import bounds_of
from ringfence.model import Verdict

pytestmark = [pytest.mark.slow, pytest.mark.needs_bwrap, pytest.mark.needs_strace, pytest.mark.timeout(300)]


class Place:
    """Fresh worktrees, one for each command."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.template = base / "template"
        make_template(self.template)

    def seen(self, command: str, number: int) -> tuple[Judgement, Truth, str]:
        """The judgement, made beforehand, and the truth."""
        place = self.base / str(number)
        root, home = place / "w", place / "home"
        shutil.copytree(self.template, root, symlinks=True)
        home.mkdir()
        made = judge(ToolCall("bash", {"command": command}), bounds_of(str(root), home=str(home)))
        found = observe(command, root, home)
        shutil.rmtree(place, ignore_errors=True)
        return made, found, str(place)


def below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def is_tool(made: Judgement) -> bool:
    return any("what the project tells it to" in reason for reason in made.reasons)


def is_claimed(path: str, made: Judgement) -> bool:
    """Whether a write was found beforehand: the path, one around it, or one beside it, where temporary files go."""
    claims = [finding.path for finding in made.findings if finding.access == "write"]
    beside = os.path.dirname(path)
    return any(below(path, claim) or below(claim, path) or os.path.dirname(claim) == beside for claim in claims)


def faults(command: str, number: int, place: Place) -> list[str]:
    made, found, around = place.seen(command, number)
    root = f"{around}/w"
    outside = sorted(path for path in found.writes if not below(path, root))
    left = sorted(path for path in found.enters if not below(path, root))
    linked = [path for path in found.links if not below(path, root)]
    if made.verdict is Verdict.ALLOW:
        if is_tool(made):
            outside = [path for path in outside if not below(path, f"{around}/home") and not below(path, "/tmp")]
            return [f"{command!r} is allowed and writes {path}" for path in outside]
        missed = sorted(path for path in found.writes if not is_claimed(path, made))
        return [
            *(f"{command!r} is allowed and writes {path}" for path in outside),
            *(f"{command!r} is allowed and enters {path}" for path in left),
            *(f"{command!r} writes {path}, which nobody found" for path in missed),
        ]
    if made.verdict is Verdict.DENY and not (outside or left or linked) and found.code != 127:
        return [f"{command!r} is denied and goes nowhere: {made.reasons}"]
    return []


def checked(commands: list[str], base: Path) -> list[str]:
    place = Place(base)
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = pool.map(lambda numbered: faults(numbered[1], numbered[0], place), enumerate(commands))
        return [fault for faulty in found for fault in faulty]


def once_each_tool(commands: list[str]) -> list[str]:
    """One command of npm and its kin is as good as ten, and takes a second."""
    slow = [command for command in commands if "npm" in command or "npx" in command]
    return [command for command in commands if command not in slow[1:]]


def test_what_is_allowed_writes_what_was_found_and_nothing_outside(tmp_path: Path) -> None:
    assert checked(once_each_tool(corpus("ordinary")), tmp_path) == []


def test_what_is_denied_does_go_outside(tmp_path: Path) -> None:
    assert checked(once_each_tool(corpus("outside")), tmp_path) == []


def test_the_truth_sees_a_write_that_the_judge_does_not(tmp_path: Path) -> None:
    place = Place(tmp_path)

    made, found, around = place.seen('python3 -c \'open("../x", "w")\'', 0)

    assert (made.verdict, found.writes) == (Verdict.ASK, frozenset((f"{around}/x",)))
