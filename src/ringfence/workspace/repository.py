"""The repository that sessions are made in: found, checked for what somebody may have planted, and locked.

Everything under the git directory but hooks and configuration may have been written by a command that ran in the main
working tree. A pointer in it that leads elsewhere is refused, and so is a repository of another user.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable

import msgspec

from ..model import SessionError, WorkspaceError
from ..model.session import Fault
from . import paths

OURS = "ringfence"  # our directory in the git directory: it holds the lock
_DIRECTORIES = ("objects", "refs", "logs", "info", "worktrees", "refs/heads", "refs/heads/ringfence", "logs/refs")
_FILES = ("HEAD", "config", "config.worktree", "packed-refs", "shallow", "objects/info/alternates")


class Repository(msgspec.Struct, frozen=True):
    """The top of a project, and its git directory; for a bare one they are the same."""

    top: str
    common: str

    @property
    def is_bare(self) -> bool:
        return self.top == self.common


def find(start: str) -> Repository:
    """The repository around a directory; a bare one only where the directory is its top."""
    here = paths.canonical(paths.absolute(start))
    if not here.isprintable():  # it is written into git's own files, a line each, and into our records
        raise SessionError(Fault.BASE_INVALID, repr(here), "has a name that is not plain text", "move the project")
    at = here
    while True:
        mode = _mode(f"{at}/.git")
        if mode is not None:
            return _checked(Repository(at, f"{at}/.git"), mode)
        if at == "/":
            break
        at = os.path.dirname(at)
    if all(_mode(f"{here}/{name}") for name in ("HEAD", "objects", "refs")):
        return _checked(Repository(here, here), os.lstat(here).st_mode)
    raise SessionError(Fault.NOT_GIT, here, "there is no git repository here", "git init, or go to one")


def _mode(path: str) -> int | None:
    """What stands at a path; None where nothing does. Who cannot look must not go on to a repository further up."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SessionError(Fault.UNSAFE, path, f"cannot be looked at: {error.strerror}", "repair it") from None


def _checked(found: Repository, mode: int) -> Repository:
    if stat.S_ISREG(mode):
        what = ".git is a file here: this is a linked worktree or a submodule, not the repository itself"
        raise SessionError(Fault.BASE_INVALID, found.top, what, "go to the main working tree")
    if not stat.S_ISDIR(mode):
        raise SessionError(Fault.UNSAFE, found.common, "is a link, or no directory", "it must be the repository itself")
    for path in {found.top, found.common}:
        if os.lstat(path).st_uid != os.geteuid():
            raise SessionError(Fault.UNSAFE, path, "belongs to another user", "run as its owner")
    fd = paths.open_directory(found.common)
    try:
        _check_inside(fd, found.common)
    finally:
        os.close(fd)
    return found


def _check_inside(fd: int, common: str) -> None:
    """What git follows out of its directory, or would not be there in a repository that git made."""
    if paths.exists_beneath(fd, "commondir"):
        raise SessionError(Fault.UNSAFE, f"{common}/commondir", "leads to another repository", "remove it")
    if paths.exists_beneath(fd, "reftable"):
        what = "keeps its refs in one table, which cannot be opened to one session alone"
        raise SessionError(Fault.BASE_INVALID, common, what, "git refs migrate --ref-format=files")
    for name in _DIRECTORIES:
        _check_kind(fd, common, name, stat.S_ISDIR)
    for name in _FILES:
        _check_kind(fd, common, name, stat.S_ISREG)
    for top in ("refs", "logs"):  # git reads them all, and would wait at a pipe; and it writes where a link leads
        if paths.exists_beneath(fd, top):
            _check_plain(fd, common, top)
    if paths.exists_beneath(fd, "objects"):
        _check_store(fd, common)


def _check_plain(fd: int, common: str, top: str) -> None:
    held = paths.open_directory(top, fd)
    try:
        for entry, _ in paths.walk(held):
            if not (entry.is_regular or entry.is_directory):
                raise _other(f"{common}/{top}/{entry.path}")
    finally:
        os.close(held)


def _check_store(fd: int, common: str) -> None:
    """The objects, which may be many: by what a directory says of its names, two levels deep."""
    waiting = ["objects"]
    while waiting:
        path = waiting.pop()
        held = paths.open_directory(path, fd)
        try:
            with os.scandir(held) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [f"{path}/{entry.name}"] if path == "objects" else []
                    elif not entry.is_file(follow_symlinks=False):
                        raise _other(f"{common}/{path}/{entry.name}")
        finally:
            os.close(held)


def _other(path: str) -> SessionError:
    return SessionError(Fault.UNSAFE, path, "is a link, or of another kind", "look who made it")


def _check_kind(fd: int, common: str, name: str, fits: Callable[[int], bool]) -> None:
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not fits(mode):
        raise _other(f"{common}/{name}")


def head_branch(common: int) -> str:
    """The branch that is checked out in the main working tree; empty when none is."""
    text = paths.read_beneath(common, "HEAD", 4096).decode("utf-8", "surrogateescape").strip()
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else ""


def lock(common: int, place: str, wait: float) -> int:
    """The one lock around every change of a repository's sessions: ours until it is closed, or we die."""
    _make_directory(common, OURS)
    until = time.monotonic() + wait
    pause = 0.002
    while True:
        fd = paths.open_or_make(common, f"{OURS}/lock")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(common, fd):
                return fd
            os.close(fd)
            continue
        except BlockingIOError:
            os.close(fd)
        except BaseException:
            os.close(fd)
            raise
        if time.monotonic() > until:
            what = f"another session command has held this repository for {wait:g} s"
            raise SessionError(Fault.LOCKED, place, what, "wait for it, or end it")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def _is_still(common: int, fd: int) -> bool:
    """Whether the file that we locked is the one that stands there: who removed it would let a second one in."""
    try:
        there = paths.open_beneath(common, f"{OURS}/lock", os.O_RDWR)
    except WorkspaceError:
        return False
    try:
        return os.path.samestat(os.fstat(there), os.fstat(fd))
    finally:
        os.close(there)


def _make_directory(parent: int, name: str, mode: int = 0o700) -> None:
    """A directory that is there already, or is made; never a link."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise SessionError(Fault.UNSAFE, name, "is not a directory", "look who made it") from None


def make_directories(parent: int, path: str, mode: int = 0o700) -> int:
    """A directory below one that is held open, made with all above it as far as they are missing; held open."""
    here = os.dup(parent)
    for name in paths.names_below(path):
        try:
            _make_directory(here, name, mode)
            below = os.open(name, paths.DIRECTORY, dir_fd=here)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise SessionError(Fault.UNSAFE, path, "is a link, or no directory", "look who made it") from None
            raise
        finally:
            os.close(here)
        here = below
    return here
