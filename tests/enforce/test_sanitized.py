"""The enactor built with sanitizers does real plans from end to end, and finds nothing to complain of.

The sanitizers need no descriptor and no system call of their own until they report, so it does whole plans: views,
Landlock and the filter. What it would print stands on the command's stderr, and the comparison is of all of it.
"""

import os
import sys
from pathlib import Path

import msgspec
import pytest
from tests.enforce.conftest import STREAMS, WALLS, Ran, Site, Walls, bare, shell

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor, standby, wire
from ringfence.enforce.enactor import Opened
from ringfence.model import StepKind

assert sys.platform == "linux"

TRY = "exec 2> /dev/null; echo ran > sub/made; cat hidden/secret || echo hidden; echo x > .git/hooks/x || echo held"


@pytest.mark.parametrize("walls", WALLS)
def test_a_real_plan_runs_clean_under_sanitizers(site: Site, walls: Walls, sanitized: Opened) -> None:
    plan = site.plan(walls, TRY)

    ran = bare(sanitized, wire.encode(plan.steps))

    ready, ended = (wire.READY, len(plan.steps) - 1, StepKind.EXEC, 0), (wire.ENDED, 0, 1, 0)
    told = tuple(record for record in ran.records if record[0] != wire.OBSERVED)  # the socket of one that judges
    assert ran._replace(records=told) == Ran(0, (ready, ended), b"hidden\nheld\n")
    assert site.made.read_text() == "ran\n"


def test_a_warden_that_goes_on_runs_clean_under_sanitizers(
    tmp_path: Path, settled: None, sanitized: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There its memory is not the next command's too; tests/test_going_on.py has the product's own program."""
    back: list[bool] = []
    real = standby.Nursery.take_back

    def noted(self: standby.Nursery, *given: object) -> bool:
        back.append(real(self, *given))  # type: ignore[arg-type]
        return back[-1]

    monkeypatch.setattr(standby.Nursery, "take_back", noted)
    monkeypatch.setitem(enactor._hosts, os.geteuid(), msgspec.structs.replace(enforce.probe(), namespaces=False))
    monkeypatch.setattr(enactor, "open_enactor", lambda: sanitized)
    keep.forget_all()
    for number in range(8):
        script = f"echo $#; exit {number}" if number < 7 else "echo x > made; cat made"
        words, flags = ["sh", "-c", script, *("word" * number)], ringfence.Flags(cwd=str(tmp_path))
        flags = msgspec.structs.replace(flags, enforcement=ringfence.Enforcement.BEST_EFFORT)
        ran = ringfence.run(words, workspace=str(tmp_path), flags=flags, capture=True, as_root=os.geteuid() == 0)

        said = str(max(4 * number - 1, 0)) if number < 7 else "x"
        assert (ran.exit_code, ran.stdout, ran.stderr) == (number % 7, f"{said}\n".encode(), b"")
    keep.forget_all()

    assert any(back)


@pytest.mark.needs_userns
@pytest.mark.parametrize("count", [20, 600])  # from 512 names on a private directory is made anew for each
def test_copies_of_a_view_run_clean_under_sanitizers(
    tmp_path: Path, settled: None, sanitized: Opened, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    names = [tmp_path / str(number) for number in range(count)]
    for name in names:
        name.write_text("secret")
    monkeypatch.setattr(enactor, "open_enactor", lambda: sanitized)
    keep.forget_all()
    flags = ringfence.Flags(deny_read=tuple(map(str, names)), enforcement=ringfence.Enforcement.BEST_EFFORT)
    for number in range(6):
        script = f"ls /tmp | grep left; echo > /tmp/left; cat {names[-1]} 2>&- || echo hidden {number}"
        words = ["sh", "-c", script]
        ran = ringfence.run(words, workspace=str(tmp_path), flags=flags, capture=True, as_root=os.geteuid() == 0)

        assert (ran.exit_code, ran.stdout, ran.stderr) == (0, f"hidden {number}\n".encode(), b"")
    keep.forget_all()


def test_the_build_would_stop_at_a_bad_read(sanitized: Opened) -> None:
    """The sanitizer is really there: it answers to its own environment, which the product's program does not read."""
    ran = bare(sanitized, wire.encode([STREAMS, shell("exit 0")]), environ={"ASAN_OPTIONS": "help=1"})

    assert b"AddressSanitizer" in ran.out
