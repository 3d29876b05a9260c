"""Control groups: a group for one run, below our own, where the system lets us make one. Version 2, or version 1.

Only ever below our own group, or beside it with our own limits, so that whatever holds us holds the run too. Nothing is
left behind: the group is removed with the run, and what a killed supervisor left is empty and swept by the next.

In version 2 a group that has processes hands no controllers down. So ours is divided where it was delegated to us: its
processes go into one below it, and the runs' groups stand beside that. Else they stand beside our own.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

from ..model import LaunchError, Limit

ROOT = "/sys/fs/cgroup"
_PREFIX = "ringfence-"
MOST_PIDS = 1 << 22
KEEPERS = 2  # the outer process and the warden
# controller: its directory in version 1, the file that shows that it is there
_ONES = {
    "memory": ("memory", "memory.limit_in_bytes"),
    "pids": ("pids", "pids.max"),
    "cpu": ("cpuacct", "cpuacct.usage"),
}
_TWOS = {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.stat"}
_CARRIED = ("memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max")  # to a group beside our own
_CALLERS = f"{_PREFIX}callers"  # the group that those are in who were in the one that was divided

_found: dict[str, str] | None = None  # controller: the directory below which a group can be made


def controllers() -> tuple[str, ...]:
    """What a group of ours could control, found by making one; once for each process."""
    global _found
    if _found is None:
        _found = {name: above for name in _ONES for above in _candidates(name) if _works(name, above)}
    return tuple(_found)


def _own_groups() -> dict[str, str]:
    """The path of our own group in each hierarchy; "" is version 2's."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return {}
    return {name: path for _, names, path in rows for name in names.split(",")}


def _candidates(controller: str) -> list[str]:
    own = _own_groups()
    if os.path.exists(f"{ROOT}/cgroup.controllers"):
        here = f"{ROOT}{own.get('', '/')}".rstrip("/")
        if here == ROOT:
            return [ROOT]
        return [here] if _is_delegated(here) and _divide(here) else [os.path.dirname(here)]
    directory = _ONES[controller][0]
    return [f"{ROOT}/{directory}{own[directory]}".rstrip("/")] if directory in own else []


def is_written_by(uid: int, gid: int, is_caller: bool) -> bool:
    """Whether somebody may write our own groups, or any below: those that a control group namespace made here shows.
    `is_caller`: it is us, and what a run has of its own is ours. Of those that are mounted nowhere here
    nobody can tell."""
    groups = _own_directories()
    if uid == 0 or (is_caller and _found) or (_own_groups() and not groups):
        return True
    gids = {gid, *(os.getgroups() if is_caller else ())}
    return any(_may_write(top, uid, gids) for group in groups for top, _, _ in os.walk(group))


def _own_directories() -> list[str]:
    """Where our own groups stand, of both versions, as far as they are mounted."""
    named = [(name.removeprefix("name="), path) for name, path in _own_groups().items()]
    found = [f"{ROOT}/{place}{path}" for name, path in named for place in ([name] if name else ["", "unified"])]
    return [path for path in found if os.path.exists(f"{path}/cgroup.procs")]


def _may_write(group: str, uid: int, gids: set[int]) -> bool:
    for path in (group, f"{group}/cgroup.procs"):
        with contextlib.suppress(OSError):  # it is gone
            facts = os.stat(path)
            if facts.st_uid == uid or facts.st_mode & 0o2 or (facts.st_mode & 0o20 and facts.st_gid in gids):
                return True
    return False


def _is_delegated(group: str) -> bool:
    """Whether it was handed to us: systemd marks such a group, and of a plain user's own the one above is not his."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return os.access(group, os.W_OK)
    uid = os.geteuid()
    try:
        return uid != 0 and os.stat(group).st_uid == uid != os.stat(os.path.dirname(group)).st_uid
    except OSError:
        return False


def _divide(group: str) -> bool:
    """Move everybody who is in a group into one below it; whether nobody is left."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{group}/{_CALLERS}", 0o755)
        for _ in range(20):  # somebody may fork meanwhile
            members = _members(group)
            if not members:
                return True
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    _put(f"{group}/{_CALLERS}/cgroup.procs", pid)
    return False


def _works(controller: str, above: str) -> bool:
    _sweep(above)
    path, handed = _new(above), _get(f"{above}/cgroup.subtree_control")
    is_two = handed is not None
    if handed is not None and controller not in handed.split() and (above == ROOT or _is_delegated(above)):
        with contextlib.suppress(OSError):  # then the file is not there either
            _put(f"{above}/cgroup.subtree_control", f"+{controller}")
    try:
        os.mkdir(path, 0o755)
    except OSError:
        return False
    try:
        return os.path.exists(f"{path}/{_TWOS[controller] if is_two else _ONES[controller][1]}")
    finally:
        os.rmdir(path)


def _new(above: str) -> str:
    return f"{above}/{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"


