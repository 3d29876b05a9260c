"""What the planner must know of the disk, read once: what stands at each path, and which object it is.

Every path found is opened (O_PATH) and stays open as long as the survey is used: a file system gives the number of a
removed file to the next one within a moment, so (device, inode) is an identity only while somebody holds the object.
"""

import errno
import os
import stat

from ..model import Disk, Kind, Mount, Place, PlanError

NOWHERE = "/nonexistent"
_ABSENT = (PermissionError, NotADirectoryError, FileNotFoundError)


def canonical(path: str) -> str:
    """A path with every symbolic link resolved; what does not exist stays as written below what does."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")  # three calls, where realpath() asks about every name on the way
        return real if os.fstat(fd).st_nlink else os.path.realpath(path)
    finally:
        os.close(fd)


def _links(path: str) -> tuple[str, ...]:
    """Where the symbolic links on a path stand, following each as it comes."""
    found: list[str] = []
    here, rest = "/", [name for name in path.split("/") if name]
    while rest and len(found) < 40:  # as many as the kernel follows
        name = rest.pop(0)
        if name == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, name)
        if os.path.islink(there):
            found.append(there)
            target = os.readlink(there)
            here = "/" if target.startswith("/") else here
            rest = [part for part in target.split("/") if part not in ("", ".")] + rest
        else:
            here = there
    return tuple(found)


def _missing(path: str, closed: bool) -> Place:
    real = os.path.realpath(path)
    return Place(path, real, Kind.MISSING, links=_links(path), closed=_closed_at(real) if closed else "")


def _closed_at(path: str) -> str:
    """The deepest directory on a path that can be looked at, and not be looked into."""
    while path != "/" and not os.access(os.path.dirname(path), os.X_OK):
        path = os.path.dirname(path)
    return os.path.dirname(path) if not os.path.lexists(path) else path


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.FILE if stat.S_ISREG(mode) else Kind.OTHER


def look(path: str, held: list[int], ids: tuple[int, int] | None = None) -> Place:
    """What stands at a path; the descriptor that holds it is added to `held`. `ids` is who will use it, if not we."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except _ABSENT as error:
        return _missing(path, isinstance(error, PermissionError))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):  # a link that leads nowhere: nothing is there
            return _missing(path, closed=False)
        raise PlanError(path, f"cannot be looked at: {error.strerror}", "repair or remove what stands there") from None
    held.append(fd)
    found = os.fstat(fd)
    real = os.readlink(f"/proc/self/fd/{fd}")
    if found.st_nlink == 0:  # removed while we looked
        return _missing(path, closed=False)
    closed = _closed_to(real, ids) if ids else ""
    if closed:
        return Place(path, real, Kind.MISSING, links=_links(path), closed=closed)
    links = _links(path) if real != path else ()
    kind = _kind(found.st_mode)
    writable = not os.fstatvfs(fd).f_flag & os.ST_RDONLY
    return Place(path, real, kind, found.st_dev, found.st_ino, writable, _is_readable(path, found, ids), links)


def _is_readable(path: str, found: os.stat_result, ids: tuple[int, int] | None) -> bool:
    """Whether the file's own mode lets its user in. A directory that cannot be listed can still be walked through."""
    bits = 5 if stat.S_ISDIR(found.st_mode) else 4
    if ids is None:
        return os.access(path, os.R_OK) or (bits == 5 and os.access(path, os.X_OK))
    return bool(_mode_for(path, found, ids) & bits)


def _mode_for(path: str, found: os.stat_result, ids: tuple[int, int]) -> int:
    """The three bits of a mode that count for somebody without groups; an access list may let anybody in."""
    if "system.posix_acl_access" in os.listxattr(path):
        return 7
    return found.st_mode >> (6 if found.st_uid == ids[0] else 3 if found.st_gid == ids[1] else 0) & 7


def _closed_to(path: str, ids: tuple[int, int]) -> str:
    """The highest directory above a path that does not let its user through; we, being root, are let through by all."""
    names = path.split("/")[1:-1]
    for count in range(1, len(names) + 1):
        above = "/" + "/".join(names[:count])
        if not _mode_for(above, os.stat(above), ids) & 1:
            return above
    return ""


