"""Disk quotas of the kernel, by user: the most that a tenant has on the file system of the base, where that keeps them.

By descriptor (quotactl_fd), so that nobody looks for devices. Where a file system keeps none, stewards measure.
"""

import ctypes
import errno
import os
import struct

from ...model import TenantError
from ...model.tenant import TenantFault

QUOTACTL_FD = 443  # the same on every machine
SET, GET = 0x800008 << 8, 0x800007 << 8  # of users
LIMITS = struct.Struct("=8QI4x")  # blocks of 1 KiB: hard, soft, used; inodes: the same; two times; what is meant
BLOCKS, INODES = 1, 4
SMALLEST = 4096  # bytes of a file, on average: as many files as that gives
NONE = (errno.ENOSYS, errno.ESRCH, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)  # it has none, or they are off
_libc = ctypes.CDLL(None, use_errno=True)


def limit(fd: int, uid: int, amount: int) -> bool:
    """Let a user have no more than so many bytes, or with 0 as many as there are; whether the kernel holds that now."""
    blocks = -(-amount // 1024)
    files = max(1024, amount // SMALLEST) if amount else 0
    return _call(fd, SET, uid, bytearray(LIMITS.pack(blocks, blocks, 0, files, files, 0, 0, 0, BLOCKS | INODES)))


def is_held(fd: int, uid: int, amount: int) -> bool:
    """Whether the kernel lets a user have no more than so much; each may ask about itself, and root about all."""
    found = bytearray(LIMITS.size)
    return _call(fd, GET, uid, found) and 0 < LIMITS.unpack(found)[0] * 1024 <= amount + 1023


def _call(fd: int, what: int, uid: int, data: bytearray) -> bool:
    place = (ctypes.c_char * len(data)).from_buffer(data)
    if _libc.syscall(QUOTACTL_FD, fd, what, uid, place) == 0:
        return True
    number = ctypes.get_errno()
    if number in NONE:
        return False
    raise TenantError(TenantFault.FAILED, "quota", os.strerror(number))
