"""The disk changes between planning and enacting: nothing runs on something else than was planned for.

The races are made certain: the plan is made, the swap is done, the plan is launched.
"""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.enforce.conftest import STREAMS, WALLS, Site, Walls, launched, plan_of, shell, step

from ringfence import enforce
from ringfence.enforce.enactor import Opened
from ringfence.model import Exited, Plan, Refused, Step, StepKind

assert sys.platform == "linux"

VIEW, NO_VIEW = Walls(view=True), Walls(view=False)


def moved(path: Path) -> Path:
    """Out of the way, but alive: its number cannot be given to another."""
    away = path.with_name(path.name + ".away")
    path.rename(away)
    return away


def by_a_link(path: Path) -> None:
    path.symlink_to(moved(path))


def by_a_link_elsewhere(path: Path) -> None:
    moved(path)
    path.symlink_to("/etc")


def by_another(path: Path) -> None:
    moved(path)
    path.mkdir()


def by_a_file(path: Path) -> None:
    moved(path)
    path.write_text("")


def by_nothing(path: Path) -> None:
    moved(path)


def by_a_link_above(path: Path) -> None:
    by_a_link(path.parent)


SWAPS: dict[str, tuple[Callable[[Path], None], int]] = {
    "a link to it": (by_a_link, errno.ESTALE),
    "a link elsewhere": (by_a_link_elsewhere, errno.ESTALE),
    "a link above it": (by_a_link_above, errno.ESTALE),
    "another directory": (by_another, errno.ESTALE),
    "a file": (by_a_file, errno.ESTALE),
    "nothing": (by_nothing, errno.ENOENT),
}
EACH_SWAP = pytest.mark.parametrize(("swap", "error"), [pytest.param(*row, id=name) for name, row in SWAPS.items()])


def first(plan: Plan, kind: StepKind, path: Path) -> int:
    """The step that opens this path."""
    return next(n for n, s in enumerate(plan.steps) if s.kind is kind and s.strings[-1] == os.fsencode(path))


def refused(plan: Plan, number: int, error: int) -> Refused:
    what = plan.steps[number]
    stale = "something else stands there than when it was planned"
    text = f"{what.text}: {stale if error == errno.ESTALE else os.strerror(error)}"
    return Refused(number, what.kind.name.lower(), error, text)


@pytest.mark.needs_userns
@EACH_SWAP
def test_what_a_view_would_bind_was_replaced_by(swap: Callable[[Path], None], error: int, site: Site) -> None:
    hooks = site.path / ".git" / "hooks"
    plan = site.plan(VIEW)
    at = first(plan, StepKind.MOUNT, hooks.parent if swap is by_a_link_above else hooks)
    swap(hooks)

    assert launched(plan) == (refused(plan, at, error), b"")
    assert not site.made.exists()


@pytest.mark.needs_landlock(1)
@EACH_SWAP
def test_what_landlock_would_grant_was_replaced_by(swap: Callable[[Path], None], error: int, site: Site) -> None:
    deep = site.path / "sub" / "deep"
    deep.mkdir()
    identity = deep.stat()
    rule = Step(StepKind.BENEATH, "write deep", (4, identity.st_dev, identity.st_ino), (os.fsencode(deep),))
    steps = (step(StepKind.RULESET, 4, 0, 0), rule, step(StepKind.RESTRICT), STREAMS, shell(f"echo > {site.made}"))
    plan = plan_of(*steps)
    swap(deep)

    assert launched(plan) == (refused(plan, 1, error), b"")
    assert not site.made.exists()


@pytest.mark.needs_landlock(1)
def test_a_real_plan_without_a_view_is_refused_when_the_workspace_was_swapped(site: Site) -> None:
    plan = site.plan(NO_VIEW)
    at = first(plan, StepKind.BENEATH, site.path / "sub")
    by_another(site.path / "sub")

    assert launched(plan) == (refused(plan, at, errno.ESTALE), b"")
    assert not site.made.exists()


