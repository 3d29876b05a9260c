"""The enactor built with sanitizers does real plans from end to end, and finds nothing to complain of.

The sanitizers need no descriptor and no system call of their own until they report, so it does whole plans: views,
Landlock and the filter. What it would print stands on the command's stderr, and the comparison is of all of it.
"""

import sys

import pytest
from tests.enforce.conftest import STREAMS, WALLS, Ran, Site, Walls, bare, shell

from ringfence.enforce import wire
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


def test_the_build_would_stop_at_a_bad_read(sanitized: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sanitizer is really there: it answers to its own environment, which the product's program does not read."""
    ran = bare(sanitized, wire.encode([STREAMS, shell("exit 0")]), environ={"ASAN_OPTIONS": "help=1"})

    assert b"AddressSanitizer" in ran.out
