"""The warden's table: names that must not appear in a writable tree, and the directories on the way to them.

Pure. A mount holds what exists; a name that does not exist yet is held by the warden, who makes the command's new names
for it (enforce/broker.h). What exists on the way must stay where it is, or the name would appear under another; what
does not exist yet is watched, so that the names inside it are known when it comes. A symbolic link cannot be mounted
over either: on the way to something denied it is a row too, and is not to be changed.
"""

from collections.abc import Iterable

from ..model import Disk, Kind, Policy, Step, StepKind, Verdict
from . import crowds
from .regions import Region, State, between
from .rules import links_to
from .view import is_creatable

DENY, WATCH, PIN, KEEP = crowds.DENY, 2, 3, crowds.KEEP  # format.h

_ROWS = frozenset((StepKind.PARENT, StepKind.NAME, StepKind.PATTERN))

Changed = list[tuple[Region, Region | None]]


def ways(changed: Changed) -> list[str]:
    """The directories on the way to names that do not exist yet: which of them are there is for the disk to say."""
    return [
        path
        for region, above in changed
        if above is not None and is_creatable(region, above)
        for path in between(region.path, above.path)
    ]


Links = dict[str, Region]


def links(policy: Policy, disk: Disk, changed: Changed) -> Links:
    """The symbolic links in writable trees on the way to something denied, each with the region it stands in."""
    regions = {region.path: region for region, _ in changed}
    found: Links = {}
    for rule in policy.rules:
        if rule.verdict is not Verdict.DENY:
            continue
        for link in links_to(rule, disk):
            above = link.rpartition("/")[0] or "/"
            while above not in regions and above != "/":
                above = above.rpartition("/")[0] or "/"
            if above in regions and regions[above].state is State.WRITE:
                found[link] = regions[above]
    return found


def held_links(policy: Policy, disk: Disk, changed: Changed) -> Links:
    """Those of them that can be held: what is on the way to them is known."""
    return {
        link: region
        for link, region in links(policy, disk, changed).items()
        if all(path in disk.places and disk[path].kind is Kind.DIRECTORY for path in between(link, region.path))
    }


class _Table:
    """The rows as they come together."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.parents: dict[str, Step] = {}
        self.names: dict[str, tuple[str, int, str]] = {}  # by path: the directory it is in, what is said of it, why

    def lead(self, to: str, above: Region, what: str) -> str:
        """Rows for the way to a path in a region; the directory that holds it."""
        here = above.path
        if above.state is not State.PRIVATE and here not in self.parents:
            self.parents[here] = _parent(here, above.place.device, above.place.inode)
        for path in between(to, above.path):
            if path not in self.names:
                place = self.disk[path]
                exists = place.kind is Kind.DIRECTORY
                if exists:
                    self.parents[path] = _parent(path, place.device, place.inode)
                why = "stays where it is" if exists else "is watched when it comes"
                self.names[path] = (here, PIN if exists else WATCH, f"{path} {why}: {what}")
            here = path
        return here


def watched(steps: Iterable[Step]) -> tuple[str, ...]:
    """The path or pattern that each row is about."""
    found: list[str] = []
    for step in steps:
        texts = [text.decode("utf-8", "surrogateescape") for text in step.strings] if step.kind in _ROWS else []
        if step.kind is StepKind.NAME:
            above = found[step.numbers[0]].rstrip("/")
            found += [f"{above}/{name}" for name in texts[0].split("/")]
        elif step.kind is StepKind.PATTERN:
            found.append("/" + "/".join(texts))
        else:
            found += texts
    return tuple(found)


def rows(changed: Changed, disk: Disk, many: crowds.Homed, kept: Links) -> list[Step]:
    """The table, first the directories that exist, then the names in them."""
    table = _Table(disk)
    for region, above in changed:
        if above is not None and is_creatable(region, above):
            inside = table.lead(region.path, above, f"{region.path} must not appear")
            table.names[region.path] = (inside, DENY, f"{region.path} must not appear ({region.rule.origin})")
    for held in many:
        if held.missing or held.kept:
            table.lead(f"{held.crowd.directory}/", held.home, f"names in {held.crowd.directory} are denied")
    for link, home in kept.items():
        inside = table.lead(link, home, f"{link} is not to be changed")
        table.names[link] = (inside, KEEP, f"{link} is not to be changed: it leads to what is denied")
    numbers = {path: number for number, path in enumerate(table.parents)}
    steps = list(table.parents.values())
    ordered = sorted(table.names.items(), key=lambda item: item[0].split("/"))
    for path, (inside, verdict, text) in ordered:
        name = path.rpartition("/")[2].encode("utf-8", "surrogateescape")
        steps.append(Step(StepKind.NAME, text, (numbers[inside], verdict), (name,)))
        numbers.setdefault(path, len(steps) - 1)
    return steps + crowds.rows(many, numbers)


def _parent(path: str, device: int, inode: int) -> Step:
    name = path.encode("utf-8", "surrogateescape")
    return Step(StepKind.PARENT, f"{path}: the names in it are watched", (device, inode), (name,))
