"""Descriptors 0 to 2 belong to the host's mounts, where no view reaches: they are part of the wall.

Pipes, unix sockets, terminals and /dev/null pass. A regular file for reading is opened again by its path inside; one
for writing is fed through a pipe by us, because its offset is shared with whoever gave it, and so are sockets of the
network and named pipes. Anything else is refused.
"""

import fcntl
import functools
import os
import stat

from ..model import PlanError, Stream

_NAMES = ("stdin", "stdout", "stderr")


def fill_closed() -> None:
    """Put /dev/null where 0 to 2 are closed, or the next thing we open would be the command's standard input."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open("/dev/null", os.O_RDWR), True)  # the lowest free number is this one


def inspect(fd: int) -> Stream | str:
    """A Stream to open again, or "pass", or "pump". Raises for what cannot be let in."""
    found = os.fstat(fd)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if not flags & os.O_PATH:
        if stat.S_ISCHR(found.st_mode):
            return "pass"  # the enactor looks closer at devices
        if stat.S_ISSOCK(found.st_mode):
            return "pass" if _is_local(fd) else "pump"
        if stat.S_ISFIFO(found.st_mode):
            return "pass" if found.st_dev == _pipes() else "pump"
        if stat.S_ISREG(found.st_mode):
            if fd != 0 or flags & os.O_ACCMODE != os.O_RDONLY:
                return "pump"
            path = os.readlink(f"/proc/self/fd/{fd}")
            if found.st_nlink and os.path.isabs(path):
                return Stream(fd, path, os.O_RDONLY, found.st_dev, found.st_ino, os.lseek(fd, 0, os.SEEK_CUR))
            return "pump"
    what = "an O_PATH descriptor" if flags & os.O_PATH else "a directory" if stat.S_ISDIR(found.st_mode) else "a device"
    raise PlanError(_NAMES[fd], f"is {what}, through which the sandbox could be left", hint="give it a pipe or a file")


@functools.cache
def _pipes() -> int:
    """The device on which every pipe without a name stands."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)


def _is_local(fd: int) -> bool:
    """Whether a socket is a unix socket. Any other belongs to the host's network, and could be connected anew there."""
    import _socket

    looked_at = _socket.socket(fileno=os.dup(fd))
    try:
        return looked_at.family == _socket.AF_UNIX
    finally:
        looked_at.close()
