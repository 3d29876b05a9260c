"""What stands at a path, and where the symbolic links on it lead. Of the file system alone, on every platform."""

import errno
import os

ABSENT = (FileNotFoundError, NotADirectoryError)
GONE = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)  # what a link is not that was one a moment ago
_LOOKS = 100  # at what somebody changes meanwhile


def real_path(path: str) -> str:
    """As realpath(), which fails when a link is gone between its two looks at it; then it is looked at again. And which
    reads what comes behind a loop as text: by `loop/..` it would be at what is above. And which calls itself for each
    link, of which there may be thousands behind what is not there, and fails at one that leads into another process."""
    if _has_too_many(path):
        return followed(path)[1]
    for _ in range(_LOOKS):
        try:
            return os.path.realpath(path)
        except (RecursionError, PermissionError):
            return followed(path)[1]
        except OSError as error:
            if error.errno not in GONE:
                raise
    return os.path.realpath(path)


def led_to(path: str) -> str:
    """Where a path leads; itself where that cannot be known, as by a link in /proc into another process."""
    try:
        return real_path(path)
    except OSError:
        return path


def _has_too_many(path: str) -> bool:
    """Whether more links are on a path than the kernel follows."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def followed(path: str) -> tuple[tuple[str, ...], str]:
    """Where the symbolic links on a path stand, each followed as it comes; and where that leads: of more than the
    kernel follows, to the last that it does."""
    found: list[str] = []
    here, rest = "/", [name for name in path.split("/") if name]
    while rest:
        name = rest.pop(0)
        if name == "..":
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, name)
        text = target(there)
        if text:
            if len(found) == 40:  # as many as the kernel follows
                return tuple(dict.fromkeys(found)), found[-1]
            found.append(there)
            here = "/" if text.startswith("/") else here
            rest = [part for part in text.split("/") if part not in ("", ".")] + rest
        else:
            here = there
    return tuple(found), here


def target(path: str) -> str:
    """What a link says; nothing where there is none, or none any more, or where it leads into another process: who may
    not read such a one does not get through it either, and a command less than whoever runs it."""
    if not os.path.islink(path):
        return ""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno not in GONE and not (isinstance(error, PermissionError) and path.startswith("/proc/")):
            raise
        return ""


def is_there(path: str) -> bool:
    """Whether something stands at a path, a link that leads nowhere too; raises where that cannot be known."""
    try:
        os.lstat(path)
    except ABSENT:
        return False
    return True
