"""Looking at many names of one directory by listing it once: which are there, and what must be planned by itself."""

import itertools
import os
from collections.abc import Collection, Iterable

import msgspec

from ..model import Crowd, Kind, Mount, Place, PlanError, Rule
from .disk import look
from .folding import folds_there, kinds_of
from .lookout import Stamp, stamp_of

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
    kinds = kinds_of(mounts)
    for crowd in crowds:
        path = crowd.directory
        stamp = stamp_of(path)  # before anything is looked at
        place = _directory(path, held, ids, modes) if path not in apart else None
        seen = _seen(crowd, place, stamp, kinds, points.get(path, set())) if place else None
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


def _directory(path: str, held: list[int], ids: tuple[int, int] | None, modes: dict[str, bool]) -> Place | None:
    """What stands at a path, if it is a directory and the path its own."""
    try:
        place = look(path, held, ids, modes)
    except PlanError:
        return None
    return place if place.kind is Kind.DIRECTORY and place.path == path else None


def _seen(
    crowd: Crowd, place: Place, stamp: Stamp | None, kinds: dict[int, str], points: set[str]
) -> tuple[Crowd, set[str]] | None:
    """The crowd with its directory and names as they are, and those that are links or mount points; None where the
    directory has too much in it, or folds names."""
    path = place.path
    try:
        with os.scandir(path) as entries:
            listed = list(itertools.islice(entries, MOST_ENTRIES + 1))
        # Where names are folded, one that is not listed may be there in another spelling.
        if len(listed) > MOST_ENTRIES or folds_there(path, kinds.get(place.device, "")):
            return None
        there = [entry for entry in listed if entry.name in crowd.rules]
        others = [entry for entry in there if not entry.is_file(follow_symlinks=False)]
        odd = {entry.name for entry in others if entry.is_symlink()}
        odd.update([entry.name for entry in there if entry.name in points] if points else ())
        present = {entry.name: entry.inode() for entry in there if entry.name not in odd}
        directories = [entry.name for entry in others if entry.name in present and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return None
    made = Crowd(place, crowd.access, crowd.rules, present, frozenset(directories), stamp)
    return made, odd
