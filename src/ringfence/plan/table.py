"""The warden's table: names that must not appear in a writable tree, and the directories on the way to them.

Pure. A mount holds what exists; a name that does not exist yet is held by the warden, who makes the command's new names
for it (enforce/broker.h). What exists on the way must stay where it is, or the name would appear under another; what
does not exist yet is watched, so that the names inside it are known when it comes.
"""

from ..model import Disk, Kind, Step, StepKind
from .regions import Region, State, between
from .view import is_creatable

DENY, WATCH, PIN = 1, 2, 3  # format.h

Changed = list[tuple[Region, Region | None]]


def ways(changed: Changed) -> list[str]:
    """The directories on the way to names that do not exist yet: which of them are there is for the disk to say."""
    return [
        path
        for region, above in changed
        if above is not None and is_creatable(region, above)
        for path in between(region.path, above.path)
    ]


def rows(changed: Changed, disk: Disk) -> tuple[list[Step], tuple[str, ...]]:
    """The table, first the directories that exist, then the names in them; and the path that each row is about."""
    parents: dict[str, Step] = {}
    names: dict[str, tuple[str, int, str]] = {}  # by path: the directory it is in, what is said of it, and why
    for region, above in changed:
        if above is None or not is_creatable(region, above):
            continue
        here = above.path
        if above.state is not State.PRIVATE and here not in parents:
            parents[here] = _parent(here, above.place.device, above.place.inode)
        for path in between(region.path, above.path):
            if path not in names:
                place = disk[path]
                exists = place.kind is Kind.DIRECTORY
                if exists:
                    parents[path] = _parent(path, place.device, place.inode)
                why = "stays where it is" if exists else "is watched when it comes"
                names[path] = (here, PIN if exists else WATCH, f"{path} {why}: {region.path} must not appear")
            here = path
        names[region.path] = (here, DENY, f"{region.path} must not appear ({region.rule.origin})")
    numbers = {path: number for number, path in enumerate(parents)}
    steps = list(parents.values())
    ordered = sorted(names.items(), key=lambda item: item[0].split("/"))
    for path, (inside, verdict, text) in ordered:
        name = path.rpartition("/")[2].encode("utf-8", "surrogateescape")
        steps.append(Step(StepKind.NAME, text, (numbers[inside], verdict), (name,)))
        numbers.setdefault(path, len(steps) - 1)
    return steps, (*parents, *(path for path, _ in ordered))


def _parent(path: str, device: int, inode: int) -> Step:
    name = path.encode("utf-8", "surrogateescape")
    return Step(StepKind.PARENT, f"{path}: the names in it are watched", (device, inode), (name,))
