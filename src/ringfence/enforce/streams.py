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


def look_over(inherited: tuple[int, ...]) -> tuple[tuple[Stream, ...], tuple[int, ...], bool, bool]:
    """Those inherited of 0 to 2 that are to be opened again inside, those to be fed through a pipe; whether any of all
    three is a terminal, and whether one that passes is a unix socket."""
    global _were_plain
    _were_plain = _are_plain()
    if _were_plain:
        return (), (), False, False
    facts = fill_closed()
    seen = [(fd, _inspect(fd, facts[fd])) for fd in inherited]
    is_at_terminal = any(stat.S_ISCHR(found.st_mode) and os.isatty(fd) for fd, found in enumerate(facts))
    streams = tuple(found for _, found in seen if isinstance(found, Stream))
    has_socket = any(found == "pass" and stat.S_ISSOCK(facts[fd].st_mode) for fd, found in seen)
    return streams, tuple(fd for fd, found in seen if found == "pump"), is_at_terminal, has_socket


def were_plain() -> bool:
    """Whether all three passed when somebody looked the last time, and none was closed since: what we have opened
    ourselves in its place is not inheritable. Whoever stands by looks at what they are now."""
    try:
        return _were_plain and all(map(os.get_inheritable, (0, 1, 2)))
    except OSError:
        return False


_were_plain = False
_NULL = os.makedev(1, 3)


def _are_plain() -> bool:
    """Whether all three are pipes without a name or /dev/null, as most often, and pass; it is asked for every run."""
    global _passed
    try:
        found = os.fstat(0), os.fstat(1), os.fstat(2)
    except OSError:
        return False
    which = found[0][:3], found[1][:3], found[2][:3]  # mode, inode and device: most often those of the run before
    if which == _passed:
        return True
    for fd, facts in enumerate(found):
        is_null = facts.st_rdev == _NULL and stat.S_ISCHR(facts.st_mode)
        if not (is_null or facts.st_dev == _pipes()) or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_PATH:
            return False
    _passed = which
    return True


_passed: tuple[object, ...] = ()


def fill_closed() -> list[os.stat_result]:
    """What 0 to 2 are. Puts /dev/null where one is closed, or the next thing we open would be the command's standard
    input."""
    found = []
    for fd in range(3):
        try:
            found.append(os.fstat(fd))
        except OSError:
            os.set_inheritable(os.open("/dev/null", os.O_RDWR), True)  # the lowest free number is this one
            found.append(os.fstat(fd))
    return found


def _inspect(fd: int, found: os.stat_result) -> Stream | str:
    """A Stream to open again, or "pass", or "pump". Raises for what cannot be let in."""
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
    """Whether a socket is an end of a unix connection. Any other could be connected to whoever listens outside, or
    sends each datagram where it likes."""
    import _socket

    looked_at = _socket.socket(fileno=os.dup(fd))
    try:
        looked_at.getpeername()
        return looked_at.family == _socket.AF_UNIX and looked_at.type in (_socket.SOCK_STREAM, _socket.SOCK_SEQPACKET)
    except OSError:
        return False
    finally:
        looked_at.close()


class Pumps:
    """Pipes to and from those of our own 0 to 2 that the command must not have itself."""

    def __init__(self, pumped: tuple[int, ...], ids: tuple[int, int] | None) -> None:
        self.together = {1, 2} <= set(pumped) and os.path.sameopenfile(1, 2)  # one pipe, so that their order is kept
        pipes = {fd: os.pipe() for fd in pumped if not (self.together and fd == 2)}
        self._theirs = {fd: pair[0 if fd == 0 else 1] for fd, pair in pipes.items()}  # it reads 0 and writes the others
        self._ours = {fd: pair[1 if fd == 0 else 0] for fd, pair in pipes.items()}
        for fd in self._theirs.values() if ids else ():
            os.fchown(fd, *(ids or (0, 0)))

    def file(self, fd: int) -> int | None:
        """What the command's descriptor becomes; None is our own."""
        return self._theirs.get(1 if self.together and fd == 2 else fd)

    def given(self) -> None:
        for fd in self._theirs.values():
            os.close(fd)

    def copies(self) -> list[tuple[int, int, bool]]:
        """What is to be copied where; whether it is output."""
        return [(os.dup(0), end, False) if fd == 0 else (end, os.dup(fd), True) for fd, end in self._ours.items()]

    def stop(self) -> None:
        for fd in self._ours.values():
            os.close(fd)
