"""Names whose coming or going matters, looked at through their directories.

A directory that was not changed since we looked has the same names with the same objects behind them, and one call says
so for all of them. Its time of change is what no command can set; one of the last moment says nothing yet, for the
clock of files goes in steps. Only the kernel's own file systems are believed: on others (FUSE, the network's) a server
says what the time of change is, or an old answer is kept.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from ..model import Access, Crowd, Mount, Place, Step, StepKind
from .links import is_there

# Not those whose clock goes in steps of seconds, as FAT's does.
_TIMED = frozenset("bcachefs btrfs devtmpfs ext2 ext3 ext4 f2fs overlay ramfs tmpfs xfs zfs".split())
_IN_MEMORY = frozenset(("hugetlbfs", "ramfs", "tmpfs"))
_SETTLED, _SECOND = 50_000_000, 1_000_000_000  # ns
RENEWED = ("/etc",)  # where whoever changes a file puts a new one in its place: users, names of hosts, libraries

Stamp = tuple[int, int, int, int]
Identities = dict[str, tuple[int, int, bool]]  # by path: device, number, and whether nobody holds it


def timed(mounts: Iterable[Mount]) -> frozenset[int]:
    """The devices whose directories say truly when they were changed."""
    numbers = [mount.device.split(":") for mount in mounts if mount.kind in _TIMED]
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in numbers)


def told_since(path: str, since: int) -> tuple[int, int]:
    """Since when times of change in a directory's file system say that something was changed after a moment: of what is
    not a file, and of files."""
    facts = os.stat(path)
    if not facts.st_ctime_ns % _SECOND:  # as in small inodes of ext4; FAT's goes in steps of two
        since -= 2 * _SECOND
    kind = _kind_of(facts.st_dev)
    if kind in _IN_MEMORY:  # what is mapped, and read before it is written, makes no fault there that sets a time
        return since, 0
    return (since if kind in _TIMED else since - 60 * _SECOND,) * 2  # by a clock that need not be ours


def _kind_of(device: int) -> str:
    """What a file system without a device of its own is called; another's name says nothing that we need."""
    field = b" %d:%d " % (os.major(device), os.minor(device))
    if field.startswith(b" 0:"):
        try:
            with open("/proc/self/mountinfo", "rb") as table:
                for line in table:
                    if field in line:
                        return os.fsdecode(line.rpartition(b" - ")[2].split(b" ")[0])
        except OSError:
            pass  # not Linux
    return "ext4"


class Brief:
    """Calls that let nobody wait, where they can be made without letting go of the interpreter's lock: see libc.py."""

    has_begun = _was_tried = False  # until somebody runs beside others
    near: Set[int] = frozenset()  # the devices of which they may be asked
    read: Callable[[int], bytes]
    is_any_there: Callable[[Sequence[bytes]], bool]
    links_and_size: Callable[[int], tuple[int, int]]
    stat: Callable[[bytes], os.stat_result]
    lock: Callable[[int], None]
    unlock: Callable[[int], None]

    def begin(self, near: Set[int]) -> None:
        """Make them so from now on, if this Python can."""
        if not self._was_tried:
            self._was_tried = True
            try:
                from . import libc
            except ImportError:
                return
            self.read, self.is_any_there, self.stat = libc.read, libc.is_any_there, libc.stat
            self.links_and_size, self.lock, self.unlock = libc.links_and_size, libc.lock, libc.unlock
            self.has_begun = True
        if self.has_begun:
            self.near = near


brief = Brief()


def has_come(path: str) -> bool:
    """Whether a name is there, whatever it is; an error where nobody can say. A longer one than the kernel takes never
    comes."""
    try:
        return is_there(path)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def seen_at(path: bytes, device: int = -1) -> os.stat_result | None:
    """What stands at a path, if that can be said; `device` is the one that it was on."""
    try:
        return brief.stat(path) if device in brief.near else os.stat(path)
    except OSError:
        return None


def stamp_of(path: str) -> Stamp | None:
    """None when it is not there."""
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # closed, or a loop: then each name is asked for, each time
        return 0, 0, 0, time.time_ns()
    return _stamped(facts)


def stamp_in(fd: int) -> Stamp:
    """That of a directory that is open."""
    return _stamped(os.fstat(fd))


def is_settled(stamp: Stamp, read: int, timed: Set[int]) -> bool:
    """Whether a change after the moment in which a directory was read would show in its stamp, taken before that."""
    step = 0 if any(time % _SECOND for time in stamp[2:]) else _SECOND
    return stamp[0] in timed and read - max(stamp[2:]) > step + _SETTLED


