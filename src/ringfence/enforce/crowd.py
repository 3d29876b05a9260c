"""Looking at many names of one directory by listing it once: which are there, and what must be planned by itself."""

import itertools
import os
from collections.abc import Collection, Iterable

import msgspec

from ..model import Crowd, Kind, Mount, PlanError, Rule
from .disk import look
from .folding import folds
from .lookout import stamp_of

MOST_ENTRIES = 50_000  # a directory with more is asked about each name


def look_at(
    crowds: Iterable[Crowd],
    apart: Collection[str],
    mounts: Iterable[Mount],
    held: list[int],
    ids: tuple[int, int] | None,
) -> tuple[tuple[Crowd, ...], list[Rule]]:
    """The crowds with what is there of them; and the rules that are to be planned one by one: in directories that are
    not what their path says, or are shown twice (`apart`), and about links and what is mounted."""
    points: dict[str, set[str]] = {}
    for mount in mounts:
        above, _, name = mount.point.rpartition("/")
        points.setdefault(above, set()).add(name)
    found: list[Crowd] = []
    loose: list[Rule] = []
    modes: dict[str, bool] = {}
    for crowd in crowds:
        at = points.get(crowd.directory, set())
        seen = _seen(crowd, held, ids, at, modes) if crowd.directory not in apart else None
        if seen is None:
            loose += crowd.rules.values()
            continue
        made, odd = seen
        if odd:
            loose += [rule for name, rule in crowd.rules.items() if name in odd]
            kept = {name: rule for name, rule in crowd.rules.items() if name not in odd}
            made = msgspec.structs.replace(made, rules=kept)
        if made.rules:
            found.append(made)
    return tuple(found), loose


def _seen(
    crowd: Crowd, held: list[int], ids: tuple[int, int] | None, points: set[str], modes: dict[str, bool]
) -> tuple[Crowd, set[str]] | None:
    """The crowd with its directory and names as they are, and those that are links or mount points; None where the
    directory is not one, or has too much in it."""
    path = crowd.directory
    stamp = stamp_of(path)  # before anything is looked at
    try:
        place = look(path, held, ids, modes)
    except PlanError:
        return None
    if place.kind is not Kind.DIRECTORY or place.path != path:
        return None
    try:
        with os.scandir(path) as entries:
            listed = {entry.name: entry for entry in itertools.islice(entries, MOST_ENTRIES + 1)}
        # Where names are folded, one that is not listed may be there in another spelling.
        if len(listed) > MOST_ENTRIES or folds(path, listed.keys()):
            return None
        there = [name for name in crowd.rules if name in listed]
        odd = points.intersection(there)
        odd.update([name for name in there if listed[name].is_symlink()])
        present = {name: listed[name].inode() for name in there if name not in odd}
        directories = [name for name in present if listed[name].is_dir(follow_symlinks=False)]
    except OSError:
        return None
    made = Crowd(place, crowd.access, crowd.rules, present, frozenset(directories), stamp)
    return made, odd
