"""The warden with sanitizers, asked for everything with any arguments by many at once (tests/fuzz/ask.c).

`make fuzz` makes a hundred thousand calls instead of some thousand.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
from tests.enforce.conftest import ROOT, WARNINGS, Build, Site, Walls, bare, rule

from ringfence.enforce import wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Policy, Verdict

assert sys.platform == "linux"

CALLS = 4000  # of each example
EXAMPLES = 25 if (hypothesis.settings.default or hypothesis.settings()).max_examples > 1000 else 1
ASK = ROOT / "tests" / "fuzz" / "ask.c"
DENIED = ("a/b/c", "sub/x", ".git/new")


class Watched(Site):
    """A site with names that must not appear: below nothing, below a directory, and in the repository; and with a
    pattern for what may come later."""

    def __init__(self, path: Path, is_judged: bool) -> None:
        super().__init__(path)
        self.late = (path / "late.never", path / "sub" / "late.never") if is_judged else ()

    def policy(self) -> Policy:
        found = super().policy()
        denied = tuple(rule("write", Verdict.DENY, self.path / name) for name in DENIED)
        if self.late:
            pattern = rule("read", Verdict.DENY, self.path / "**/*.never")
            denied = (*denied, msgspec.structs.replace(pattern, glob=True))
        return msgspec.structs.replace(found, rules=found.rules + denied)

    def come(self) -> None:
        """What somebody makes outside, during the run."""
        for path in self.late:
            path.write_text("late")

    def seen(self) -> list[tuple[str, int, int, float, list[str]]]:
        facts = [(path.read_text(), path.stat(), os.listxattr(path)) for path in self.late]
        return [(text, stat.st_mode, stat.st_nlink, stat.st_mtime, names) for text, stat, names in facts]


@pytest.mark.needs_userns
@pytest.mark.parametrize("judged", ["", "judged"])
@hypothesis.settings(max_examples=EXAMPLES, deadline=None, phases=[hypothesis.Phase.generate])
@hypothesis.given(seed=st.integers(1, 1 << 30))
def test_nothing_that_is_asked_breaks_the_warden(
    judged: str, seed: int, sanitized: Opened, build: Build, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "site"
    site = Watched(path, bool(judged))
    try:
        shutil.copy(build("ask", ASK, (*WARNINGS, "-pthread")), path / "ask")
        before = outside(path)
        plan = site.plan(Walls(view=True), f"./ask {seed} {CALLS // 4} {judged}")
        site.come()  # too late for a mount
        known = site.seen()

        ran = bare(sanitized, wire.encode(plan.steps))

        assert ran.records[-1] == (wire.ENDED, 0, 1, 0), ran  # the warden has lived to tell of it
        assert int(ran.out) > 0
        assert [name for name in DENIED if os.path.lexists(path / name)] == []
        assert outside(path) == before
        assert site.seen() == known
        never = [name for _, _, names in os.walk(path) for name in names if name.endswith(".never")]
        assert never == [one.name for one in site.late] or not judged
    finally:
        site.close()
        subprocess.run(["chmod", "-R", "u+rwX", path.parent], check=True)
        shutil.rmtree(path.parent)


def outside(path: Path) -> list[object]:
    """What must stay as it is."""
    return [os.listdir(path.parent), os.listdir(path / ".git" / "hooks"), (path / ".git" / "config").read_text()]
