"""Limits: what holds each of them here, as steps and sentences, and what of it is weaker than it sounds. Pure.

The kernel's own limits (setrlimit) count a process, not a run. A control group counts the run; where none can be made,
whoever started the run looks at its processes ten times a second and adds up.
"""

from ..model import BUILT_IN, Gap, Host, Limit, Need, Policy, Step, StepKind
from .rules import has_view

RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_NOFILE = 0, 1, 2, 4, 6, 7
KEEPERS = 2  # the outer process and the warden count too, where there are such
BACKSTOP = 2  # so many times its limit the kernel refuses, where somebody must look to tell that it was crossed
MARGIN = 1 << 16  # beyond the limit, so that whoever looks can tell that it was crossed

_WAY_OUT = "run as root, or in a delegated cgroup (systemd-run --user --scope -p Delegate=yes)"


_BY_GROUP = {"memory": "memory", "processes": "pids", "cpu": "cpu"}


def controllers(policy: Policy, host: Host) -> tuple[str, ...]:
    """Which controllers of a group of its own the run will have."""
    return tuple(sorted({_BY_GROUP.get(limit.name, "") for limit in policy.limits} & {*host.cgroups}))


def limit_steps(policy: Policy, host: Host) -> list[Step]:
    """The kernel's own limits, each for every process of the run."""
    text = "no core files, and nobody outside is started for a crash" if host.core_limit else "no core files"
    steps = [Step(StepKind.LIMIT, text, (RLIMIT_CORE, host.core_limit, host.core_limit))]
    for limit in policy.limits:
        amount = -int(-limit.amount // 1)  # upwards
        if limit.name == "cpu":
            text = f"cpu: each process is ended after {amount} s ({limit.origin})"
            steps.append(Step(StepKind.LIMIT, text, (RLIMIT_CPU, amount, amount + 1)))
        elif limit.name == "fileSize":
            text = f"fileSize: no file grows beyond {amount} bytes ({limit.origin})"
            steps.append(Step(StepKind.LIMIT, text, (RLIMIT_FSIZE, amount, amount)))
        elif limit.name == "files":
            text = f"files: no more than {amount} open in each process ({limit.origin})"
            steps.append(Step(StepKind.LIMIT, text, (RLIMIT_NOFILE, amount, amount)))
        elif limit.name == "memory" and "memory" not in host.cgroups:
            most = amount * BACKSTOP
            text = f"memory: no process takes more than {most} bytes of its own, should nobody look in time"
            steps.append(Step(StepKind.LIMIT, text, (RLIMIT_DATA, most, most)))
        elif limit.name == "processes" and "pids" not in host.cgroups and _counts_own(host):
            most = amount * BACKSTOP + KEEPERS
            text = f"processes: never more than {amount * BACKSTOP} of its own, should nobody look in time"
            steps.append(Step(StepKind.LIMIT, text, (RLIMIT_NPROC, most, most)))
    return sorted(steps, key=lambda step: step.kind)


def _counts_own(host: Host) -> bool:
    """Whether the kernel counts the run's processes alone: in a user namespace of its own it does, but never root's."""
    return has_view(host) and host.uid != 0


def tmpfs_size(policy: Policy, host: Host) -> int:
    """How large a private file system in memory may grow; 0 is the kernel's own measure."""
    amounts = {limit.name: int(limit.amount) for limit in policy.limits}
    sizes = [amounts["disk"] + MARGIN] if "disk" in amounts else []
    sizes += [amounts["memory"]] if "memory" in amounts and "memory" not in host.cgroups else []
    return min(sizes, default=0)


def limits_in_force(policy: Policy, host: Host) -> tuple[str, ...]:
    """Which mechanism holds each limit, a sentence each."""
    return tuple(f"limit: {limit}, held by {_mechanism(limit, host)}" for limit in policy.limits)


def _mechanism(limit: Limit, host: Host) -> str:
    group, looks = "a control group of its own", "the supervisor, which looks every 0.1 s"
    if limit.name == "timeout":
        return "the supervisor's clock"
    if limit.name == "output":
        return "the supervisor, which passes no more on"
    if limit.name == "fileSize":
        return "setrlimit, for each file; SIGXFSZ ends who goes beyond"
    if limit.name == "files":
        return "setrlimit, for each process; the call beyond is refused"
    if limit.name == "cpu":
        return f"setrlimit for each process, and {group if 'cpu' in host.cgroups else looks} for all"
    if limit.name == "memory":
        return group if "memory" in host.cgroups else looks
    if limit.name == "processes":
        return group if "pids" in host.cgroups else looks
    return f"the size of its private directories, and {looks}" if has_view(host) else looks


def limit_gaps(policy: Policy, host: Host) -> list[Gap]:
    """What is weaker than it sounds."""
    rows: list[tuple[Limit, str, str, str]] = []
    for limit in policy.limits:
        if limit.name == "memory" and "memory" not in host.cgroups:
            why = "no control group can be made here, so it is looked at every 0.1 s; what is shared counts once, and"
            why += " what no process has mapped (memfd_create, pipes, sockets) does not count"
            rows.append((limit, "memory held by the kernel", why, _WAY_OUT))
        if limit.name == "processes" and "pids" not in host.cgroups:
            why = "no control group can be made here, so they are counted every 0.1 s"
            if not _counts_own(host):
                why += "; and setrlimit would count the user's other processes, or not count root's"
            rows.append((limit, "the number of processes held by the kernel", why, _WAY_OUT))
        if limit.name == "cpu" and "cpu" not in host.cgroups:
            why = "children that their parent never waited for are counted only while they live"
            rows.append((limit, "processor time of all processes counted", why, _WAY_OUT))
        if limit.name == "disk":
            why = "writes are counted every 0.1 s, those of orphans only while they live; names, links and attributes"
            why += " do not count everywhere, nor what processes write that hide from their user (not dumpable) where"
            why += " he is not root"
            rows.append((limit, "disk space held by the kernel", why, "a quota of the file system"))
    gaps = [Gap(what, why, Need.WANTED, limit.origin, way_out) for limit, what, why, way_out in rows]
    return gaps + _hidden_gaps(policy, host) + _crash_gaps(host)


def _hidden_gaps(policy: Policy, host: Host) -> list[Gap]:
    """Limits that nothing holds where nobody sees the run's processes."""
    why, shown = "/proc hides the run's processes (hidepid)", "sudo mount -o remount,hidepid=0 /proc"
    ways_out = dict.fromkeys(_BY_GROUP, f"{shown}; or {_WAY_OUT}") | {"disk": shown}
    return [
        Gap(f"the limit of {limit.name}", why, Need.REQUIRED, limit.origin, ways_out[limit.name])
        for limit in policy.limits
        if host.hides_processes and limit.name in ways_out and _BY_GROUP.get(limit.name) not in host.cgroups
    ]


def _crash_gaps(host: Host) -> list[Gap]:
    """Where the host hears of crashes: a program is not started at a limit of one byte, but at none at all it is, and a
    socket is told whatever the limit."""
    if host.core_handler == "@":
        why, way_out = "core_pattern names a socket, which the kernel tells of every crash", "a core_pattern without @"
    elif host.core_handler == "|" and not host.core_limit:
        why, way_out = "core_pattern names a program, and the hard limit of core files is 0", "a hard limit of 1 byte"
    else:
        return []
    return [Gap("crashes kept from the host's programs", why, Need.WANTED, BUILT_IN, way_out)]
