"""Looking at many names of one directory by listing it once: which are there, and what must be planned by itself."""

import itertools
import os
from collections.abc import Collection, Iterable

import msgspec

from ..model import Crowd, Kind, Mount, PlanError, Rule
from .disk import looked
from .folding import folds_there, kinds_of
from .lookout import stamp_in

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
    modes: dict[str, str] = {}
    kinds = kinds_of(mounts)
    for crowd in crowds:
        path = crowd.directory
        seen = _seen(crowd, kinds, points.get(path, set()), held, ids, modes) if path not in apart else None
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
    crowd: Crowd,
    kinds: dict[int, str],
    points: set[str],
    held: list[int],
    ids: tuple[int, int] | None,
    modes: dict[str, str],
) -> tuple[Crowd, set[str]] | None:
    """The crowd with its directory and names as they are, and those that are links or mount points; None where the
    directory is not what its path says, has too much in it, or folds names."""
    path, rules = crowd.directory, crowd.rules
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # one for all that is asked
    except OSError:
        return None
    try:
        stamp = stamp_in(fd)  # before anything is looked at
        with os.scandir(fd) as entries:
            listed = list(itertools.islice(entries, MOST_ENTRIES + 1))
        # Where names are folded, one that is not listed may be there in another spelling.
        is_known = len(listed) <= MOST_ENTRIES and not folds_there(path, kinds.get(stamp[0], ""), fd=fd)
        there = [entry for entry in listed if entry.name in rules]
        others = [entry for entry in there if not entry.is_file(follow_symlinks=False)]
        odd = {entry.name for entry in others if entry.is_symlink()}
        odd.update([entry.name for entry in there if entry.name in points] if points else ())
        there = [entry for entry in there if entry.name not in odd] if odd else there
        present = {entry.name: entry.inode() for entry in there}
        directories = [entry.name for entry in others if entry.name in present and entry.is_dir(follow_symlinks=False)]
    except OSError:
        os.close(fd)
        return None
    try:
        place = looked(path, fd, held, ids, modes)
    except (OSError, PlanError):
        return None
    if not is_known or place.kind is not Kind.DIRECTORY or place.path != path:
        return None
    return Crowd(place, crowd.access, rules, present, frozenset(directories), stamp), odd
