"""The warden with sanitizers, asked for everything with any arguments by many at once (tests/fuzz/ask.c).

`make fuzz` makes a hundred thousand calls instead of some thousand.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
from tests.enforce.conftest import ROOT, WARNINGS, Build, Site, Walls, bare, rule

from ringfence.enforce import pauses, wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Policy, Step, StepKind, Verdict

assert sys.platform == "linux"

CALLS = 4000  # of each example
EXAMPLES = 25 if (hypothesis.settings.default or hypothesis.settings()).max_examples > 1000 else 1
ASK = ROOT / "tests" / "fuzz" / "ask.c"
DENIED = ("a/b/c", "sub/x", ".git/new")


class Watched(Site):
    """A site with names that must not appear: below nothing, below a directory, and in the repository; and with a
    pattern for what may come later, and a link that stays."""

    def __init__(self, path: Path, is_judged: bool) -> None:
        super().__init__(path)
        self.late = (path / "late.never", path / "sub" / "late.never") if is_judged else ()
        self.kept = path / "sub" / "a"  # a name that is asked about often
        if is_judged:
            self.kept.symlink_to("nowhere")

    def policy(self) -> Policy:
        found = super().policy()
        denied = tuple(rule("write", Verdict.DENY, self.path / name) for name in DENIED)
        if self.late:
            pattern = rule("read", Verdict.DENY, self.path / "**/*.never")
            denied = (*denied, msgspec.structs.replace(pattern, glob=True), rule("write", Verdict.DENY, self.kept))
        return msgspec.structs.replace(found, rules=found.rules + denied)

    def come(self) -> None:
        """What somebody makes outside, during the run."""
        for path in self.late:
            path.write_text("late")

    def seen(self) -> list[tuple[str, int, int, float, list[str]]]:
        facts = [(path.read_text(), path.stat(), os.listxattr(path)) for path in self.late]
        return [(text, stat.st_mode, stat.st_nlink, stat.st_mtime, names) for text, stat, names in facts]


@pytest.mark.needs_userns
@pytest.mark.parametrize("judged", ["", "judged", "asked"])
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
        plan = site.plan(Walls(view=True), f"./ask {seed} {CALLS // 4} {'judged' * bool(judged)}")
        steps = asking(plan.steps) if judged == "asked" else plan.steps
        site.come()  # too late for a mount
        known = site.seen()

        answers = Answers(seed, path)
        ran = bare(sanitized, wire.encode(steps), handed=answers.begin if judged == "asked" else None)
        answers.end()

        assert ran.records[-1] == (wire.ENDED, 0, 1, 0), ran  # the warden has lived to tell of it
        assert int(ran.out) > 0
        assert answers.count > 0 or judged != "asked"
        assert [name for name in DENIED if os.path.lexists(path / name)] == []
        assert outside(path) == before
        assert site.seen() == known
        assert judged != "judged" or os.readlink(site.kept) == "nowhere"
        never = [name for _, _, names in os.walk(path) for name in names if name.endswith(".never")]
        assert never == [one.name for one in site.late] or not judged
    finally:
        site.close()
        subprocess.run(["chmod", "-R", "u+rwX", path.parent], check=True)
        shutil.rmtree(path.parent)


def asking(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan with a socket for questions."""
    at = next(number for number, step in enumerate(steps) if step.kind is StepKind.COMMAND)
    return (*steps[:at], Step(StepKind.PAUSE, "pause"), *steps[at:])


class Answers:
    """Somebody who answers everything, now rightly and now wrongly, twice, late, or to nobody."""

    def __init__(self, seed: int, path: Path) -> None:
        self._rng, self._path, self.count = random.Random(seed), path, 0
        self._thread: threading.Thread | None = None

    def begin(self, tag: int, fd: int) -> None:
        if tag != wire.PAUSED:
            os.close(fd)
            return
        self._thread = threading.Thread(target=self._answer, args=(fd,))
        self._thread.start()

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()

    def _answer(self, fd: int) -> None:
        with socket.socket(fileno=fd) as end, tempfile.TemporaryFile() as file:  # whose mode will be changed
            while True:
                try:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    inquiry = pauses.decode(data)
                    self.count += 1
                    for number in (self._rng.getrandbits(64), inquiry.id, inquiry.id):
                        self._say(end, number, file.fileno(), inquiry.path.endswith(b".never"))
                except OSError:
                    return

    def _say(self, end: socket.socket, number: int, fd: int, is_never: bool) -> None:
        rng = self._rng
        inside = [b"sub", b"sub/../.git/config", b".git/hooks", b"", b"/" * 100]
        paths = [b"/etc/passwd", b"/proc/1/environ", b"x" * 4000, b"/dev/tty", b"\0/etc"]
        paths += [bytes(self._path) + b"/" + name for name in inside]
        what, error = 0 if is_never else rng.choice((0, 0, 1, 2, 3)), rng.choice((1, 13, 4095, 1 << 20, -5))
        fds = [fd] * rng.randrange(3)
        socket.send_fds(end, [pauses.VERDICT.pack(number, error, what) + rng.choice(paths)], fds)


def outside(path: Path) -> list[object]:
    """What must stay as it is."""
    return [os.listdir(path.parent), os.listdir(path / ".git" / "hooks"), (path / ".git" / "config").read_text()]
