"""What a new worktree gets of the project besides its commit: directories that are not in it, by a link or as a copy.

A copy shares its blocks with the original where the file system can (copy on write). No link is followed on either
side; sockets, FIFOs and devices are left out.
"""

import errno
import fcntl
import os
from collections.abc import Sequence

from ..model import SessionError, WorkspaceError
from ..model.session import Dependency, Fault, Session
from . import paths
from .ledger import Ledger

FICLONE = 0x40049409  # linux/fs.h


def check(ledger: Ledger, wanted: Sequence[Dependency]) -> None:
    """Refuse, before anything is made, what is not a directory of the project."""
    if wanted and ledger.repository.is_bare:
        raise SessionError(Fault.BASE_INVALID, ledger.repository.top, "a bare repository has no directories to bring")
    for one in wanted:
        if paths.names_below(one.path)[0].lower() == ".git":
            raise WorkspaceError(one.path, "is the repository itself")
        os.close(paths.open_directory("/".join((ledger.repository.top, *paths.names_below(one.path)))))


def bring(ledger: Ledger, session: Session) -> None:
    """Bring all of them."""
    for one in session.dependencies:
        *above, name = paths.names_below(one.path)
        target = paths.open_directory("/".join(("worktrees", session.name, *above)), ledger.home)
        try:
            _bring_one(ledger, one, name, target)
        except FileExistsError:
            what = "is in the commit, so it is in the worktree already"
            raise SessionError(Fault.PATH_EXISTS, one.path, what, "leave it out") from None
        finally:
            os.close(target)


def _bring_one(ledger: Ledger, one: Dependency, name: str, target: int) -> None:
    if not one.copied:
        os.symlink("/".join((ledger.repository.top, *paths.names_below(one.path))), name, dir_fd=target)
        return
    source = paths.open_directory("/".join((ledger.repository.top, *paths.names_below(one.path))))
    try:
        os.mkdir(name, 0o755, dir_fd=target)
        made = os.open(name, paths.DIRECTORY, dir_fd=target)
        try:
            copy_tree(source, made)
        finally:
            os.close(made)
    finally:
        os.close(source)


def copy_tree(source: int, target: int) -> None:
    """Everything below one directory into another that is empty."""
    modes = []
    for entry, parent in paths.walk(source):
        name = entry.path.rpartition("/")[2]
        if entry.is_directory:
            os.mkdir(entry.path, 0o700, dir_fd=target)
            modes.append((entry.path, entry.facts.st_mode & 0o777))
        elif entry.is_link:
            os.symlink(os.readlink(name, dir_fd=parent), entry.path, dir_fd=target)
        elif entry.is_regular:
            _copy_file(parent, name, target, entry.path, entry.facts)
    for path, mode in reversed(modes):
        os.chmod(path, mode, dir_fd=target)


def _copy_file(parent: int, name: str, target: int, path: str, facts: os.stat_result) -> None:
    old = os.open(name, os.O_RDONLY | paths.CAREFUL, dir_fd=parent)
    try:
        made = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        new = os.open(path, made, facts.st_mode & 0o777, dir_fd=target)
        try:
            _copy_content(old, new)
            os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # build tools compare them
        finally:
            os.close(new)
    finally:
        os.close(old)


def _copy_content(old: int, new: int) -> None:
    try:
        fcntl.ioctl(new, FICLONE, old)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM):
            raise
        while piece := os.read(old, 1 << 20):
            view = memoryview(piece)
            while view:
                view = view[os.write(new, view) :]
