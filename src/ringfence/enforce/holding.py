"""Objects of the disk that are held open, so that nobody else is given their number.

Who runs for hours is planned for anew every few seconds, each time with the same objects: each is held once.
"""

import _thread
import os
from collections.abc import Iterable

_lock = _thread.allocate_lock()
_shared: dict[tuple[int, int], int] = {}  # which descriptor holds an object
_uses: dict[int, tuple[tuple[int, int], int]] = {}  # what a descriptor holds, and for how many


def hold(fd: int, facts: os.stat_result) -> int:
    """The descriptor that holds an object from now on, given an open one of it; `let_go` is due once for each call."""
    identity = facts.st_dev, facts.st_ino
    with _lock:
        held = _shared.setdefault(identity, fd)
        _uses[held] = identity, _uses.get(held, (identity, 0))[1] + 1
    if held != fd:
        os.close(fd)
    return held


def let_go(fds: Iterable[int]) -> None:
    """Close descriptors, of those that are shared the last use alone."""
    for fd in fds:
        with _lock:
            identity, count = _uses.pop(fd, (None, 1))
            if count > 1 and identity is not None:
                _uses[fd] = identity, count - 1
                continue
            if identity is not None:
                del _shared[identity]
            os.close(fd)


def _disown() -> None:
    """In a fork of our caller's: another thread may have held it."""
    global _lock
    _lock = _thread.allocate_lock()


os.register_at_fork(after_in_child=_disown)