def _stamped(facts: os.stat_result) -> Stamp:
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def _above(directory: str) -> tuple[str, Stamp | None]:
    """The directory in which a missing one, or one on the way to it, would appear; no stamp when that says nothing: a
    link that leads nowhere can come to lead somewhere."""
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    return directory, stamp_of(directory)


class Lookout:
    """Paths by their directories, each directory as it was when its paths were last looked at."""

    def __init__(self, paths: Iterable[str], timed: Set[int]) -> None:
        """`timed` are the devices whose times are believed."""
        self._timed = timed
        self._inside: dict[str, list[str]] = {}  # names: a path is made of one when it must be asked about
        for path in paths:
            above, _, name = path.rpartition("/")
            self._inside.setdefault(above or "/", []).append(name)
        self._seen: dict[str, tuple[str, Stamp]] = {}  # for each directory: which one says that it is as it was
        self._marks: dict[str, Stamp] | None = None  # the same by that one, when all of them were as they had been

    def add(self, directory: str, names: Iterable[str], stamp: Stamp | None, asked: int) -> None:
        """More names of one directory, of which nothing was true since it had this stamp, when somebody asked."""
        self._marks = None
        self._inside.setdefault(directory, []).extend(names)
        if stamp is not None:
            self._settle(directory, directory, stamp, asked)

    def _settle(self, directory: str, where: str, stamp: Stamp, asked: int) -> None:
        """Ask no more while the stamp of `where` stays as it is, if it said anything when the names were asked for."""
        if is_settled(stamp, asked, self._timed):
            self._seen[directory] = where, stamp

    def those(self, true: Callable[[str], bool], place: str = "", seen: os.stat_result | None = None) -> list[str]:
        """The paths of which `true` says yes. Where it said no of all names in a directory, they are asked about again
        when that directory has changed. `seen` is what stands at `place`, if somebody has just looked."""
        marks = self._marks
        if marks is not None:  # most often
            for where, then in marks.items():
                if (_stamped(seen) if seen is not None and where == place else stamp_of(where)) != then:
                    break
            else:
                return []
        found = self._look(true)
        self._marks = self._agreed()
        return found

    def _agreed(self) -> dict[str, Stamp] | None:
        """The stamps that say everything is as it was, if there is one for every directory."""
        marks = dict(self._seen.values())
        is_whole = len(self._seen) == len(self._inside) and len(marks) == len(set(self._seen.values()))
        return marks if is_whole else None

    def _look(self, true: Callable[[str], bool]) -> list[str]:
        found, asked = [], time.time_ns()
        now: dict[str, Stamp | None] = {}  # each is looked at once
        for directory, names in self._inside.items():
            where, then = self._seen.get(directory, ("", None))
            if where:
                if where not in now:
                    now[where] = stamp_of(where)
                if now[where] == then:
                    continue
            where, stamp = directory, stamp_of(directory)
            is_missing = stamp is None
            if is_missing:
                where, stamp = _above(directory)
            stem = directory.rstrip("/")
            paths = [f"{stem}/{name}" for name in names]
            # No directory, no names: what is true of one of them is true of all.
            here = (paths if true(paths[0]) else []) if is_missing else [path for path in paths if true(path)]
            found += here
            self._seen.pop(directory, None)
            if not here and stamp is not None:
                self._settle(directory, where, stamp, asked)
        return found


TAKEN = frozenset(
    """.env .nvmrc .node-version .python-version .python-versions .ruby-version .go-version .java-version .bun-version
    .deno-version .zig-version .terraform-version .exenv-version bunfig.toml package.json
    .pre-commit-config.yaml""".split()
)
"""Names by which a later tool may run something: see `taken`."""


class Listing(NamedTuple):
    """What of a directory's names a search for repositories goes by."""

    below: tuple[str, ...]  # directories, but for a git directory
    has_git: bool
    is_repository: bool  # itself, without a directory of that name
    links: tuple[str, ...]  # those that lead into a git directory, or to skills
    entries: int
    taken: frozenset[str] = frozenset()  # those of TAKEN


class Listings:
    """What was read of directories, each of them read anew when it was changed."""

    MOST = 4096

    def __init__(self, timed: Set[int] = frozenset()) -> None:
        """`timed` are the devices whose times are believed: with none every directory is read each time."""
        self.timed = timed
        self._kept: dict[str, tuple[Stamp, Listing]] = {}

    def of(self, path: str, read: Callable[[str], Listing], seen: os.stat_result | None = None) -> Listing:
        """What `read` says of the names in a directory; `seen` is what stands there, if somebody has just looked."""
        stamp = _stamped(os.stat(path) if seen is None else seen)
        kept = self._kept.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        begun = time.time_ns()
        found = read(path)
        if is_settled(stamp, begun, self.timed) and len(self._kept) < self.MOST:
            self._kept[path] = stamp, found
        return found


