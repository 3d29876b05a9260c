"""The corpus against the truth: each command runs for real in a throw-away view under strace.

What is allowed writes nothing outside the worktree, and everything it writes was found beforehand. What is denied
because of a path does go there. What is asked about does go outside, but for the lines of `cautious`: what they do
depends on the machine, nothing is claimed of them, and they are not run. Tools that run the project's code keep caches
of their own in HOME and /tmp, which the sandbox gives them or does not; that alone is not held against them.
"""

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.guard.truth import Truth, observe
from tests.guard.worktree import KINDS, make_template, worlds

from ringfence.guard import Judgement, ToolCall, judge
from ringfence.judging import bounds_of
from ringfence.model import Verdict

pytestmark = [pytest.mark.slow, pytest.mark.needs_bwrap, pytest.mark.needs_strace, pytest.mark.timeout(900)]
NOWHERE = "goes nowhere"


class Place:
    """Worktrees as new, one for each command. One in which a command changed nothing is as new."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.template = base / "template"
        self.unused = list[Path]()
        self.numbers = itertools.count()
        make_template(self.template)

    def worktree(self) -> Path:
        try:
            return self.unused.pop()
        except IndexError:
            place = self.base / str(next(self.numbers))
            shutil.copytree(self.template, place / "w", symlinks=True)
            (place / "home").mkdir()
            return place

    def seen(self, command: str, first: str = "", seconds: int = 5) -> "Seen":
        """The judgement, made beforehand, and the truth."""
        place = self.worktree()
        root, home = place / "w", place / "home"
        before = marks(place)
        made = judge(ToolCall("bash", {"command": command}), bounds_of(str(root), home=str(home)))
        found = observe(command, root, home, first, seconds)
        if marks(place) != before:
            shutil.rmtree(place, ignore_errors=True)
        else:
            self.unused.append(place)
        return Seen(command, made, found, str(place))


def marks(place: Path) -> dict[str, tuple[int, int]]:
    """What stands below a place, with the time of its last change, which nobody can set."""
    found = dict[str, tuple[int, int]]()
    for above, directories, names in os.walk(place):
        for path in (os.path.join(above, name) for name in (*directories, *names)):
            status = os.lstat(path)
            found[path] = status.st_ino, status.st_ctime_ns
    return found


class Seen(NamedTuple):
    """One command: what was said of it, and what it did."""

    command: str
    made: Judgement
    found: Truth
    around: str

    def outside(self, paths: Iterable[str]) -> list[str]:
        return sorted(path for path in paths if not below(path, f"{self.around}/w"))

    @property
    def gone(self) -> list[str]:
        """Wherever it went outside: by writing, by changing its directory, by a link."""
        return self.outside(self.found.writes | self.found.enters | self.found.links)


def below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def near(path: str, claim: str) -> bool:
    """Whether a claim is about a path: it, one around it, below it, or beside it, where temporary files are."""
    return below(path, claim) or below(claim, path) or os.path.dirname(claim) == os.path.dirname(path)


def is_tool(made: Judgement) -> bool:
    return any("what the project tells it to" in reason for reason in made.reasons)


def claims(made: Judgement, verdict: Verdict) -> list[str]:
    """The paths of which the judge says that they are written, and what becomes of it."""
    return [one.path for one in made.findings if one.access == "write" and one.verdict is verdict]


def allowed(seen: Seen) -> list[str]:
    """What an allowed command did although nobody said so."""
    writes, claimed = seen.found.writes, claims(seen.made, Verdict.ALLOW)
    if is_tool(seen.made):  # its caches in HOME and /tmp are not counted
        writes = frozenset(
            path for path in writes if not below(path, f"{seen.around}/home") and not below(path, "/tmp")
        )
        return [f"writes {path}" for path in seen.outside(writes)]
    missed = [path for path in sorted(writes) if not any(near(path, claim) for claim in claimed)]
    return [
        *(f"writes {path}" for path in seen.outside(writes)),
        *(f"enters {path}" for path in seen.outside(seen.found.enters)),
        *(f"writes {path}, which nobody found" for path in missed),
    ]


def denied(seen: Seen) -> list[str]:
    """What a denied command did not do although the judge said so."""
    if seen.found.code == 127:
        return []  # a program that is not installed proves nothing
    if not seen.gone:
        return [NOWHERE]
    wrong = [path for path in claims(seen.made, Verdict.DENY) if not path.startswith("/proc/")]  # links of its own
    if wrong and not any(near(path, claim) for path in seen.gone for claim in wrong):
        return [f"goes to {seen.gone}, and was to go to {wrong}"]
    return []


def kept(seen: Seen) -> list[str]:
    """What a command did outside of which it was said that here it does nothing there."""
    return [f"goes to {path}" for path in seen.gone]


def asked(seen: Seen) -> list[str]:
    """A question that was not needed."""
    return [] if seen.gone or seen.found.code == 127 else [NOWHERE]


def checked(kind: str, base: Path, faults: Callable[[Seen], list[str]]) -> list[str]:
    place = Place(base)

    def check(line: tuple[str, str]) -> list[str]:
        first, command = line
        seen = place.seen(command, first)
        if NOWHERE in faults(seen):  # it may not have come to it, on a busy machine
            seen = place.seen(command, first, 60)
        wrong = [] if seen.made.verdict.word == KINDS[kind] else [f"is {seen.made.verdict.word}"]
        return [f"{command!r} ({seen.made.verdict.word}) {fault}" for fault in (*wrong, *faults(seen))]

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = pool.map(check, once_each_tool(worlds(kind)))
        return [fault for faulty in found for fault in faulty]


def once_each_tool(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """One command of npm and its kin is as good as ten, and takes a second or more."""
    once = []
    for words in (("npm", "npx"), ("mvn", "gradle"), ("pip",)):
        once += [line for line in lines if any(re.search(rf"\b{word}\b", line[1]) for word in words)][1:]
    return [line for line in lines if line not in once]


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("ordinary", allowed),
        ("outside", denied),
        ("refused", kept),
        ("unknown", asked),
    ],  # of `cautious` nothing is claimed
)
def test_the_corpus_does_what_the_judge_says(kind: str, faults: Callable[[Seen], list[str]], tmp_path: Path) -> None:
    assert checked(kind, tmp_path, faults) == []


def test_the_truth_sees_a_write_that_the_judge_does_not(tmp_path: Path) -> None:
    seen = Place(tmp_path).seen('python3 -c \'open("../x", "w")\'')

    assert (seen.made.verdict, seen.found.writes) == (Verdict.ASK, frozenset((f"{seen.around}/x",)))
