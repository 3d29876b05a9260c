"""Why this machine gives no view, and the exact words that would change it.

That there is none was found by trying. What forbids it is read here: the few switches that kernels, distributions,
containers and service managers have for it. `read` looks, `explain` is pure.
"""

import errno
import os
from typing import NamedTuple

from ..model import Host

APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
MOST = "/proc/sys/user/max_user_namespaces"
CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
CONTAINERS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


class Clues(NamedTuple):
    """What can be read of the switches. A number is -1 where the kernel has no such switch."""

    apparmor: int = -1
    most: int = -1
    clone: int = -1
    filtered: bool = False  # we run under a seccomp filter ourselves
    masked: bool = False  # parts of /proc are covered or read-only, so no fresh one may be mounted
    container: str = ""
    unit: str = ""  # the systemd service we run in
    inside: bool = False  # a run of ringfence's


def _number(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read() -> Clues:
    """Look at the switches."""
    container = next((name for path, name in CONTAINERS.items() if os.path.exists(path)), "")
    names = _text("/proc/self/cgroup").strip().rpartition(":")[2].split("/")
    unit = next((name for name in reversed(names) if name.endswith(".service")), "")
    points = [line.split(" ", 5)[4] for line in _text("/proc/self/mountinfo").splitlines() if line.count(" ") >= 5]
    return Clues(
        apparmor=_number(APPARMOR),
        most=_number(MOST),
        clone=_number(CLONE),
        filtered="\nSeccomp:\t2" in _text("/proc/self/status"),
        masked=any(point.startswith("/proc/") for point in points if point != "/proc/sys/fs/binfmt_misc"),
        container=container,
        unit=unit if not unit.startswith("user@") else "",
        inside="RINGFENCE" in os.environ,
    )


def profile(name: str, program: str) -> str:
    """An AppArmor profile that gives one program user namespaces and takes nothing from it."""
    return (
        "abi <abi/4.0>,\n"
        "include <tunables/global>\n"
        f'profile {name} "{program}" flags=(unconfined) {{\n'
        "  userns,\n"
        f"  include if exists <local/{name}>\n"
        "}\n"
    )


def install(name: str, program: str) -> str:
    """The command that puts a profile in place."""
    path = f"/etc/apparmor.d/{name}"
    return f"sudo tee {path} <<'END' && sudo apparmor_parser -r {path}\n{profile(name, program)}END"


def explain(host: Host, clues: Clues, program: str) -> list[tuple[str, str]]:
    """Each reason found, with its way out, the likeliest first. None where nothing is wrong."""
    if host.namespaces:
        return [] if host.fresh_proc else _proc(clues)
    if host.namespaces_why.endswith(os.strerror(errno.ENOSPC)):
        why = f"there may be no more user namespaces (user.max_user_namespaces is {clues.most} here)"
        return [(why, "sudo sysctl -w user.max_user_namespaces=10000, on the host or where the limit was set")]
    found = []
    if clues.clone == 0 and host.uid != 0:
        found.append(("kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"))
    if clues.apparmor == 1 and host.uid != 0:
        why = "AppArmor lets only known programs have user namespaces (Ubuntu 23.10 and later)"
        found.append(
            (why, f"{install('ringfence', program)}\nor, for bubblewrap:\n{install('bwrap', '/usr/bin/bwrap')}")
        )
    if clues.container:
        found.append((f"a {clues.container} container forbids them by its seccomp filter", _container(clues.container)))
    elif clues.filtered and clues.unit:
        why = f"the unit {clues.unit} has a system call filter"
        found.append((why, f"sudo systemctl edit {clues.unit}\n[Service]\nRestrictNamespaces=no\nSystemCallFilter="))
    elif clues.filtered:
        found.append(("we run under a seccomp filter already", "start ringfence outside the other sandbox"))
    if not found:
        why = "the kernel has no user namespaces, or another security module forbids them"
        found.append((why, "a kernel with CONFIG_USER_NS, NET_NS, PID_NS and IPC_NS; `dmesg` names a denial"))
    return found


def _container(name: str) -> str:
    unmasked = "unmask=ALL" if name == "podman" else "systempaths=unconfined"
    return (
        f"{name} run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        f"--security-opt {unmasked} IMAGE"
    )


def _proc(clues: Clues) -> list[tuple[str, str]]:
    """A view, but the kernel does not show the processes of the run alone."""
    if clues.container:
        return [(f"the {clues.container} container masks parts of /proc", _container(clues.container))]
    if clues.unit and clues.masked:
        why = f"the unit {clues.unit} has /proc/sys read-only"
        return [(why, f"sudo systemctl edit {clues.unit}\n[Service]\nProtectKernelTunables=no\nProtectKernelLogs=no")]
    return [("parts of /proc are masked", "mount nothing below /proc where ringfence is started")]
