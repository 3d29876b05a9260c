"""The rules as a tree of regions: where what is readable or writable changes, parents first.

Pure. This is the judge of `policy.decide` read from the top of the tree downwards instead of from one path upwards; a
property test holds the two against each other.
"""

import enum

import msgspec

from ..model import BUILT_IN, Access, Disk, Kind, Need, Place, Policy, Rule, Verdict


class State(enum.Enum):
    """What a region is to the command."""

    HIDDEN = "hidden"
    READ = "read-only"
    WRITE = "writable"
    PRIVATE = "private"  # empty at the start, the run's own, gone at the end


class Region(msgspec.Struct, frozen=True, gc=False):
    """A place where the state changes, or is pinned."""

    place: Place
    state: State
    rule: Rule  # the rule that says so, for messages

    @property
    def path(self) -> str:
        return self.place.path


def parts(path: str) -> tuple[str, ...]:
    """A canonical path by its components; the root has none."""
    return tuple(path[1:].split("/")) if path != "/" else ()


def is_below(path: str, above: str) -> bool:
    """Whether a path is strictly below another, by components."""
    return path != above and (above == "/" or path.startswith(above + "/"))


def between(path: str, above: str) -> list[str]:
    """The directories strictly between two paths, from the top."""
    found = []
    at = path.find("/", 1 if above == "/" else len(above) + 1)
    while at > 0:
        found.append(path[:at])
        at = path.find("/", at + 1)
    return found


class Mark(msgspec.Struct):
    """What the rules say of one path itself."""

    place: Place
    allow_read: Rule | None = None
    deny_read: Rule | None = None
    allow_write: Rule | None = None
    deny_write: Rule | None = None
    private: Rule | None = None


_FIELDS = {
    (allows, access): f"{'allow' if allows else 'deny'}_{access.value}" for allows in (True, False) for access in Access
}


def mark(policy: Policy, disk: Disk, private: tuple[str, ...]) -> dict[str, Mark]:
    """All paths that some rule names, by canonical path. What is not there matters only where it could be made."""
    marks: dict[str, Mark] = {}
    opened = [rule.path for rule in policy.rules if rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW]
    roots = {disk[path].path for path in (*opened, *private) if path in disk.places}  # a pattern has no place
    for rule in policy.rules:
        if rule.glob:
            continue
        place = disk[rule.path]
        if place.kind is Kind.MISSING and not place.closed and not is_any_above(place.path, roots):
            continue
        if place.closed and rule.verdict is Verdict.DENY:
            place = disk[place.closed]  # nobody can look further, but its owner could open it: close it whole
        found = marks.setdefault(place.path, Mark(place))
        field = _FIELDS[rule.verdict is Verdict.ALLOW, rule.access]
        older: Rule | None = getattr(found, field)
        # An absolute denial outlasts a plain one.
        if older is None or (not rule.always, rank(rule)) < (not older.always, rank(older)):
            setattr(found, field, rule)
    for found in marks.values():
        allow, deny = found.allow_read, found.deny_read
        if allow is not None and deny is not None and yields(allow, deny):
            found.allow_read = None
    for path in private:
        rule = Rule(Access.WRITE, Verdict.ALLOW, path, BUILT_IN, need=Need.WANTED)
        place = disk[path]
        found = marks.setdefault(place.path, Mark(place))
        if found.allow_write is None or found.allow_write.origin == BUILT_IN:
            found.private = rule
    return marks


def rank(rule: Rule) -> tuple[bool, bool, bool]:
    """Who is heard first of those that speak of one place: leave to read that merely came with leave to write goes
    last, then what is built in, then what was found by a pattern."""
    return rule.implied, rule.origin == BUILT_IN, bool(rule.pattern)


def is_any_above(path: str, roots: set[str]) -> bool:
    """Whether a path lies strictly below one of these."""
    at = path.rfind("/")
    while at > 0:
        if path[:at] in roots:
            return True
        at = path.rfind("/", 0, at)
    return "/" in roots and path != "/"


