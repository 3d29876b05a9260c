"""Looking at a run's processes from outside, for the limits that nothing in the kernel holds for a whole run."""

import math
import os
import signal

from ..model import Ending, Exceeded, Limit, Signalled
from .cgroup import Group
from .gitfiles import check_means

WATCHED = ("cpu", "memory", "processes", "disk")
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGESIZE")
_MARGIN = 1 << 17  # plan/limits.py makes them somewhat larger
_PRIVATE = ("tmp", "var/tmp", "dev/shm")
_BY_SIGNAL = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "fileSize"}


class Watch:
    """Adds up what a tree of processes uses."""

    def __init__(self, pid: int, limits: tuple[Limit, ...], group: Group | None, keepers: int) -> None:
        self._pid, self._group = pid, group
        self._amounts = {limit.name: limit.amount for limit in limits}
        self._keepers = keepers  # the outer process and the warden are no part of the run
        # Those who serve runs beside this one, and what those used who have ended: replaced as one, for they are told
        # of by another thread.
        self._beside: tuple[tuple[int, ...], float, float] = (), 0.0, 0.0

    def count_with(self, pid: int) -> None:
        """Another process counts from now on, with all below it."""
        pids, cpu, written = self._beside
        self._beside = (*pids, pid), cpu, written

    def reap(self, pid: int) -> None:
        """Wait for one of those, a child of ours: what it used stays counted. What it wrote only whoever has waited for
        it is told, among its own; and what cannot be known is too much."""
        before = _written_by_us()
        try:
            used = os.wait4(pid, 0)[2]
        finally:
            pids, cpu, written = self._beside
            self._beside = tuple(one for one in pids if one != pid), cpu, written
        more = _written_by_us() - before
        written += more if math.isfinite(more) else math.inf
        self._beside = self._beside[0], cpu + used.ru_utime + used.ru_stime, written

    @property
    def is_needed(self) -> bool:
        return any(name in self._amounts for name in WATCHED)

    def sample(self) -> Exceeded | None:
        """The first limit that is crossed now. Raises OSError where nobody can look: we have no descriptor left."""
        if self._group is not None and (limit := self._group.crossed()):
            return self._exceeded(limit)
        pids, *used = self._beside
        tree = [*descendants(self._pid), *(one for pid in pids for one in descendants(pid))]
        for name, measure in (
            ("cpu", lambda: self._cpu(tree, used[0])),
            ("memory", lambda: self._memory(tree)),
            ("processes", lambda: sum(map(_threads, tree)) - self._keepers),
            ("disk", lambda: sum(map(_written, tree)) + used[1] + self._in_memory(tree)),
        ):
            if name in self._amounts and measure() > self._amounts[name]:
                return self._exceeded(name)
        return None

    def at_the_end(self, ending: Ending) -> Ending:
        """The ending, or the limit behind it."""
        if self._group is not None and (limit := self._group.crossed()):
            return self._exceeded(limit)
        if isinstance(ending, Signalled):
            limit = _BY_SIGNAL.get(signal.Signals(ending.signal)) if ending.signal < 32 else None
            if limit in self._amounts:
                return self._exceeded(limit)
        return ending

    def _exceeded(self, limit: str) -> Exceeded:
        return Exceeded(limit, self._amounts[limit])

    def _cpu(self, tree: list[int], ended: float) -> float:
        counted = None if self._group is None else self._group.cpu_seconds()
        return sum(map(_cpu_seconds, tree)) + ended if counted is None else counted

    def _memory(self, tree: list[int]) -> float:
        """What the processes have in memory; where that is too much, what is shared is counted once."""
        if self._group is not None and self._group.holds_memory:
            return 0.0
        amount, private = self._amounts["memory"], self._in_memory(tree)
        resident = sum(map(_resident, tree)) + private
        return resident if resident <= amount else sum(map(_share, tree)) + private

    def _in_memory(self, tree: list[int]) -> float:
        """What is in the private directories, each counted once however many processes see it."""
        known, found = {os.stat(f"/{name}").st_dev for name in _PRIVATE if os.path.exists(f"/{name}")}, 0.0
        most = max(self._amounts.get("disk", 0), self._amounts.get("memory", 0)) + _MARGIN
        for pid in reversed(tree):
            for name in _PRIVATE:
                path = f"/proc/{pid}/root/{name}"
                try:
                    device = os.stat(path).st_dev
                    if device in known:  # or it is the host's: before the view is attached, and where there is none
                        continue
                    one = os.statvfs(path)
                except OSError:
                    continue  # it has just ended, or does not let itself be looked at
                known.add(device)
                is_ours = one.f_blocks * one.f_frsize <= most  # and not something larger that is shown there
                found += (one.f_blocks - one.f_bfree) * one.f_frsize if is_ours else 0
        return found


def hides_processes(mountinfo: str = "/proc/self/mountinfo") -> bool:
    """Whether /proc hides from us who does not let itself be looked at (hidepid): a warden, and so all below it."""
    if os.geteuid() == 0:
        return False
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split() for line in file]
    said = next((row[-1] for row in reversed(rows) if row[4] == "/proc"), "")
    options = dict(option.partition("=")[::2] for option in said.split(","))
    how = options.get("hidepid", "0")
    if how in ("4", "ptraceable"):
        return True
    return how not in ("0", "off") and int(options.get("gid", "0")) not in (os.getegid(), *os.getgroups())


def descendants(pid: int) -> list[int]:
    """A process and everything below it, as far as it holds still."""
    found, at = [pid], 0
    while at < len(found):
        try:
            for task in os.listdir(f"/proc/{found[at]}/task"):
                found += map(int, _read(f"/proc/{found[at]}/task/{task}/children").split())
        except OSError as error:
            check_means(error)  # else it has ended, or is not for us to look at: to count nothing would be a lie
        at += 1
    return found


def _read(path: str) -> str:
    try:
        with open(path, "rb", 0) as file:  # whole: the kernel gives a page at a time, and some are longer
            return file.read().decode("ascii", "replace")
    except OSError as error:
        check_means(error)
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _cpu_seconds(pid: int) -> float:
    """Its own time, and that of the children it has waited for."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS if len(fields) > 15 else 0.0


def _threads(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[17]) if len(fields) > 17 and fields[0] != "Z" else 0


def _share(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _written_by_us() -> float:
    try:
        return _written(os.getpid())
    except OSError:
        return math.inf


def _written(pid: int) -> int:
    """What it, and the children it has waited for, wrote to file systems on disk and did not take back."""
    counts = dict(line.split(": ") for line in _read(f"/proc/{pid}/io").splitlines())
    return max(0, int(counts.get("write_bytes", 0)) - int(counts.get("cancelled_write_bytes", 0)))
