"""What must stand as it was looked at for prepared walls to be true: what they cover, and what was not there.

Made while the first command behind them begins, which needs none of it.
"""

import os
from collections.abc import Iterable

from . import enforce, plan
from .model import Access, Crowd, Disk, Host, Mount, Place, Policy, StepKind

RENEWED = ("/etc",)  # where whoever changes a file puts a new one in its place: users, names of hosts, libraries


class Ground:
    """The disk below some walls, to be looked at again."""

    def __init__(
        self,
        laid: Policy,
        regions: list[plan.Region],
        many: plan.Homed,
        mounts: tuple[Mount, ...],
        looked: int,
        disk: Disk,
        host: Host,
        walls: plan.Walls,
    ) -> None:
        """`looked` is when the crowds were looked at."""
        timed = enforce.timed(mounts)
        self.listings = enforce.Listings(timed)
        self._absent = enforce.Lookout(plan.absent_names(laid, disk), timed)
        self._covered = _identities(walls, plan.covered_places(regions, host), host.uid)
        self._cover = enforce.Lookout(self._covered, timed)
        self._crowds: dict[str, list[Crowd]] = {}  # by directory: what of each is covered stands in it
        for held in many:
            crowd, path = held.crowd, held.crowd.directory
            self._crowds.setdefault(path, []).append(crowd)
            self._cover.add(path, crowd.present, crowd.stamp, looked)
            if crowd.access is Access.WRITE:
                self._absent.add(path, held.missing, crowd.stamp, looked)

    def has_appeared(self, workspace: str, seen: os.stat_result | None) -> bool:
        """Whether a name is there that was not; an OSError where nobody can say. `seen` is what stands at the
        workspace's path, if somebody has just looked."""
        return bool(self._absent.those(enforce.is_there, workspace, seen))

    def appeared(self, workspace: str, seen: os.stat_result | None) -> tuple[str, ...]:
        """Protected names that did not exist when we looked, and are seen now."""
        return tuple(self._absent.those(os.path.lexists, workspace, seen))

    def is_covered(self) -> bool:
        """Whether what a standby's view covers, and what its rules were made for, still stands where it stood."""
        return not self._cover.those(self._is_other)

    def _is_other(self, path: str) -> bool:
        try:
            now = os.lstat(path)
        except OSError:
            return True
        above, _, name = path.rpartition("/")
        crowds = [crowd for crowd in self._crowds.get(above, ()) if name in crowd.present]
        known = (crowds[0].place.device, crowds[0].present[name]) if crowds else self._covered[path]
        return (now.st_dev, now.st_ino) != known


def _identities(walls: plan.Walls, covered: Iterable[Place], uid: int) -> dict[str, tuple[int, int]]:
    """Which objects must still stand at their paths for walls that were built before: what is covered, or it stands
    there uncovered; the directories in which the warden watches names, or it watches others; and what is granted where
    the command's user or the system replaces things, or what was put there is closed."""
    found = {place.path: (place.device, place.inode) for place in covered}
    watched = [step for step in walls.head if step.kind is StepKind.PARENT]
    found |= {os.fsdecode(step.strings[0]): (step.numbers[0], step.numbers[1]) for step in watched}
    replaced: dict[str, bool] = {}  # by directory: whether he replaces things there
    for step in walls.head:
        if step.kind is StepKind.BENEATH and step.numbers[2]:
            path = os.fsdecode(step.strings[0])
            above = path.rpartition("/")[0] or "/"
            if above not in replaced:
                replaced[above] = above in RENEWED or _replaces(above, uid)
            if replaced[above]:
                found[path] = step.numbers[1], step.numbers[2]
    return found


def _replaces(directory: str, uid: int) -> bool:
    try:
        facts = os.stat(directory)
    except OSError:
        return False
    return facts.st_uid == uid or facts.st_mode & 0o022 == 0o020
