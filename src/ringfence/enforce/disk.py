"""What the planner must know of the disk, read once: what stands at each path, and which object it is.

Every path found is opened (O_PATH) and stays open as long as the survey is used: a file system gives the number of a
removed file to the next one within a moment, so (device, inode) is an identity only while somebody holds the object.
"""

import errno
import itertools
import os
import stat
from collections.abc import Iterable, Mapping, Set

import msgspec

from ..model import Disk, Kind, Mount, Place, PlanError
from .folding import folds
from .holding import hold
from .links import followed, real_path, target

_ABSENT = (PermissionError, NotADirectoryError, FileNotFoundError)


def canonical(path: str) -> str:
    """A path with every symbolic link resolved; what does not exist stays as written below what does."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return real_path(path)
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")  # three calls, where realpath() asks about every name on the way
        return real if os.fstat(fd).st_nlink else real_path(path)
    finally:
        os.close(fd)


def standing_at(path: str) -> os.stat_result:
    """What stands at a canonical path. Raises PlanError where the path has come to lead elsewhere: whoever may write
    above a workspace could put a link in its place, and have somebody else's taken for it."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise _unseen(path, error) from None
    try:
        if os.readlink(f"/proc/self/fd/{fd}") != path:
            hint = "end what puts links there, and start the run again"
            raise PlanError(path, "leads elsewhere than a moment ago", hint)
        return os.fstat(fd)
    finally:
        os.close(fd)


def _links_to(path: str, real: str) -> tuple[str, ...]:
    """The links on the way from a path to where it was found to lead. Who puts something else there between the two
    looks must not hide that there was one: where they lead elsewhere now, that counts as a link itself. Not the path as
    it is asked about: links of others may be on it, which a command cannot turn."""
    links, end = followed(path)
    return links if real == end or real == _spelled(end) else (*links, end)


