"""Where a command can connect to nothing, it says which of its own descriptors is to be taken.

Without a view nobody judges what a unix socket reaches, so none is made there. A pair of them can be: whoever asks
writes its process and the number of one end into a named pipe, and that end is taken from it by the kernel's leave.
Only of a process of the run itself: we may take descriptors of all the user's others too, and as root those of the
warden, which speaks to us by them.
"""

import contextlib
import ctypes
import os
import select
import stat
import struct
import sys

from .model import UsageError

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")

TAKE = struct.Struct("<iI")  # process and descriptor
_PIDFD_GETFD = 438  # alike on both architectures


def taken(said: bytes, run: int, uid: int) -> int:
    """The descriptor that somebody in the run of a process has named; -1 when it is none, or none of ours to take: the
    run is a user's, and of his alone it is taken."""
    if len(said) != TAKE.size:
        return -1
    pid, number = TAKE.unpack(said)
    if pid <= 0:
        return -1
    held = os.pidfd_open(pid)
    try:
        is_theirs = os.stat(f"/proc/{pid}/fd").st_uid == uid  # of who keeps the run they are root's to see
        if not is_theirs or not _descends(pid, run) or _has_ended(held):
            return -1  # one that has lived all the while is the one that was looked at
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.syscall(_PIDFD_GETFD, held, ctypes.c_uint(number), 0))
        if fd < 0:
            return -1
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.close(fd)
            return -1
        return fd
    finally:
        os.close(held)


def _descends(pid: int, run: int) -> bool:
    """Whether a process is another one's descendant. A parent is older than its child, or its number is somebody
    else's by now."""
    born = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1:
            with open(f"/proc/{pid}/stat", "rb") as file:
                rest = file.read().rpartition(b") ")[2].split()
            parent, start = int(rest[1]), int(rest[19])
            if born is not None and start > born:
                return False
            if pid == run:
                return True
            pid, born = parent, start
    return False


def _has_ended(held: int) -> bool:
    poller = select.poll()
    poller.register(held, select.POLLIN)
    return bool(poller.poll(0))
