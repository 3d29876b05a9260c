"""Calls of the kernel that wait for nobody, made without letting go of the interpreter's lock.

A call by `os` lets go of it, wakes the thread that waits for it, and most often has it again before that one is awake:
where many run at once this costs more than the call. So what is never waited for is asked in a way that keeps it: our
own files of /proc, and on file systems of the kernel's own what is looked at. Not what is written: a disk may keep that
waiting, and everybody with it. Imported when a command runs beside others; a Python without ctypes, or a libc without
these, is an ImportError.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Sequence

PAGE = 4096
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = -100, 0x100, 0x1000
_BASIC = 0x7FF  # STATX_BASIC_STATS
_LINKS_AND_SIZE = struct.Struct("=16xI20xQ")  # of struct statx, which is the same on every machine
_FACTS = struct.Struct("=16xIIIH2xQ56xqI4xqI12xII")
_UNSAID = (0, 0, 0, 0, 0.0, 0.0, 0.0, 0)  # of what os.stat says: size and times, but for two

try:
    _libc = ctypes.PyDLL(None)  # it is this one that keeps the lock
    _pread, _faccessat, _statx, _flock = _libc.pread, _libc.faccessat, _libc.statx, _libc.flock
except (OSError, AttributeError) as error:
    raise ImportError(str(error)) from None
_pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
_pread.restype = ctypes.c_ssize_t
_faccessat.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
_statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
_flock.argtypes = (ctypes.c_int, ctypes.c_int)

_Room = ctypes.c_char * PAGE
_free: list[tuple[ctypes.Array[ctypes.c_char], int]] = []  # whoever has one out of here has it alone


def _take() -> tuple[ctypes.Array[ctypes.c_char], int]:
    try:
        return _free.pop()
    except IndexError:
        made = _Room()
        return made, ctypes.addressof(made)


def read(fd: int) -> bytes:
    """The first page of a file of /proc."""
    taken = _take()
    size = _pread(fd, taken[1], PAGE, 0)
    data: bytes = taken[0][: max(size, 0)]  # type: ignore[assignment]  # of letters
    _free.append(taken)
    return data or os.pread(fd, PAGE, 0)


def is_any_there(paths: Sequence[bytes]) -> bool:
    """Whether one of these names is there, whatever it is."""
    return 0 in [_faccessat(_AT_FDCWD, path, 0, _AT_SYMLINK_NOFOLLOW) for path in paths]


def links_and_size(fd: int) -> tuple[int, int]:
    """Of an open file: how many names it has, and its size."""
    taken = _take()
    if _statx(fd, b"", _AT_EMPTY_PATH, _BASIC, taken[1]):
        facts = os.fstat(fd)
        found = facts.st_nlink, facts.st_size
    else:
        found = _LINKS_AND_SIZE.unpack_from(taken[0])
    _free.append(taken)
    return found


def stat(path: bytes) -> os.stat_result:
    """What stands at a path; but for how large it is, and when somebody read it."""
    taken = _take()
    if _statx(_AT_FDCWD, path, 0, _BASIC, taken[1]):
        _free.append(taken)
        return os.stat(path)  # which says what is wrong
    said: bytes = taken[0][:_STATX]  # type: ignore[assignment]  # of letters
    _free.append(taken)
    kept = _kept.get(path)
    if kept is not None and kept[0] == said:  # most often nothing has changed, and it need not be said anew
        return kept[1]
    links, uid, gid, mode, inode, changed, and_more, modified, more, major, minor = _FACTS.unpack_from(said)
    what = mode, inode, os.makedev(major, minor), links, uid, gid, *_UNSAID
    found = os.stat_result((*what, modified * 1_000_000_000 + more, changed * 1_000_000_000 + and_more))
    if len(_kept) >= _MOST:
        _kept.clear()
    _kept[path] = said, found
    return found


_STATX = 256  # bytes of struct statx
_MOST = 64
_kept: dict[bytes, tuple[bytes, os.stat_result]] = {}  # what was said of a path the last time, and what that is


def lock(fd: int) -> None:
    """Have a file for oneself. Where somebody has it he is waited for, as ever."""
    if _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB):
        fcntl.flock(fd, fcntl.LOCK_EX)


def unlock(fd: int) -> None:
    if _flock(fd, fcntl.LOCK_UN):
        fcntl.flock(fd, fcntl.LOCK_UN)
