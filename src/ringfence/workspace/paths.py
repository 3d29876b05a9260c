"""Paths that somebody else chose: where they lead, whether that is inside, and opening nothing else by mistake.

Names are bytes to us: nothing is normalised, folded or re-encoded (a name that is not UTF-8 keeps its bytes as lone
surrogates). What is opened here is reached name by name from a directory that is held open, and no symbolic link is
followed on the way: stricter than openat2(RESOLVE_BENEATH), on every kernel, without ctypes, which costs an import.
"""

import errno
import os
import stat
from collections.abc import Iterator

from ..model import WorkspaceError

MOST_LINKS = 40  # as many as the kernel follows
MOST_BYTES = 1 << 24
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WAY = DIRECTORY | getattr(os, "O_PATH", 0)  # one on the way may be closed to those who would list it
CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO opens at once instead of hanging


# ---- Where a path leads ----


def absolute(path: str) -> str:
    """A path from the root on. A relative one begins where we stand, and that may be gone."""
    try:
        return path if path.startswith("/") else os.path.join(os.getcwd(), path)
    except FileNotFoundError:
        raise WorkspaceError("the current directory", "is gone", "cd to one that is there") from None


def canonical(path: str, cwd: str = "/") -> str:
    """Where a path leads: the deepest ancestor that exists resolved as the kernel does it, the missing rest as written.

    A link is followed when it is met, so `..` after it goes up from where the link leads. To go up from what does not
    exist is refused: it may be made as a link, and then leads elsewhere.
    """
    _check_text(path)
    here, rest, links = "/", _names(os.path.join(cwd, path)), 0
    rest.reverse()
    while rest:
        name = rest.pop()
        if name == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, name)
        mode = _mode_of(there)
        if mode is None or (rest and not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode)):
            return _missing(there, rest[::-1], path)
        if stat.S_ISLNK(mode):
            links += 1
            if links > MOST_LINKS:
                raise WorkspaceError(path, "runs through too many symbolic links")
            target = _link_of(there)
            here = "/" if target.startswith("/") else here
            rest += reversed(_names(target))
        else:
            here = there
    return here


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _check_text(path: str) -> None:
    if not isinstance(path, str) or not path.strip():
        raise WorkspaceError("path", "is empty", "name a file or directory")
    if "\0" in path:
        raise WorkspaceError("path", "has a NUL byte", "no file can have this name")


def _mode_of(path: str) -> int | None:
    """The mode of what stands at a path whose parents are resolved; None where nothing can."""
    try:
        return os.lstat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return None
        raise WorkspaceError(path, f"cannot be looked at: {error.strerror}") from None


def _link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError as error:
        raise WorkspaceError(path, f"changes while it is looked at: {error.strerror}") from None


def _missing(there: str, rest: list[str], path: str) -> str:
    if ".." in rest:
        raise WorkspaceError(path, f"goes up from {there}, which is no directory")
    return "/".join((there, *rest))


def is_inside(path: str, root: str) -> bool:
    """Whether a canonical path is a canonical root or below it, by components."""
    return path == root or root == "/" or path.startswith(root + "/")


def is_within(path: str, root: str) -> bool:
    """Whether a path leads to a root or below it.

    By components first. A tree that folds case, or that is mounted twice, has several names for one directory: so the
    ancestors that exist are compared with the root by identity too.
    """
    real, top = canonical(path), canonical(root)
    return is_inside(real, top) or _has_ancestor(real, top)


def _has_ancestor(path: str, root: str) -> bool:
    try:
        wanted = os.stat(root)
    except OSError:
        return False
    while path != "/":
        if os.path.lexists(path) and os.path.samestat(os.lstat(path), wanted):
            return True
        path = os.path.dirname(path)
    return False


# ---- Opening, one name at a time ----


def names_below(path: str) -> list[str]:
    """The components of a relative path that stays below where it starts, or an error."""
    _check_text(path)
    names = _names(path)
    if path.startswith("/") or ".." in names or not names:
        raise WorkspaceError(path, "does not lead below the directory it starts in", "a relative path without ..")
    return names


def open_directory(path: str, root: int | None = None) -> int:
    """A directory, held open: by an absolute path, or below a directory that is held open already.

    No component of it may be a symbolic link.
    """
    names = _names(path) if root is None else names_below(path)
    here = os.open("/", DIRECTORY) if root is None else os.dup(root)
    for place, name in enumerate(names, 1):
        try:
            there = os.open(name, DIRECTORY if place == len(names) else WAY, dir_fd=here)
        except OSError as error:
            raise WorkspaceError(path, _why(error, "a directory")) from None
        finally:
            os.close(here)
        here = there
    return here


def _why(error: OSError, wanted: str) -> str:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return f"is a link, or not {wanted}"
    return f"cannot be opened: {error.strerror}"


