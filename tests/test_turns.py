"""What is true of one command only, where one warden serves many: grants that are taken back, and what was refused."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.test_going_on import kept as kept
from tests.test_going_on import run
from tests.test_going_on import workspace as workspace

import ringfence
from ringfence import approvals
from ringfence.airlock import Store
from ringfence.audit.index import find
from ringfence.audit.wanted import Wanted
from ringfence.model import Explain, Observe
from ringfence.model.event import Denied, Ran
from ringfence.model.grant import Answer, Operation
from ringfence.policy.trust import approvals_of

Take = Callable[[Path, Path], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    (place / "data").mkdir(parents=True)
    (place / "data/f").write_text("data")
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    return place


def revoke(home: Path, workspace: Path) -> None:
    store = Store(approvals_of(os.environ))
    store.remove([grant.id for grant in store.grants()])


def replace(home: Path, workspace: Path) -> None:
    """What was granted is what stood there."""
    (home / "data").rename(home / "old")
    (home / "data").symlink_to("old")


@pytest.mark.parametrize("take", [revoke, replace])
def test_a_grant_that_is_taken_back_between_two_turns_is_gone_in_the_next(
    workspace: Path, kept: list[int], home: Path, take: Take
) -> None:
    script = f"cat {home}/data/f"
    assert run(workspace, script).stdout == b""
    grant = approvals.make(
        Operation.READ, str(home / "data"), Answer.PROJECT, str(workspace), environ=os.environ, reason=""
    )
    Store(approvals_of(os.environ)).add([grant])
    assert [run(workspace, script).stdout for _ in range(8)] == [b"data"] * 8
    assert kept

    take(home, workspace)

    assert [run(workspace, script).stdout for _ in range(8)] == [b""] * 8


@pytest.mark.parametrize("explain", [Explain.FAILURE, Explain.OUTPUT])
@pytest.mark.parametrize("observe", [Observe.NOTHING, Observe.REFUSALS, Observe.FAILURES])
def test_what_one_command_was_refused_is_told_of_no_other(
    workspace: Path, home: Path, explain: Explain, observe: Observe
) -> None:
    names = [f"secret-{number}" for number in range(10)]
    for name in names:
        (home / name).write_text(name)

    told = []
    for name in names:
        outcome = run(workspace, f"cat {home}/{name}", explain=explain, observe=observe)
        told.append({Path(denial.target).name for denial in outcome.denials if denial.target.startswith(str(home))})
        assert run(workspace, "true", explain=explain, observe=observe).denials == ()

    assert told == [{name} for name in names]
    log = str(home / ".local/state/ringfence/audit")
    events = [event for event, _ in find(log, Wanted())]
    words = {event.run: event.argv[-1] for event in events if isinstance(event, Ran)}
    refused = [event for event in events if isinstance(event, Denied)]
    for event, name in itertools.product(refused, names):
        assert (name == Path(event.denial.target).name) <= words[event.run].endswith(f"/{name}"), event
    assert len(refused) >= len(names)


def test_what_was_refused_at_last_is_not_told_of_the_next_that_stands_by(workspace: Path, home: Path) -> None:
    """A child that outlives its parent a little is refused when the end is near: before the end is told, or never."""
    script = f"(sleep 0.01; cat {home}/data/f) & true"
    for _ in range(10):
        first = run(workspace, script, observe=Observe.FAILURES)
        second = run(workspace, "true", observe=Observe.FAILURES)

        assert (first.ending, second.denials) == (ringfence.Exited(0), ())
