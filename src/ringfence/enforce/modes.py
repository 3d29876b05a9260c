"""What the host itself would let somebody do with a path: whether it is there, and what its modes say.

For whoever the command is. Of ourselves the kernel is asked; of somebody else, and of root without its capabilities,
which is what a command of root's is, the modes are read. Access lists are then not seen.
"""

import os
import stat
from typing import NamedTuple


class Person(NamedTuple):
    """Whom the modes are read for."""

    uid: int
    gid: int
    groups: frozenset[int]
    is_self: bool  # then the kernel can be asked


def person(ids: tuple[int, int] | None) -> Person:
    """Whoever the command is."""
    if ids is not None:
        return Person(*ids, frozenset((ids[1],)), False)
    groups = frozenset((os.getegid(), *os.getgroups()))
    return Person(os.geteuid(), os.getegid(), groups, os.geteuid() != 0)


def refusal(who: Person, path: str, wanted: int) -> str:
    """Why the host itself refuses an access (os.R_OK, os.W_OK, os.X_OK) to a canonical path; "" when it does not.

    What is to be written and is not there may be made where its directory lets it.
    """
    parent = os.path.dirname(path)
    if not os.path.lexists(path):
        if not wanted & os.W_OK:
            return "there is no such file or directory"
        if not os.path.isdir(parent):
            return f"there is no directory {parent}"
        return refusal(who, parent, os.W_OK | os.X_OK)
    if who.is_self:
        if os.access(path, wanted):
            return ""
        return _mount(path) if wanted & os.W_OK and os.statvfs(path).f_flag & os.ST_RDONLY else _modes(path, parent)
    for place in _ancestors(path):
        if not _lets(who, place, os.X_OK):
            return _said(place)
    if wanted & os.W_OK and os.statvfs(path).f_flag & os.ST_RDONLY:
        return _mount(path)
    return "" if _lets(who, path, wanted) else _said(path)


def _ancestors(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/", *("/" + "/".join(parts[: index + 1]) for index in range(len(parts)))]


def _lets(who: Person, path: str, wanted: int) -> bool:
    facts = os.stat(path)
    shift = 6 if facts.st_uid == who.uid else 3 if facts.st_gid in who.groups else 0
    return wanted & ~(facts.st_mode >> shift & 7) == 0


def _modes(path: str, parent: str) -> str:
    """What of a path is closed to us: itself, or a directory on the way."""
    for place in (*_ancestors(path), path):
        if not os.access(place, os.X_OK if place in (*_ancestors(path), parent) else os.R_OK):
            return _said(place)
    return _said(path)


def _said(path: str) -> str:
    import pwd

    try:
        facts = os.stat(path)
        owner = pwd.getpwuid(facts.st_uid).pw_name
    except OSError:
        return "a directory on the way is closed"
    except KeyError:
        owner = f"uid {facts.st_uid}"
    return f"{path} has mode {stat.S_IMODE(facts.st_mode):04o} and belongs to {owner}"


def _mount(path: str) -> str:
    return f"{path} is on a file system that is mounted read-only"


def is_socket(path: str) -> bool:
    """Whether a socket stands at a path."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def listens(port: int) -> bool:
    """Whether somebody on the host listens at a TCP port."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        if any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows):
            return True
    return False


def lowest_free_port() -> int:
    """The first port that anybody may listen at."""
    try:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1024