def children(path: str) -> tuple[Place, ...]:
    """What a directory holds and its own mode lets us use, but for symbolic links: they lead to places that have their
    own rules."""
    try:
        with os.scandir(path) as entries:
            found = [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries if not entry.is_symlink()]
    except _ABSENT:
        return ()
    return tuple(
        Place(name, name, _kind(facts.st_mode), facts.st_dev, facts.st_ino)
        for name, facts in sorted(found)
        if _is_readable(name, facts, None)
    )


class Listing:
    """The names in a directory, if they are few: most paths of a policy lie in a few directories, and are missing."""

    MOST = 2000  # a directory with more is asked about each name

    def __init__(self, path: str, gone: Place | None) -> None:
        """`gone` is the directory's own place when it is known not to be there."""
        self.names: set[str] | None = None  # None: ask
        self.gone = gone
        if gone is not None:
            return
        try:
            with os.scandir(path) as entries:
                names = {entry.name for entry, _ in zip(entries, range(self.MOST), strict=False)}
        except (FileNotFoundError, NotADirectoryError):
            self.gone = _missing(path, closed=False)
        except PermissionError:
            return
        else:
            if len(names) < self.MOST and canonical(path) == path:
                self.names = names

    def place(self, path: str, name: str) -> Place | None:
        """The place of a name that is not there; None where one must look."""
        if self.gone is not None:
            return Place(path, f"{self.gone.path}/{name}", Kind.MISSING, links=self.gone.links)
        return Place(path, path, Kind.MISSING) if self.names is not None and name not in self.names else None


def _listing(path: str, listings: dict[str, Listing]) -> Listing:
    """The listing of a directory; where its parent's does not have it, nothing is asked of the disk."""
    found = listings.get(path)
    if found is None:
        gone = None
        if path != "/":
            above, _, name = path.rpartition("/")
            gone = _listing(above or "/", listings).place(path, name)
        found = listings[path] = Listing(path, gone)
    return found


def survey(paths: list[str], held: list[int], known: Disk = Disk({}), ids: tuple[int, int] | None = None) -> Disk:  # noqa: B008
    """Look at all paths once; what is known already is not looked at again."""
    places = dict(known.places)
    listings: dict[str, Listing] = {}
    for path in paths:
        if path in places:
            continue
        above, _, name = path.rpartition("/")
        absent = _listing(above or "/", listings).place(path, name) if name else None
        places[path] = found = absent or look(path, held, ids)
        if found.closed and found.closed not in places:
            places[found.closed] = look(found.closed, held, ids)
    return Disk(places, known.children)


def list_children(disk: Disk, paths: list[str]) -> Disk:
    """The disk, with these directories listed."""
    return Disk(disk.places, {path: children(path) for path in paths})


def _plain(text: str) -> str:
    """A path as mountinfo writes it: space, tab, newline and backslash are octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def mounts() -> tuple[Mount, ...]:
    """The table of mounts, as we see it."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        rows = [line.split(" ", 5) for line in table]
    return tuple(Mount(_plain(point), device, _plain(root)) for _, _, device, root, point, _ in rows)


def linked_worktree(workspace: str) -> tuple[str, str] | None:
    """Where the repository of a linked worktree is: its own git directory, and the common one.

    The workspace only says so in a file, which may be hostile; it is believed when the repository says the same of the
    workspace, where no command could have written it, and all of it belongs to the workspace's owner.
    """
    pointer = _first_line(f"{workspace}/.git")
    if not pointer.startswith("gitdir: "):
        return None
    own = os.path.realpath(os.path.join(workspace, pointer.removeprefix("gitdir: ")))
    common = os.path.realpath(os.path.join(own, _first_line(f"{own}/commondir") or NOWHERE))
    back = os.path.realpath(os.path.join(own, _first_line(f"{own}/gitdir") or NOWHERE))
    inside = workspace.rstrip("/") + "/"
    if (
        back != f"{workspace}/.git"
        or os.path.dirname(own) != f"{common}/worktrees"
        or (common + "/").startswith(inside)
    ):
        return None
    owner = os.stat(workspace).st_uid
    is_theirs = all(os.path.isdir(path) and os.stat(path).st_uid == owner for path in (own, common))
    return (own, common) if is_theirs else None


def _first_line(path: str) -> str:
    """The first line of a small regular file, or nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = os.read(fd, 4096) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
    return os.fsdecode(text.partition(b"\n")[0]) if b"\0" not in text else ""
