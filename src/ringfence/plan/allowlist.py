"""Lower regions to Landlock alone: what is allowed, minus what is denied, by traversal.

Pure. Landlock adds rights along a path and cannot take one away below, so a directory that holds something denied is
replaced by its children, one by one, down to the denied one. That is a snapshot: a name created later directly in such
a directory is closed, and such a directory cannot be listed. Both are said as a gap.
"""

from collections.abc import Callable

from ..model import BUILT_IN, Disk, Gap, Kind, Need, Place, Step, StepKind
from . import landlock
from .regions import Region, State, is_below
from .view import is_device

Holds = Callable[[State], bool]


def readable(state: State) -> bool:
    return state is not State.HIDDEN


def writable(state: State) -> bool:
    return state is State.WRITE


def holes(found: list[Region], holds: Holds) -> dict[str, list[str]]:
    """For each place where a right begins, the places below it where it ends again. A name that is not there ends it
    too: it could be made later. The latest answers are kept, for every part of a planner asks."""
    global _latest
    if _latest[0] is not found:
        _latest = (found, {})
    if holds not in _latest[1]:
        _latest[1][holds] = _holes(found, holds)
    return _latest[1][holds]


_latest: tuple[list[Region], dict[Holds, dict[str, list[str]]]] = ([], {})


def _holes(found: list[Region], holds: Holds) -> dict[str, list[str]]:
    begun: dict[str, list[str]] = {}
    stack: list[tuple[str, bool]] = []
    for region in found:
        here, now = region.place.path, holds(region.state)
        if now and region.place.kind is Kind.MISSING:
            continue
        while stack and not is_below(here, stack[-1][0]):
            stack.pop()
        before = bool(stack) and stack[-1][1]
        if now and not before:
            begun[here] = []
        elif before and not now:
            begun[next(path for path, held in reversed(stack) if path in begun)].append(here)
        stack.append((here, now))
    return begun


def spines(found: list[Region], *rights: Holds) -> set[str]:
    """The directories whose children the planner must know: those on the way from a grant to a denial inside it."""
    holding = rights or (readable, writable)
    return {path for holds in holding for begun in holes(found, holds).items() for path in spine(*begun)}


def spine(begin: str, ends: list[str]) -> set[str]:
    """Where one grant begins, and every directory from there to where it ends again."""
    found = {begin} if ends else set()
    for end in ends:
        above = end.rpartition("/")[0] or "/"
        while above not in found and is_below(above, begin):
            found.add(above)
            above = above.rpartition("/")[0] or "/"
    return found


def beneath(place: Place, rights: int, text: str) -> Step:
    if place.kind is not Kind.DIRECTORY:
        rights &= landlock.ON_A_FILE
    name = place.path.encode("utf-8", "surrogateescape")
    return Step(StepKind.BENEATH, f"{text} {place.path}", (rights, place.device, place.inode), (name,))


Identity = tuple[int, int]


def cut_objects(begun: dict[str, list[str]], places: dict[str, Place], disk: Disk) -> set[Identity]:
    """What must not be granted whole, by whatever name: directories that hold something denied, and the denied. A rule
    of Landlock is about an object, so a grant by its second name, a bind mount, would open the first."""
    known = places | {child.path: child for children in disk.children.values() for child in children}
    spines = {path for begin, ends in begun.items() for path in spine(begin, ends)}
    cut = {path for path in spines if path in known and known[path].kind is Kind.DIRECTORY}
    cut.update(end for ends in begun.values() for end in ends if end in known)
    return {(known[path].device, known[path].inode) for path in cut} - {(0, 0)}


def grant(place: Place, ends: list[str], disk: Disk, cut: set[Identity]) -> tuple[list[Place], list[str]]:
    """What to grant in place of one grant that has holes; and what is not, because it is denied by another name."""
    divided, closed = spine(place.path, ends), frozenset(ends)
    found, twins, waiting = [], [], [place]
    while waiting:
        here = waiting.pop()
        if here.path in divided and here.kind is Kind.DIRECTORY:  # below a file there is nothing to deny
            waiting += reversed(disk.children[here.path])
        elif here.path not in closed:
            if (here.device, here.inode) in cut:
                twins.append(here.path)
            else:
                found.append(here)
    return found, twins


def united(steps: list[Step]) -> list[Step]:
    """Rules for one object as one rule: each costs the launch a few microseconds."""
    kept: dict[tuple[bytes, ...], Step] = {}
    for step in steps:
        other = kept.get(step.strings)
        kept[step.strings] = step if other is None else both(other, step)
    return list(kept.values())


def both(one: Step, other: Step) -> Step:
    """The rights of both."""
    text = f"{one.text.split(' ')[0]} and {other.text}"
    return Step(other.kind, text, (one.numbers[0] | other.numbers[0], *other.numbers[1:]), other.strings)


def lower(found: list[Region], abi: int, disk: Disk) -> tuple[list[Step], list[Gap]]:
    """The rules that make the regions true, and what they cannot make true."""
    steps: list[Step] = []
    twins: dict[str, None] = {}
    places = {region.path: region.place for region in found}
    cut = spines(found)
    for holds, wanted, text in ((readable, landlock.READ, "read"), (writable, landlock.GRANTED_WRITE, "write")):
        rights = landlock.known(wanted, abi)
        begun = holes(found, holds)
        objects = cut_objects(begun, places, disk)
        for begin, ends in begun.items():
            granted, others = grant(places[begin], ends, disk, objects)
            steps += [beneath(place, rights, text) for place in granted]
            used = landlock.known(landlock.IOCTL_DEV, abi) if holds is writable else 0
            steps += [beneath(place, used, "use") for place in granted if used and is_device(place.path)]
            twins |= dict.fromkeys(others)
    steps = united(steps)
    if not cut:
        return steps, []
    names = ", ".join(sorted(cut)[:6]) + (", …" if len(cut) > 6 else "")
    why = "without a view they are granted child by child: they cannot be listed, names made in them later are closed,"
    why += " and what stands in them gets no second name elsewhere"
    gaps = [Gap(f"{names} as a whole", why, Need.WANTED, BUILT_IN)]
    why = "what stands there has another name that is denied, and Landlock knows the object, whatever its name"
    gaps += [Gap(f"{path} changed or opened", why, Need.WANTED, BUILT_IN) for path in twins]
    if disk.cut:
        why = "without a view each name in them is a rule of its own, and there are too many: the rest is closed"
        gaps.append(Gap(f"everything in {', '.join(disk.cut[:6])}", why, Need.WANTED, BUILT_IN))
    return steps, gaps
