"""A control group for each tenant: its share of the processors, and the most of memory and processes of all its runs.

In a group of its own a tenant gets as much processor time as any other that wants some, however many processes it has.
Version 2, where the spawner's own group is handed to it (`Delegate=` in its unit), or version 1. Only ever below the
spawner's own group. Root writes here; the tenant cannot.
"""

import contextlib
import os
import time
from collections.abc import Mapping

from ...model import TenantError
from ...model.tenant import TenantFault

ROOT = "/sys/fs/cgroup"
PREFIX, NEW = "site-", 60.0  # of tenants' users; seconds
CONTROLLERS = ("cpu", "memory", "pids")
SEEN = 0o750  # a tenant's group, by itself alone
# Of all tenants together, in version 1, where their group may stand beside single processes of 1024 each, of which one
# is the service: as much as two processes on each processor. More, and tenants that are busy starve who serves all.
WEIGHT = 2048 * (os.cpu_count() or 1)
FIRST = 10_000  # the most that version 2 knows; a group has 100 if nothing is said
# a limit of a tenant: its controller, and its file in version 1 and 2
FILES = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.max"),
    "processes": ("pids", "pids.max", "pids.max"),
}
# What one tenant has at most, of what the host has, if nothing else is said of it: one that takes all that there is
# would leave others nothing to begin a run with.
PARTS = {"memory": 3 / 4, "processes": 1 / 4}


def parts() -> dict[str, int]:
    """A tenant's part of this host."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    processes = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
    return {"memory": int(memory * PARTS["memory"]), "processes": int(processes * PARTS["processes"])}


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


class Shares:
    """The groups that tenants are in; empty where the machine has none for us."""

    def __init__(self, root: str = ROOT, own: str = "/proc/self/cgroup") -> None:
        self._is_two = os.path.exists(f"{root}/cgroup.controllers")
        groups = _own(own)
        self._tops: dict[str, str] = {}  # controller: the directory that tenants' groups are below
        with contextlib.suppress(OSError):  # read-only, or not ours
            if self._is_two:
                self._tops = dict.fromkeys(CONTROLLERS, _divided(f"{root}{groups.get('', '/')}".rstrip("/")))
            else:
                self._tops = {name: _made(f"{root}/{name}{groups[name]}") for name in CONTROLLERS if name in groups}
                if "cpu" in self._tops:
                    _put(f"{self._tops['cpu']}/cpu.shares", WEIGHT)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what a killed spawner left. What has processes stays, and what is new: it may be about to have one."""
        for top in dict.fromkeys(self._tops.values()):
            for name in os.listdir(top):
                with contextlib.suppress(OSError):
                    if name.startswith(PREFIX) and time.time() - os.stat(f"{top}/{name}").st_mtime > NEW:
                        os.rmdir(f"{top}/{name}")

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self._tops)

    def open(self, user: str, limits: Mapping[str, int], gid: int = -1) -> list[int]:
        """Where a process of the tenant's is written down: a descriptor each. Programs look into their own group for
        what they may have; what another has and does is not theirs to see."""
        for name in FILES.keys() & limits.keys():
            if FILES[name][0] not in self._tops:
                what = f"its limit of {name} cannot be held: the spawner has no control group for it"
                raise TenantError(TenantFault.FAILED, user, what)
        held: list[int] = []
        limits = {**parts(), **limits}
        try:
            for top in dict.fromkeys(self._tops.values()):
                path = f"{top}/{user}"
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, SEEN)
                os.chown(path, -1, gid)
                os.chmod(path, SEEN)
                for name, (controller, one, two) in FILES.items():
                    if self._tops.get(controller) == top:
                        _put(f"{path}/{two if self._is_two else one}", limits[name])
                held.append(os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            for fd in held:
                os.close(fd)
            raise TenantError(TenantFault.FAILED, user, f"its control group: {error.strerror}") from None
        return held

    def close(self, user: str) -> None:
        """Remove a tenant's groups, if nothing is left in them."""
        for top in dict.fromkeys(self._tops.values()):
            with contextlib.suppress(OSError):
                os.rmdir(f"{top}/{user}")


def _own(path: str) -> dict[str, str]:
    """Our own group in each hierarchy; "" is version 2's."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return {}
    return {name: place for _, names, place in rows for name in names.split(",")}


def _made(above: str) -> str:
    path = f"{above.rstrip('/')}/ringfence"
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)
    return path


def _divided(group: str) -> str:
    """Version 2 lets a group hand controllers down only when it has no process itself: we move one down."""
    leaf = f"{group}/spawner"
    with contextlib.suppress(FileExistsError):
        os.mkdir(leaf, 0o755)
    _put(f"{leaf}/cgroup.procs", os.getpid())
    _put(f"{group}/cgroup.subtree_control", " ".join(f"+{name}" for name in CONTROLLERS))
    _put(f"{leaf}/cpu.weight", FIRST)  # or who starts everybody's runs would be one among all tenants
    return group


def _put(path: str, value: object) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))
