"""So many hidden files that two processes mask them: in directories that are mounts of their own, and in another."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import ringfence
from ringfence import enforce, keep
from ringfence.model import Ending, StepKind
from ringfence.plan import view
from ringfence.run import make_request, plan_for

AS_ROOT = os.geteuid() == 0
pytestmark = pytest.mark.needs_userns
SECRET = "the secret"


class Place:
    """Files in a workspace, some of them in directories, and more in what may be read alone."""

    def __init__(self, path: Path) -> None:
        self.workspace, self.other = path / "ws", path / "other"
        self.deep = self.other / "deep"
        files = [self.workspace / "a" / str(number) for number in range(700)]
        files += [self.workspace / "b" / f"file-{number}" for number in range(30)]
        files += [self.deep / f"{number}-{'x' * (number % 90)}" for number in range(600)]
        self.directories = [self.workspace / "b" / f"directory-{number}" for number in range(30)]
        for directory in (self.workspace / "a", self.deep, *self.directories):
            directory.mkdir(parents=True)
        for file in (*files, *(directory / "in it" for directory in self.directories)):
            file.write_text(SECRET)
        self.files = files
        (self.workspace / "seen").write_text("seen\n")
        for directory in (self.workspace / "a", self.deep):
            (directory / "link").symlink_to(self.workspace / "seen")
        self.flags = ringfence.Flags(
            deny_read=(*map(str, files), *map(str, self.directories)),
            allow_read=(str(self.other),),
            enforcement=ringfence.Enforcement.BEST_EFFORT,
        )

    def plan(self, script: str) -> ringfence.Plan:
        request = make_request(str(self.workspace), str(self.workspace), self.flags, as_root=AS_ROOT)
        return plan_for(request, ["sh", "-c", script], {"PATH": "/usr/bin:/bin"})


@pytest.fixture
def place(tmp_path: Path, settled: None, unhurried: None) -> Iterator[Place]:
    keep.forget_all()
    yield Place(tmp_path)
    keep.forget_all()


def launched(plan: ringfence.Plan) -> tuple[Ending, list[bytes]]:
    with enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True) as found:
        ending, out, _ = found.wait()
    return ending, (out or b"").splitlines()


def test_each_is_hidden_and_links_beside_them_lead_where_they_led(place: Place) -> None:
    deep = place.deep
    look = f"cat a/[0-9]* b/file-* b/*/* {deep}/[0-9]* 2>/dev/null | wc -c; cat a/link {deep}/link"

    plan = place.plan(f"{look}; grep -c ' /[df] {place.workspace.parent}/' /proc/self/mountinfo")
    ending, lines = launched(plan)

    each = [step for step in plan.steps if step.kind is StepKind.MOUNT and step.numbers[0] == view.MASK_EACH]
    assert len(each) == 4, "two kinds in one directory, one in each of the others"
    assert ending == ringfence.Exited(0)
    assert lines == [b"0", b"seen", b"seen", b"%d" % (len(place.files) + len(place.directories))]


@pytest.mark.parametrize("number", [3, 699, 731, 1329])
def test_one_that_became_a_link_is_not_followed(number: int, place: Place) -> None:
    plan = place.plan("cat seen")
    place.files[number].unlink()
    place.files[number].symlink_to(place.workspace / "seen")

    ending, lines = launched(plan)

    assert isinstance(ending, ringfence.Refused)
    assert ending.errno == errno.ESTALE
    assert not lines


def test_one_that_is_gone_is_told(place: Place) -> None:
    plan = place.plan("cat seen")
    place.files[400].unlink()

    ending, _ = launched(plan)

    assert isinstance(ending, ringfence.Refused)
    assert ending.errno == errno.ENOENT