def open_beneath(root: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A regular file below a directory that is held open; never a link, a FIFO, a socket or a device.

    It is looked at before it is opened, because opening a device may do something already, and again afterwards.
    """
    *above, name = names_below(path)
    here = open_directory("/".join(above), root) if above else os.dup(root)
    try:
        if not flags & os.O_EXCL:
            _check_regular(path, os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
        fd = os.open(name, flags | CAREFUL, mode, dir_fd=here)
    except OSError as error:
        raise WorkspaceError(path, _why(error, "a regular file")) from error
    finally:
        os.close(here)
    try:
        _check_regular(path, os.fstat(fd).st_mode)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_or_make(root: int, path: str) -> int:
    """A file that is there, or is made: one by which several know of each other."""
    try:
        return open_beneath(root, path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except WorkspaceError as error:
        if isinstance(error.__cause__, FileExistsError):
            return open_beneath(root, path, os.O_RDWR)
        raise


def _check_regular(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise WorkspaceError(path, "is not a regular file")


def read_beneath(root: int, path: str, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file below a directory that is held open."""
    fd = open_beneath(root, path)
    try:
        if os.fstat(fd).st_size > most:
            raise WorkspaceError(path, f"has more than {most} bytes")
        pieces = []
        while piece := os.read(fd, 1 << 20):
            pieces.append(piece)
            if sum(map(len, pieces)) > most:
                raise WorkspaceError(path, f"has more than {most} bytes")
        return b"".join(pieces)
    finally:
        os.close(fd)


_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def exists_beneath(root: int, path: str) -> bool:
    """Whether a name is there, whatever it is; not through a link."""
    *above, name = names_below(path)
    try:
        here = open_directory("/".join(above), root) if above else os.dup(root)
    except WorkspaceError as error:
        if isinstance(error.__context__, OSError) and error.__context__.errno in _ABSENT:
            return False
        raise
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise WorkspaceError(path, f"cannot be looked at: {error.strerror}") from None
    finally:
        os.close(here)
    return True


# ---- Whole trees ----


class Entry:
    """One name of a tree: its path from the top, and what it is."""

    __slots__ = ("facts", "path")

    def __init__(self, path: str, facts: os.stat_result) -> None:
        self.path = path
        self.facts = facts

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.facts.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.facts.st_mode)

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.facts.st_mode)


def walk(root: int, skip: frozenset[str] = frozenset(), deepest: int | None = None) -> Iterator[tuple[Entry, int]]:
    """Every name below a directory, each with its parent held open while it is handed out; no link is followed.

    `skip` are paths not to go into. One descriptor for each level of depth is open; a directory at `deepest` is handed
    out and not gone into. What goes meanwhile is left out: a command may be at work there.
    """
    stack: list[tuple[int, str, list[os.DirEntry[str]]]] = [(os.dup(root), "", _listed(root))]
    try:
        while stack:
            here, prefix, names = stack[-1]
            if not names:
                stack.pop()
                os.close(here)
                continue
            found = names.pop()
            try:
                entry = Entry(prefix + found.name, found.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            yield entry, here
            if entry.is_directory and entry.path not in skip and len(stack) != deepest:
                try:
                    below = os.open(found.name, DIRECTORY, dir_fd=here)
                except FileNotFoundError:
                    continue
                stack.append((below, entry.path + "/", []))
                stack[-1][2].extend(_listed(below))
    finally:
        for here, _, _ in stack:
            os.close(here)


def _listed(fd: int) -> list[os.DirEntry[str]]:
    with os.scandir(fd) as entries:
        return sorted(entries, key=lambda entry: entry.name, reverse=True)


def remove_tree(parent: int, name: str) -> None:
    """Remove a directory of ours and everything in it, following no link, however deep it is and whatever its modes.

    Directories are moved to the top before they are emptied, so neither descriptors nor the stack grow with depth. Run
    again after an interruption, it goes on.
    """
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        return
    top = _open_own(parent, name)
    try:
        moved = 0
        while subdirectories := _emptied(top):
            for directory in subdirectories:
                below = _open_own(top, directory)
                try:
                    for inner in _emptied(below):
                        _open_and_close(below, inner)
                        moved = _move_up(below, inner, top, moved)
                finally:
                    os.close(below)
                os.rmdir(directory, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _move_up(below: int, name: str, top: int, moved: int) -> int:
    while True:
        moved += 1
        try:
            os.stat(f"rf-{moved}", dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, f"rf-{moved}", src_dir_fd=below, dst_dir_fd=top)
            return moved


def _emptied(fd: int) -> list[str]:
    """The subdirectories that are left when everything else in a directory is removed."""
    left = []
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if is_directory:
            left.append(name)
        else:
            os.unlink(name, dir_fd=fd)
    return left


def _open_and_close(parent: int, name: str) -> None:
    os.close(_open_own(parent, name))  # a directory that cannot be written cannot be moved


def _open_own(parent: int, name: str) -> int:
    """A directory of ours, made usable by its owner first."""
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if facts.st_mode & 0o700 != 0o700 and os.geteuid() != 0:
        held = os.open(name, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{held}", 0o700)  # by descriptor: never what a link points at
        finally:
            os.close(held)
    return os.open(name, DIRECTORY, dir_fd=parent)