def yields(allow: Rule, deny: Rule) -> bool:
    """Whether a permission gives way to a denial of the same place. A tie allows."""
    return rank(allow) > rank(deny)


class Above(msgspec.Struct):
    """What a region hands down to those below it."""

    path: str = ""
    read: Rule = Rule(Access.READ, Verdict.DENY, "/", BUILT_IN)  # the rule that decides reading here
    always: Rule | None = None
    allow_write: Rule | None = None
    deny_write: Rule | None = None
    private: Rule | None = None


def regions(policy: Policy, disk: Disk, private: tuple[str, ...] = ()) -> list[Region]:
    """Every place at which a rule speaks, with its state, parents first."""
    found = []
    stack = [Above()]
    for path, here in sorted(mark(policy, disk, private).items(), key=lambda item: item[0].split("/")):
        while stack[-1].path and not is_below(path, stack[-1].path):
            stack.pop()
        stack.append(descend(stack[-1], here))
        found.append(judge(here.place, stack[-1]))
    return found


def descend(above: Above, here: Mark) -> Above:
    """What holds at a path, from what holds above it and what is said of the path itself."""
    now = msgspec.structs.replace(above, path=here.place.path)
    if here.private is not None:
        now.private = here.private
    elif here.allow_read is not None or here.deny_read is not None or here.allow_write is not None:
        # A path of the host inside a private directory does not inherit that one's freedom to write.
        now.allow_write = None if now.private is not None else now.allow_write
        now.private = None
    now.read = here.allow_read or here.deny_read or now.read
    if here.deny_read is not None and here.deny_read.always:
        now.always = here.deny_read
    now.allow_write = here.allow_write or now.allow_write
    now.deny_write = here.deny_write or now.deny_write
    return now


def judge(place: Place, now: Above) -> Region:
    """One region's state; the order is the judge's own."""
    if now.always is not None:
        return Region(place, State.HIDDEN, now.always)
    if now.private is not None and now.deny_write is not None:
        return Region(place, State.HIDDEN, now.deny_write)  # nothing of the host's to read, and nothing to be written
    if now.private is not None:
        return Region(place, State.PRIVATE, now.private)
    if now.read.verdict is not Verdict.ALLOW:
        return Region(place, State.HIDDEN, now.read)
    if now.deny_write is not None:
        return Region(place, State.READ, now.deny_write)
    if now.allow_write is not None:
        return Region(place, State.WRITE, now.allow_write)
    return Region(place, State.READ, now.read)


def enclosed(found: list[Region], only_changes: bool = False) -> list[tuple[Region, Region | None]]:
    """Regions, parents first, each with the one it lies in; or only those whose state differs from that one's."""
    kept: list[tuple[Region, Region | None]] = []
    stack: list[Region] = []
    for one in found:
        while stack and not is_below(one.path, stack[-1].path):
            stack.pop()
        above = stack[-1] if stack else None
        region = _as_found(one, above) if only_changes and above is not None else one
        if not only_changes or above is None or above.state is not region.state:
            kept.append((region, above))
            stack.append(region)
    return kept


def _as_found(region: Region, above: Region) -> Region:
    """A region as the command finds it. What is allowed of the host's in a directory of the run's own, and is not
    there, is that directory's; and what is denied further in is denied in it, neither made nor read."""
    is_nothing = above.state is State.PRIVATE and region.place.kind is Kind.MISSING
    if not is_nothing or region.state not in (State.READ, State.WRITE):
        return region
    state = State.PRIVATE if region.rule.verdict is Verdict.ALLOW else State.HIDDEN
    return msgspec.structs.replace(region, state=state)


_latest: tuple[list[Region], list[tuple[Region, Region | None]]] = ([], [])


def changes(found: list[Region]) -> list[tuple[Region, Region | None]]:
    """Those regions whose state differs from that of the region they lie in, each with that one. The latest answer is
    kept, for every part of a planner asks."""
    global _latest
    latest = _latest  # once: another thread may plan too
    if latest[0] is not found:
        _latest = latest = found, enclosed(found, only_changes=True)
    return latest[1]