def _spelled(path: str) -> str:
    """A path as the kernel has it, which may be another spelling where case is folded; "" where a link is on it."""
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in filter(None, path.split("/")):
            above = fd
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
        return "" if stat.S_ISLNK(os.fstat(fd).st_mode) else os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _missing(path: str, closed: bool, real: str = "") -> Place:
    """A path that leads to nothing. `real` is where its text leads, if somebody has found out; when that is the path
    itself, no link is on it."""
    try:
        there = real or real_path(path)
        links = _links_to(path, there) if real != path else ()
    except OSError as error:
        raise _unseen(path, error) from None
    closed_at = _closed_at(there) if closed else ""
    if closed_at == there:  # it can be looked at now: somebody closed and opened the way, and would have it unheld
        raise _unseen(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return Place(path, there, Kind.MISSING, links=links, closed=closed_at)


def _unseen(path: str, error: OSError) -> PlanError:
    is_full = error.errno in (errno.EMFILE, errno.ENFILE)
    hint = "close some files, or allow more of them (ulimit -n)" if is_full else _repair(path)
    return PlanError(path, f"cannot be looked at: {error.strerror}", hint)


def _repair(path: str) -> str:
    """What to do about one that leads nowhere that can be looked at: most often somebody has put a link on the way."""
    hint, at = "repair or remove what stands there", path
    while at != "/":
        try:
            return f"{hint}; {at} is a link to {os.readlink(at)}"
        except OSError:
            at = os.path.dirname(at)
    return hint


def _by_its_text(path: str) -> tuple[str, bool]:
    """Where a path leads that the kernel does not find, "" if nobody can say; and whether something is there all the
    same: a link to `missing/../x` is a link to `x` for the judge, and will be one when somebody makes the name."""
    try:
        real = real_path(path)
    except OSError:  # `_missing` says it
        return "", False
    return real, real != path and os.path.exists(real)


def _closed_at(path: str) -> str:
    """The deepest directory on a path that can be looked at, and not be looked into; none where that is a link
    into another process."""
    while path != "/" and not os.access(os.path.dirname(path), os.X_OK):
        path = os.path.dirname(path)
    if path.startswith("/proc/") and os.path.islink(path):
        return ""
    return os.path.dirname(path) if not os.path.lexists(path) else path


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.FILE if stat.S_ISREG(mode) else Kind.SOCKET if stat.S_ISSOCK(mode) else Kind.OTHER


def look(
    path: str,
    held: list[int],
    ids: tuple[int, int] | None,
    modes: dict[str, str],
    is_plain: bool = False,
) -> Place:
    """What stands at a path; the descriptor that holds it is added to `held`. `ids` is who will use it, if not we;
    `modes` are those of directories that were looked at already; `is_plain`: its directory is what its path says."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if is_plain else 0))
    except _ABSENT as error:
        real, is_there = _by_its_text(path)
        if is_there:
            found = look(real, held, ids, modes)
            return msgspec.structs.replace(found, asked=path, links=_links_to(path, found.path))
        return _missing(path, isinstance(error, PermissionError), real)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):  # a link that leads nowhere: nothing is there
            return _missing(path, closed=False)
        raise _unseen(path, error) from None
    return looked(path, fd, held, ids, modes, is_plain)


def looked(
    path: str, fd: int, held: list[int], ids: tuple[int, int] | None, modes: dict[str, str], is_plain: bool = False
) -> Place:
    """The same of what was opened already; the descriptor is no longer the caller's."""
    try:
        found = os.fstat(fd)
        is_link = is_plain and stat.S_ISLNK(found.st_mode)
        real = path if is_plain else os.readlink(f"/proc/self/fd/{fd}")
        writable = not os.fstatvfs(fd).f_flag & os.ST_RDONLY  # where we came by, whoever else holds it
    except BaseException:
        os.close(fd)
        raise
    if is_link:
        os.close(fd)
        return look(path, held, ids, modes)
    held.append(hold(fd, found))
    if found.st_nlink == 0:  # removed while we looked
        return _missing(path, closed=False)
    links = _links_to(path, real) if real != path else ()
    closed = _closed_to(real, ids, modes) if ids else ""
    if closed:
        return Place(path, real, Kind.MISSING, links=links, closed=closed)
    kind = _kind(found.st_mode)
    readable = _is_readable(path, found, ids)
    names = found.st_nlink if kind is Kind.FILE else 1
    return Place(path, real, kind, found.st_dev, found.st_ino, writable, readable, links, names)


def _is_readable(path: str, found: os.stat_result, ids: tuple[int, int] | None) -> bool:
    """Whether the file's own mode lets its user in. A directory that cannot be listed can still be walked through."""
    bits = 5 if stat.S_ISDIR(found.st_mode) else 4
    if ids is None:
        return os.access(path, os.R_OK) or (bits == 5 and os.access(path, os.X_OK))
    return _lets(path, found, ids, bits)


def _lets(path: str, found: os.stat_result, ids: tuple[int, int], bits: int) -> bool:
    """Whether a mode has one of these bits for somebody without groups; an access list may let anybody in."""
    if found.st_mode >> (6 if found.st_uid == ids[0] else 3 if found.st_gid == ids[1] else 0) & bits:
        return True
    try:
        listed = os.listxattr(path)
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # a file system without attributes has no access lists
            raise
        listed = []
    return "system.posix_acl_access" in listed


def _closed_to(path: str, ids: tuple[int, int], modes: dict[str, str]) -> str:
    """The highest directory above a path that does not let its user through; we, being root, are let through by all.
    `modes` has the answers for directories that were asked about already."""
    unknown = []
    above = path.rpartition("/")[0]
    while above and above not in modes:
        unknown.append(above)
        above = above.rpartition("/")[0]
    closed = modes.get(above, "")
    for above in reversed(unknown):
        modes[above] = closed = closed or ("" if _lets(above, os.stat(above), ids, 1) else above)
    return closed


MOST_CHILDREN = 10_000  # each is a rule of its own


def children(
    path: str, ids: tuple[int, int] | None = None, most: int = MOST_CHILDREN
) -> tuple[tuple[Place, ...], bool]:
    """What a directory holds and its own mode lets its user use, but for symbolic links: they lead to places that have
    their own rules; nor the processes in /proc, which come and go. And whether there was more than could be taken."""
    try:
        if ids and _closed_to(f"{path}/", ids, {}):
            return (), False
        with os.scandir(path) as entries:
            taken = list(itertools.islice(entries, most + 1))
    except OSError:  # what cannot be listed is not granted
        return (), False
    lasting = [one for one in taken if not (one.is_symlink() or (path == "/proc" and one.name.isdigit()))]
    names = sorted(entry.path for entry in lasting)
    places = tuple(place for name in names[:most] if (place := _child(name, ids)) is not None)
    return places, len(taken) > most


def _child(path: str, ids: tuple[int, int] | None) -> Place | None:
    """One of them. What has gone since it was listed, or cannot be looked at, is not granted, and the others are."""
    try:
        facts = os.lstat(path)
        is_readable = _is_readable(path, facts, ids)
    except OSError:
        return None
    return Place(path, path, _kind(facts.st_mode), facts.st_dev, facts.st_ino) if is_readable else None


class Listing:
    """The names in a directory, if they are few: most paths of a policy lie in a few directories, and are missing."""

    MOST = 2000  # a directory with more is asked about each name
    WORTH = 3  # names: for fewer a directory is not read

    def __init__(
        self, path: str, gone: Place | None, ids: tuple[int, int] | None, modes: dict[str, str], wanted: int
    ) -> None:
        """`gone` is the directory's own place when it is known not to be there; `ids` and `modes` as for `look`;
        `wanted` is how many names in it are asked about."""
        self.names: set[str] | None = None  # None: ask
        self.gone = gone
        self.is_plain = False  # canonical and open to its user, so that a name in it needs no further look at the way
        if gone is not None or wanted < self.WORTH:
            return
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            real, is_there = _by_its_text(path)
            self.gone = None if is_there else _missing(path, False, real)
        except OSError:  # closed to us, or a link that leads nowhere: `look` says for each name what that means
            return
        else:
            try:
                self._read(path, fd, ids, modes)
            except OSError:
                return
            finally:
                os.close(fd)

    def _read(self, path: str, fd: int, ids: tuple[int, int] | None, modes: dict[str, str]) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") != path or not os.fstat(fd).st_nlink:
            return
        with os.scandir(fd) as entries:
            names = {entry.name for entry, _ in zip(entries, range(self.MOST), strict=False)}
        # Where names are folded, one that is not listed may be there in another spelling.
        self.is_plain = not (ids and _closed_to(f"{path}/", ids, modes))
        is_known = len(names) < self.MOST and not _is_folding(path, names)
        self.names = names if is_known else None

    def place(self, path: str, name: str) -> Place | None:
        """The place of a name that is not there; None where one must look."""
        if self.gone is not None:
            return Place(path, f"{self.gone.path}/{name}", Kind.MISSING, links=self.gone.links)
        return Place(path, path, Kind.MISSING) if self.names is not None and name not in self.names else None

    def glance(self, path: str) -> Place | None:
        """What stands at a path in a plain directory, by one call; None where one must look."""
        try:
            found = os.lstat(path) if self.is_plain else None
        except OSError:
            return None
        if found is None or stat.S_ISLNK(found.st_mode):
            return None
        names = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
        return Place(path, path, _kind(found.st_mode), found.st_dev, found.st_ino, names=names)


def _is_folding(path: str, names: set[str]) -> bool:
    try:
        return folds(path, names)
    except OSError:  # nobody can say
        return True


def _listing(
    path: str,
    listings: dict[str, Listing],
    ids: tuple[int, int] | None,
    modes: dict[str, str],
    wanted: Mapping[str, int],
) -> Listing:
    """The listing of a directory; where its parent's does not have it, nothing is asked of the disk."""
    found = listings.get(path)
    if found is not None:
        return found
    unknown = [path]  # up to one that is known, without recursion: a policy may name thousands, one below the other
    while unknown[-1] != "/" and (above := unknown[-1].rpartition("/")[0] or "/") not in listings:
        unknown.append(above)
    for one in reversed(unknown):
        above, _, name = one.rpartition("/")
        gone = None if one == "/" else listings[above or "/"].place(one, name)
        listings[one] = Listing(one, gone, ids, modes, wanted.get(one, 0))
    return listings[path]


def survey(
    paths: Iterable[str],
    held: list[int],
    known: Disk = Disk({}),  # noqa: B008 - frozen
    ids: tuple[int, int] | None = None,
    denied: Set[str] = frozenset(),
) -> Disk:
    """Look at all paths once; what is known already is not looked at again. What is `denied` and nothing else is not
    held: whatever stands there when it is covered, is covered."""
    asked = [(path, *path.rpartition("/")) for path in paths if path not in known.places]
    if not asked:
        return known
    places, texts = dict(known.places), dict(known.texts)
    listings: dict[str, Listing] = {}
    modes: dict[str, str] = {}
    wanted: dict[str, int] = {}
    for path, above, _, _ in asked:  # what is denied is told by its listing, without being held
        wanted[above or "/"] = wanted.get(above or "/", 0) + (Listing.WORTH if path in denied else 1)
    missing = Kind.MISSING
    for path, above, _, name in asked:
        if path in places:
            continue
        listing = listings.get(above) or _listing(above or "/", listings, ids, modes, wanted) if name else None
        if listing is not None and listing.names is not None and name not in listing.names:  # most often
            places[path] = Place(path, path, missing)
            continue
        absent = listing.place(path, name) if listing else None
        if absent is None and listing is not None and path in denied:
            absent = listing.glance(path)
        is_plain = listing is not None and listing.is_plain
        places[path] = found = absent or look(path, held, ids, modes, is_plain)
        texts |= {link: text for link in found.links if (text := target(link))}
        if found.closed and found.closed not in places:
            places[found.closed] = look(found.closed, held, ids, modes)
    return Disk(places, known.children, known.unsearched, texts=texts)


def list_children(disk: Disk, paths: list[str], ids: tuple[int, int] | None = None) -> Disk:
    """The disk, with these directories listed, as far as all of them together hold no more than can be granted."""
    listed: dict[str, tuple[Place, ...]] = {}
    cut: list[str] = []
    left = MOST_CHILDREN
    for path in paths:
        listed[path], has_more = children(path, ids, left)
        left -= len(listed[path])
        cut += [path] if has_more else []
    return Disk(disk.places, listed, disk.unsearched, tuple(cut), texts=disk.texts)


def _plain(text: str) -> str:
    """A path as mountinfo writes it: space, tab, newline and backslash are octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def mounts() -> tuple[Mount, ...]:
    """The table of mounts, as we see it. Only a newline ends a row: whoever may mount could have a path with another
    end of line in it."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape", newline="\n") as table:
        rows = [line.split(" ", 5) for line in table]
    return tuple(
        Mount(_plain(point), device, _plain(root), rest.partition(" - ")[2].partition(" ")[0])
        for _, _, device, root, point, rest in rows
    )
