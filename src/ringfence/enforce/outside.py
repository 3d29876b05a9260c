"""Calls done outside for somebody who waits inside: by a canonical path that was judged, and by no link.

The path is walked name by name, and no name of it may be a link by now; so what is opened is what was asked about. Only
files are opened, and directories where there is no view that their `..` could lead out of.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from .pauses import Call, Inquiry

_PATH = getattr(os, "O_PATH", 0)  # Linux alone has a warden
_WAY = _PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KEPT = os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND | os.O_DIRECTORY | os.O_SYNC | os.O_DSYNC
_NO_REPLACE = 1  # of renameat2()


@contextlib.contextmanager
def way(path: str) -> Iterator[tuple[int, str]]:
    """The directory that a canonical path ends in, held, and the name there. OSError when a link is on the way."""
    names = path.split("/")[1:]
    here = os.open("/", _WAY)
    try:
        for name in names[:-1]:
            there = os.open(name, _WAY, dir_fd=here)
            os.close(here)
            here = there
        yield here, names[-1]
    finally:
        os.close(here)


def open_file(path: str, flags: int, mode: int, directories: bool) -> int:
    """A descriptor of a file, made if the flags say so; of a directory, if those are handed out here."""
    with way(path) as (above, name):
        wanted = flags & _KEPT | _SAFE
        with contextlib.suppress(FileNotFoundError):
            held = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                _check_kind(os.fstat(held).st_mode, directories)
            finally:
                os.close(held)
        fd = os.open(name, wanted, mode & 0o777, dir_fd=above)
    try:
        _check_kind(os.fstat(fd).st_mode, directories)
        os.set_blocking(fd, not flags & os.O_NONBLOCK)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_kind(mode: int, directories: bool) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a link stands there")
    if not (stat.S_ISREG(mode) or (directories and stat.S_ISDIR(mode))):
        raise PermissionError(errno.EACCES, "only files are handed in")


def do(inquiry: Inquiry, path: str, other: str, is_new: bool = False) -> None:
    """Everything but opening. `path` and `other` are canonical, but for the last name. `is_new`: nothing stood at
    `other` when it was asked about, so nothing is replaced there."""
    with way(path) as (above, name):
        if inquiry.call is Call.MKDIR:
            os.mkdir(name, inquiry.number & 0o777, dir_fd=above)
        elif inquiry.call is Call.UNLINK:
            os.unlink(name, dir_fd=above)
        elif inquiry.call is Call.RMDIR:
            os.rmdir(name, dir_fd=above)
        elif inquiry.call is Call.SYMLINK:
            os.symlink(inquiry.other, os.fsencode(name), dir_fd=above)
        elif inquiry.call is Call.TRUNCATE or inquiry.call is Call.CHMOD:
            _change(inquiry, path)
        else:
            _transfer(inquiry, above, name, other, is_new)


def _change(inquiry: Inquiry, path: str) -> None:
    fd = open_file(path, os.O_WRONLY if inquiry.call is Call.TRUNCATE else os.O_RDONLY, 0, directories=True)
    try:
        if inquiry.call is Call.TRUNCATE:
            os.ftruncate(fd, inquiry.number)
        else:
            os.fchmod(fd, inquiry.number & 0o1777)
    finally:
        os.close(fd)


def _is_there(name: str, above: int) -> bool:
    try:
        os.lstat(name, dir_fd=above)
    except FileNotFoundError:
        return False
    return True


def _transfer(inquiry: Inquiry, above: int, name: str, other: str, is_new: bool) -> None:
    keeps = inquiry.call is Call.RENAME and inquiry.flags == _NO_REPLACE
    if inquiry.flags and not keeps:  # exchanged, or through a link
        raise OSError(errno.EINVAL, "not asked about")
    with way(other) as (there, new):
        if keeps or (is_new and inquiry.call is Call.RENAME):
            try:
                _rename_new(name, above, new, there)
            except FileExistsError as error:
                raise (
                    error if keeps else PermissionError(errno.EACCES, "it has come since it was asked about")
                ) from None
        elif inquiry.call is Call.RENAME:
            os.rename(name, new, src_dir_fd=above, dst_dir_fd=there)
        else:
            os.link(name, new, src_dir_fd=above, dst_dir_fd=there, follow_symlinks=False)


def _rename_new(name: str, above: int, new: str, there: int) -> None:
    """To where nothing stands. Where the file system cannot promise that (NFS), it is looked at a moment before."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call and not call(above, os.fsencode(name), there, os.fsencode(new), _NO_REPLACE):
        return
    error = ctypes.get_errno() if call else errno.ENOSYS
    if error not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(error, os.strerror(error))
    if _is_there(new, there):
        raise FileExistsError(errno.EEXIST, "it is there")
    os.rename(name, new, src_dir_fd=above, dst_dir_fd=there)