def _sweep(above: str) -> None:
    """Remove what a killed supervisor left. A group that still has processes cannot be removed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(above):
            pid = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{above}/{name}")


def join(lists: Iterable[int]) -> None:
    """Be in somebody else's group, by what `open_lists` gave, with all that we start. We make none: it would stand
    beside that one, and nobody who counts there would count it."""
    global _found
    _found = {}
    for fd in lists:
        os.write(fd, b"0")


class Group:
    """A group for one run."""

    before_close: Callable[[], None] | None = None  # what is to end first

    def __init__(self, wanted: tuple[str, ...], limits: tuple[Limit, ...]) -> None:
        self._paths: dict[str, str] = {}
        amounts = {limit.name: int(limit.amount) for limit in limits}
        places = {above: _new(above) for above in dict.fromkeys((_found or {})[name] for name in wanted)}
        try:
            for name in wanted:
                self._paths[name] = places[(_found or {})[name]]
            for path in places.values():
                os.mkdir(path, 0o755)
                _carry_over(path)
            if "memory" in self._paths:
                self._set_memory(self._paths["memory"], amounts["memory"])
            if "pids" in self._paths:
                _lower(f"{self._paths['pids']}/pids.max", min(amounts["processes"] + KEEPERS, MOST_PIDS))
        except OSError as error:
            self.close()
            raise LaunchError(
                "cgroup", f"cannot be made: {error.strerror}", "--best-effort does not need one"
            ) from None

    def _set_memory(self, path: str, amount: int) -> None:
        if os.path.exists(f"{path}/memory.max"):
            _lower(f"{path}/memory.max", amount)
            for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
                if os.path.exists(f"{path}/{name}"):
                    _put(f"{path}/{name}", value)
            return
        _put(f"{path}/memory.limit_in_bytes", amount)
        if os.path.exists(f"{path}/memory.memsw.limit_in_bytes"):
            _put(f"{path}/memory.memsw.limit_in_bytes", amount)

    @property
    def holds_memory(self) -> bool:
        return "memory" in self._paths

    def open_lists(self) -> list[int]:
        """Where whoever is to be in it writes itself down, a descriptor for each hierarchy."""
        paths = dict.fromkeys(self._paths.values())
        return [os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in paths]

    def crossed(self) -> str | None:
        """The limit that the kernel has refused to let the run go beyond, if it has."""
        for name, limit, files in (
            ("memory", "memory", (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill"))),
            ("pids", "processes", (("pids.events", "max"),)),
        ):
            if name in self._paths and any(_count(f"{self._paths[name]}/{file}", word) for file, word in files):
                return limit
        return None

    def cpu_seconds(self) -> float | None:
        """Processor time of everything that was ever in the group, if that is counted."""
        path = self._paths.get("cpu")
        if path is None:
            return None
        usage = _count(f"{path}/cpu.stat", "usage_usec")
        if usage is not None:
            return usage / 1e6
        counted = _get(f"{path}/cpuacct.usage")
        return float(counted) / 1e9 if counted else None  # not 0: what cannot be read is looked for in the processes

    def close(self) -> None:
        """End whoever is left in it, and remove it."""
        if self.before_close is not None:
            self.before_close()
        until = time.monotonic() + 2
        for path in dict.fromkeys(self._paths.values()):
            while os.path.isdir(path):
                try:
                    os.rmdir(path)
                except OSError:
                    if time.monotonic() > until:
                        break  # the next run sweeps it
                    _kill_all(path)
                    time.sleep(0.002)
        self._paths = {}


def _members(path: str) -> set[int]:
    return {*map(int, (_get(f"{path}/cgroup.procs") or "").split())}


def _kill_all(path: str) -> None:
    """SIGKILL to every member, by one word where the kernel knows it (version 2, 5.14). A number is only what it was
    when it still is a member after we hold it."""
    with contextlib.suppress(OSError):
        _put(f"{path}/cgroup.kill", 1)
        return
    held: dict[int, int] = {}
    try:
        for pid in _members(path):
            with contextlib.suppress(OSError):
                held[pid] = os.pidfd_open(pid)
        for pid in _members(path) & held.keys():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(held[pid], signal.SIGKILL)
    finally:
        for fd in held.values():
            os.close(fd)


def _carry_over(path: str) -> None:
    """Our own group's limits, in version 2 and beside it: it is not below them."""
    own = f"{ROOT}{_own_groups().get('', '/')}".rstrip("/")
    if os.path.dirname(own) != os.path.dirname(path):
        return
    for name in _CARRIED:
        limit = _get(f"{own}/{name}")
        if limit and not limit.startswith("max"):
            _put(f"{path}/{name}", limit.strip())


def _lower(path: str, amount: int) -> None:
    """Set a limit, unless there is a lower one."""
    before = (_get(path) or "").strip()
    _put(path, min(amount, int(before)) if before.isdigit() else amount)


def _put(path: str, value: object) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _get(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None


def _count(path: str, word: str) -> int | None:
    for line in (_get(path) or "").splitlines():
        name, _, number = line.partition(" ")
        if name == word:
            return int(number)
    return None
