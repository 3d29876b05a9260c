"""A program started so that it can write below some directories and nowhere else: by Landlock, where the kernel has it.

What git is shown may be turned into a link between our look and its own, by a command that runs meanwhile. A domain is
a thread's: one that is made for this starts the program, ends, and leaves ourselves as we were.
"""

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from . import paths

T = TypeVar("T")
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every machine
_NO_NEW_PRIVS = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
# Files written, removed and made, of every kind; REFER (a name may move to another directory) since the second ABI.
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 14))
_LEAST_ABI, _TRUNCATE_ABI = 2, 3
_ABSENT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)  # not in this kernel, off, or not for us


def started(start: Callable[[], T], places: Sequence[str]) -> T:
    """What `start` gives, called where only these directories and what is below them can be written."""
    ruleset = _ruleset(places) if hasattr(os, "O_PATH") else -1  # the numbers of calls are Linux's
    if ruleset < 0:
        return start()
    done: list[T] = []
    failed: list[BaseException] = []

    def act() -> None:
        try:
            _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
            _call("syscall", _RESTRICT, ruleset, 0)
            done.append(start())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            failed.append(error)

    thread = threading.Thread(target=act)
    try:
        thread.start()
        thread.join()
    finally:
        os.close(ruleset)
    if failed:
        raise failed[0]
    return done[0]


def _ruleset(places: Sequence[str]) -> int:
    """The rules, as a descriptor; -1 where there are none to be had."""
    try:
        abi = _call("syscall", _CREATE, None, 0, 1)
    except OSError as error:
        if error.errno in _ABSENT:
            return -1
        raise
    if abi < _LEAST_ABI:
        return -1
    handled = _CHANGE | (_TRUNCATE if abi >= _TRUNCATE_ABI else 0)
    ruleset = _call("syscall", _CREATE, ctypes.c_char_p(struct.pack("<Q", handled)), 8, 0)
    try:
        os.set_inheritable(ruleset, False)
        for place in places:
            _allow(ruleset, paths.open_directory(place), handled)
        _allow(ruleset, os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), handled & (_WRITE_FILE | _TRUNCATE))
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _allow(ruleset: int, fd: int, rights: int) -> None:
    try:
        _call("syscall", _ADD, ruleset, 1, ctypes.c_char_p(struct.pack("<Qi", rights, fd)), 0)
    finally:
        os.close(fd)


def _call(name: str, *words: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    found = int(getattr(libc, name)(*given))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