@EACH_SWAP
def test_the_directory_to_start_in_was_replaced_by(swap: Callable[[Path], None], error: int, site: Site) -> None:
    where = site.path / "sub" / "deep"
    where.mkdir()
    identity = where.stat()
    start = Step(StepKind.DIRECTORY, "start", (identity.st_dev, identity.st_ino), (os.fsencode(where),))
    plan = plan_of(STREAMS, start, shell("echo > made"))
    swap(where)

    # A file is no directory, whatever its number.
    assert launched(plan) == (refused(plan, 1, errno.ENOTDIR if swap is by_a_file else error), b"")
    assert not [*site.path.rglob("made")]


@pytest.mark.parametrize("walls", WALLS)
def test_the_same_plans_run_when_nothing_was_swapped(walls: Walls, site: Site) -> None:
    assert launched(site.plan(walls)) == (Exited(0), b"")
    assert site.made.exists()


SHOW = "cat hidden/* 2> /dev/null; ls hidden 2> /dev/null; echo ran > sub/made"


@pytest.mark.needs_userns
@pytest.mark.parametrize("swap", [by_a_link, by_a_link_elsewhere, by_a_file, by_nothing])
def test_a_place_to_be_hidden_that_is_no_directory_any_more_is_refused(
    swap: Callable[[Path], None], site: Site
) -> None:
    plan = site.plan(VIEW, SHOW)
    swap(site.path / "hidden")

    ending, out = launched(plan)

    assert (type(ending), out) == (Refused, b"")
    assert not site.made.exists()


@pytest.mark.needs_userns
def test_whatever_stands_at_a_hidden_path_is_hidden(site: Site) -> None:
    plan = site.plan(VIEW, SHOW)
    by_another(site.path / "hidden")
    (site.path / "hidden" / "new").write_text("secret\n")

    assert launched(plan) == (Exited(0), b"")


@pytest.mark.needs_userns
def test_a_hidden_file_that_became_a_link_is_refused(site: Site, native: Opened) -> None:
    """A file can be mounted on a link itself; then the link would be covered, and what it points at would show."""
    secret = site.path / "hidden" / "secret"
    mask = step(StepKind.MOUNT, 4, 0, 0, 0, 0, 0, strings=(secret,))
    plan = plan_of(
        step(StepKind.NAMESPACES, 0x10020000),
        step(StepKind.ID_MAP, os.geteuid(), os.geteuid(), os.getegid(), os.getegid()),
        step(StepKind.VIEW, 0 if enforce.probe().detached_mounts else 1),
        mask,
        step(StepKind.ATTACH),
        STREAMS,
        shell(f"cat {secret}.away"),
    )
    by_a_link(secret)

    assert launched(plan) == (refused(plan, 3, errno.ESTALE), b"")


@pytest.mark.needs_landlock(1)
def test_a_path_surveyed_keeps_its_number_to_itself_until_it_is_let_go(site: Site) -> None:
    """A file system gives the number of a removed directory to the next one within a moment."""
    place = site.path / "sub" / "place"
    for _ in range(20):
        place.mkdir()
        held: list[int] = []
        seen = enforce.survey([str(place)], held)[str(place)]
        place.rmdir()
        place.mkdir()
        rule = step(StepKind.BENEATH, 4, seen.device, seen.inode, strings=(place,))
        plan = plan_of(step(StepKind.RULESET, 4, 0, 0), rule, step(StepKind.RESTRICT), STREAMS, shell("true"))

        ending, _ = launched(plan)

        enforce.let_go(held)
        place.rmdir()
        assert ending == refused(plan, 1, errno.ESTALE)


@pytest.mark.parametrize("walls", WALLS)
def test_every_path_a_plan_was_made_from_is_held(walls: Walls, site: Site) -> None:
    plan = site.plan(walls)

    held = {(found.st_dev, found.st_ino) for found in map(os.fstat, site.held)}

    own = site.path.stat().st_dev, site.path.stat().st_ino
    assert own in held
    pairs = [s.numbers[-2:] for s in plan.steps if s.kind is StepKind.MOUNT]
    assert {pair for pair in pairs if pair != (0, 0)} <= held
