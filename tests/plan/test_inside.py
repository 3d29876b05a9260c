"""What a run that relies on the one around it says of closed places that this one leaves open."""

import pytest

from ringfence.model import BUILT_IN, Access, Disk, Kind, Need, Origin, Place, Rule, Verdict
from ringfence.plan.inside import outer_gaps
from ringfence.plan.regions import Region, State

HERE = Origin("--deny-read")


def closed(path: str, readable: bool = True) -> Region:
    place = Place(path, path, Kind.FILE, 1, 2, readable=readable)
    return Region(place, State.HIDDEN, Rule(Access.READ, Verdict.DENY, path, HERE))


@pytest.mark.parametrize("path", ["/proc/sys", "/dev/null"])
def test_what_is_the_outer_runs_own_is_held(path: str) -> None:
    assert [(gap.need, gap.origin) for gap in outer_gaps([closed(path)], Disk({}))] == [(Need.WANTED, BUILT_IN)]


def test_what_the_outer_run_does_not_show_is_held() -> None:
    assert [gap.need for gap in outer_gaps([closed("/data/secret", readable=False)], Disk({}))] == [Need.WANTED]


@pytest.mark.parametrize("path", ["/data/secret", "/processed", "/processed/secret", "/device"])
def test_what_the_outer_run_shows_is_required_also_where_its_name_begins_like_proc(path: str) -> None:
    assert [(gap.what, gap.need, gap.origin) for gap in outer_gaps([closed(path)], Disk({}))] == [
        (f"{path} hidden", Need.REQUIRED, HERE)
    ]
