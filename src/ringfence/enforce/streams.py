"""Descriptors 0 to 2 belong to the host's mounts, where no view reaches: they are part of the wall.

Pipes, unix sockets, terminals and /dev/null pass. A regular file for reading is opened again by its path inside; one
for writing is fed through a pipe by us, because its offset is shared with whoever gave it, and so are sockets of the
network and named pipes. Anything else is refused.
"""

import fcntl
import os
import select
import stat
from typing import TYPE_CHECKING

from ..model import PlanError, Stream

if TYPE_CHECKING:
    from threading import Thread

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
            return "pass" if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:") else "pump"
        if stat.S_ISREG(found.st_mode):
            if fd != 0 or flags & os.O_ACCMODE != os.O_RDONLY:
                return "pump"
            path = os.readlink(f"/proc/self/fd/{fd}")
            if found.st_nlink and os.path.isabs(path):
                return Stream(fd, path, os.O_RDONLY, found.st_dev, found.st_ino, os.lseek(fd, 0, os.SEEK_CUR))
            return "pump"
    what = "an O_PATH descriptor" if flags & os.O_PATH else "a directory" if stat.S_ISDIR(found.st_mode) else "a device"
    raise PlanError(_NAMES[fd], f"is {what}, through which the sandbox could be left", hint="give it a pipe or a file")


def _is_local(fd: int) -> bool:
    """Whether a socket is a unix socket. Any other belongs to the host's network, and could be connected anew there."""
    import _socket

    looked_at = _socket.socket(fileno=os.dup(fd))
    try:
        return looked_at.family == _socket.AF_UNIX
    finally:
        looked_at.close()


def pump(source: int, sink: int, failed: list[OSError]) -> "Thread":
    """Copy one descriptor to another until its end, in a thread, and close both; what stops it goes to `failed`."""
    from threading import Thread

    def copy() -> None:
        poller = select.poll()
        poller.register(source, select.POLLIN)
        poller.register(sink, 0)  # whoever reads it is gone: then what comes next is not for it
        try:
            while dict(poller.poll()).keys() == {source} and (data := os.read(source, 1 << 16)):
                while data:
                    data = data[os.write(sink, data) :]
        except (BrokenPipeError, ConnectionResetError):
            return  # the other side is gone: nobody is left to tell
        except OSError as error:  # a full disk: the command was told that its output was taken
            failed.append(error)
        finally:
            os.close(source)
            os.close(sink)

    thread = Thread(target=copy, daemon=True)
    thread.start()
    return thread
