"""Inside another run: what the outer one holds already, and what nobody would hold.

Pure. The outer run's warden makes names for everything in it, outside any Landlock domain that a run further inside
could make; so it lets none be made, and the inner run relies on the outer. It may, where the outer view already closes
all that the inner policy closes: a hidden place cannot be looked into, what may not be written is mounted read-only.
"""

from ..model import BUILT_IN, Disk, Gap, Kind, Need, Place
from .regions import Region, State, is_below
from .view import is_device


def listed(found: list[Region]) -> list[str]:
    """The closed directories that can be looked into: what they show is for the disk to say."""
    return [region.path for region in found if _is_shown(region) and region.place.kind is Kind.DIRECTORY]


def outer_gaps(found: list[Region], disk: Disk) -> list[Gap]:
    """What the outer run does not hold, and so nobody; or that it holds everything."""
    loose = [region for region in found if not _is_held(region, found, disk)]
    if not loose:
        why = "this run is inside another one, which closes all that this policy closes"
        return [Gap("walls of its own around files and signals", why, Need.WANTED, BUILT_IN)]
    return [
        Gap(
            f"{region.path} {region.state.value}",
            "this run is inside another one, which leaves more open and lets no Landlock be made",
            Need.REQUIRED,
            region.rule.origin,
            "say allowNestedSandbox in the outer run's policy",
        )
        for region in loose
    ]


def _is_shown(region: Region) -> bool:
    return region.state is State.HIDDEN and region.place.kind is not Kind.MISSING and region.place.readable


def _is_held(region: Region, found: list[Region], disk: Disk) -> bool:
    place = region.place
    if place.kind is Kind.MISSING or is_device(place.path) or place.path == "/proc" or is_below(place.path, "/proc"):
        return True  # not there, or the outer run's own
    if region.state is State.READ:
        return not place.writable
    if not _is_shown(region):
        return True
    is_whole = place.kind is Kind.DIRECTORY and place.path not in disk.cut
    return is_whole and all(_leads_on(child, found) for child in disk.children[place.path])


def _leads_on(child: Place, found: list[Region]) -> bool:
    """Whether what a closed directory shows is there for something open inside it: the outer view made it for that."""
    return any(
        region.state is not State.HIDDEN and (region.path == child.path or is_below(region.path, child.path))
        for region in found
        if region.place.kind is not Kind.MISSING
    )
