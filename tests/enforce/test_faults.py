"""Every step of a real plan is failed in turn: the outcome names it, and the command has not started.

The program is the enactor built with -DFAULT and otherwise with the product's own flags; it answers EIO for the step
whose number it is given. The plans are what make_plan gives here, with a view and without.
"""

import errno
import os
import sys

import pytest
from tests.enforce.conftest import WALLS, Ran, Site, Walls, bare, launched

from ringfence.enforce import enactor
from ringfence.enforce.enactor import Opened
from ringfence.enforce.process import sealed
from ringfence.model import Enactor, Exited, Plan, Refused, StepKind

assert sys.platform == "linux"

NO_FAULT = 1 << 20
FIRST = 3  # the word for the first step; it is written as a descriptor is


class Faulty(Opened):
    """The fault build, told which step to fail."""

    def __init__(self, built: Opened, number: int) -> None:
        super().__init__(Enactor.NATIVE, built.fd, built.path)
        self.number = number

    def command(self, *numbers: int, ids: tuple[int, int] | None = None) -> tuple[list[str], str]:
        arguments, executable = super().command(*numbers, ids=ids)
        return [*arguments, str(self.number + FIRST)], executable


def refusal(plan: Plan, number: int) -> Refused:
    step = plan.steps[number]
    name = step.kind.name.lower().replace("_", "-")
    what, code = ("sh", 126) if step.kind is StepKind.EXEC else (step.text, 125)
    return Refused(number, name, errno.EIO, f"{what}: {os.strerror(errno.EIO)}", code)


@pytest.mark.parametrize("walls", WALLS)
def test_a_failure_at_any_step_is_refused_there_and_nothing_has_run(
    site: Site, walls: Walls, faulty: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = site.plan(walls)
    endings = []
    for number in range(len(plan.steps)):
        monkeypatch.setattr(enactor, "open_enactor", lambda number=number: Faulty(faulty, number))
        endings.append((launched(plan)[0], site.made.exists()))

    assert endings == [(refusal(plan, number), False) for number in range(len(plan.steps))]


@pytest.mark.parametrize("walls", WALLS)
def test_the_same_plan_runs_when_no_step_fails(
    site: Site, walls: Walls, faulty: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = site.plan(walls)
    monkeypatch.setattr(enactor, "open_enactor", lambda: Faulty(faulty, NO_FAULT))

    assert launched(plan) == (Exited(0), b"")
    assert site.made.read_text() == "ran\n"


def test_the_product_cannot_be_told_to_fail_a_step(native: Opened) -> None:
    plan = sealed(b"plan")
    read, write = os.pipe()
    try:
        ran = bare(native, b"", words=(plan, write, 1, 1, FIRST), passed={plan: plan, write: write})
    finally:
        for fd in (plan, read, write):
            os.close(fd)

    assert ran == Ran(125, (), b"")
