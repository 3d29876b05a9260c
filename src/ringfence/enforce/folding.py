"""Directories that do not tell upper case from lower: there a denied name has other spellings.

Tried by looking a name up in its other spelling. Where there is none to try the kernel is asked (ext4, f2fs and tmpfs
have a flag for each directory), and the type of the file system says it. Nothing is made for it.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Set

from ..model import Mount

_GET_FLAGS, _CASEFOLD = 0x80086601, 0x40000000  # linux/fs.h
_FLAGGED = frozenset(("ext4", "f2fs", "tmpfs"))
_NEVER = frozenset(("btrfs", "devtmpfs", "ext2", "ext3", "proc", "ramfs", "squashfs", "sysfs"))
_FOLDING = frozenset(("cifs", "exfat", "hfs", "hfsplus", "msdos", "ntfs", "ntfs3", "smb3", "vboxsf", "vfat"))
_HELD = frozenset(("exfat", "msdos", "vfat"))
# No directory, a link that leads to itself, or closed: what nobody can look into is closed whole.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG)
_TRIED = 64  # names; of so many one has a letter


def folding(paths: Iterable[str], mounts: Iterable[Mount]) -> dict[str, bool]:
    """Those of the directories that fold, or of which nobody can say; and whether the kernel knows all spellings of a
    name for one: only then does a mount on one of them lie on all."""
    kinds = kinds_of(mounts)
    found = {}
    for path in dict.fromkeys(paths):
        try:
            kind = kinds.get(os.stat(path).st_dev, "")
            if folds_there(path, kind):
                found[path] = kind in _FLAGGED or kind in _HELD
        except OSError as error:
            if error.errno not in _NOT_THERE:
                found[path] = False
    return found


def kinds_of(mounts: Iterable[Mount]) -> dict[int, str]:
    """The types of the file systems, by their devices."""
    numbers = [(mount.device.split(":"), mount.kind) for mount in mounts]
    return {os.makedev(int(major), int(minor)): kind for (major, minor), kind in numbers}


def folds_there(path: str, kind: str, fd: int = -1) -> bool:
    """Whether a directory on a file system of this type folds; `fd` is the directory, if it is open."""
    if kind in _NEVER:
        return False
    if kind in _FOLDING or kind in _FLAGGED:
        return kind in _FOLDING or (is_flagged(path) if fd < 0 else _has_flag(fd))
    with os.scandir(path) as entries:
        names = {entry.name for entry, _ in zip(entries, range(_TRIED), strict=False)}
    return folds(path, names)


def folds(path: str, names: Set[str]) -> bool:
    """Whether a directory that has these names folds."""
    for name in names:
        other = name.swapcase()
        if other != name and other not in names:  # then the name is found by a spelling that is not there, or it is not
            return _same(f"{path}/{name}", f"{path}/{other}")
    return is_flagged(path)


def _same(path: str, other: str) -> bool:
    try:
        found = os.lstat(other)
    except (FileNotFoundError, NotADirectoryError):
        return False
    here = os.lstat(path)
    return (found.st_dev, found.st_ino) == (here.st_dev, here.st_ino)


def is_flagged(path: str) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _has_flag(fd)
    finally:
        os.close(fd)


def _has_flag(fd: int) -> bool:
    try:
        answer = fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
    except OSError:  # a file system without flags
        return False
    return bool(struct.unpack("<q", answer)[0] & _CASEFOLD)