class Ground:
    """What must stand as it was looked at for walls to be true: what was not there, and what they cover."""

    def __init__(
        self,
        absent: Iterable[str],
        hidden: Iterable[str],
        covered: Callable[[], Identities],
        crowds: Iterable[tuple[Crowd, tuple[str, ...]]],
        mounts: Iterable[Mount],
        asked: int,
    ) -> None:
        """`absent` and `hidden` are names that are not there: protected ones, which are told of when they appear, and
        others that are denied. `covered` gives the objects that mounts lie on; `crowds` come each with those of its
        names that are not there. All of it was looked at since `asked`; an object that nobody holds open and that
        changed since may be another one with the same number."""
        self._timed = timed(mounts)
        self.listings = Listings(self._timed)
        self._make_covered, self._crowds, self._asked = covered, tuple(crowds), asked
        self._absent, self._hidden = Lookout(absent, self._timed), Lookout(hidden, self._timed)
        for crowd, missing in self._crowds:
            lookout = self._absent if crowd.access is Access.WRITE else self._hidden
            lookout.add(crowd.directory, missing, crowd.stamp, asked)
        self._cover: Lookout | None = None
        self._inside: dict[str, list[Crowd]] = {}  # by directory: what of each is covered stands in it

    def has_appeared(self, workspace: str, seen: os.stat_result | None) -> bool:
        """Whether a name is there that was not; an OSError where nobody can say. `seen` is what stands at the
        workspace's path, if somebody has just looked."""
        return any(lookout.those(has_come, workspace, seen) for lookout in (self._absent, self._hidden))

    def appeared(self, workspace: str, seen: os.stat_result | None) -> tuple[str, ...]:
        """Protected names that did not exist when we looked, and are seen now."""
        return tuple(self._absent.those(os.path.lexists, workspace, seen))

    def cover(self) -> Lookout:
        """What is covered; only a view that is older than its run asks for it."""
        if self._cover is None:
            self._covered = self._make_covered()
            cover = Lookout(self._covered, self._timed)
            for crowd, _ in self._crowds:
                self._inside.setdefault(crowd.directory, []).append(crowd)
                cover.add(crowd.directory, crowd.present, crowd.stamp, self._asked)
            self._cover = cover
        return self._cover

    def is_covered(self) -> bool:
        """Whether what a standby's view covers, and what its rules were made for, still stands where it stood."""
        return not self.cover().those(self._is_other)

    def _is_other(self, path: str) -> bool:
        try:
            now = os.lstat(path)
        except OSError:
            return True
        above, _, name = path.rpartition("/")
        crowds = [crowd for crowd in self._inside.get(above, ()) if name in crowd.present]
        known = (crowds[0].place.device, crowds[0].present[name], True) if crowds else self._covered[path]
        is_new = known[2] and now.st_ctime_ns >= self._asked  # nobody stands by until well after that
        return is_new or (now.st_dev, now.st_ino) != known[:2]


def identities(head: Sequence[Step], covered: Iterable[Place], denied: Set[str], uid: int) -> Identities:
    """Which objects must still stand at their paths for walls that were built before: what is covered, or it stands
    there uncovered; the directories in which the warden watches names, or it watches others; and what is granted where
    the command's user or the system replaces things, or what was put there is closed. What is `denied` nobody holds."""
    found = {place.path: (place.device, place.inode, place.asked in denied) for place in covered}
    watched = [step for step in head if step.kind is StepKind.PARENT]
    found |= {os.fsdecode(step.strings[0]): (step.numbers[0], step.numbers[1], False) for step in watched}
    replaced: dict[str, bool] = {}  # by directory: whether he replaces things there
    for step in head:
        if step.kind is StepKind.BENEATH and step.numbers[2]:
            path = os.fsdecode(step.strings[0])
            above = path.rpartition("/")[0] or "/"
            if above not in replaced:
                replaced[above] = above in RENEWED or _replaces(above, uid)
            if replaced[above]:
                found[path] = step.numbers[1], step.numbers[2], False
    return found


def _replaces(directory: str, uid: int) -> bool:
    try:
        facts = os.stat(directory)
    except OSError:
        return False
    return facts.st_uid == uid or facts.st_mode & 0o022 == 0o020
