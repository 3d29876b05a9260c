"""From what is wanted, what was asked to run, and what the machine and the disk are: what will be done.

Pure. `make_plan` is the narrative; each paragraph gives steps, or gaps, or both. The walls depend on the policy, the
machine and the disk alone and can be kept from run to run; the command's own steps are put between them.
"""

import msgspec

from ..model import (
    BUILT_IN,
    Access,
    Command,
    Disk,
    Enforcement,
    Gap,
    Host,
    Kind,
    Need,
    Place,
    Plan,
    Policy,
    Step,
    StepKind,
    Verdict,
)
from . import allowlist, landlock, view
from .gaps import glob_gaps, grant_gaps, kernel_gaps, link_gaps
from .own import own_steps
from .regions import Region, State, changes, is_below, regions
from .rules import DEVICES, PRIVATE, as_viewed, git_path, has_view, narrowed, without_swayed
from .syscalls import Sockets, filter_for

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
RLIMIT_CORE = 4


class Walls(msgspec.Struct, frozen=True):
    """What holds a run, whatever it runs: the steps before the command's own, those after, and the gaps."""

    head: tuple[Step, ...]
    tail: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    in_force: tuple[str, ...]
    detached: bool = False
    has_warden: bool = False


NO_WALLS = Walls((), (), (), ("nothing: enforcement is off",))


def named_paths(policy: Policy) -> list[str]:
    """Every path the planner will ask the disk about first."""
    fixed = ["/proc", view.DEV, "/dev/pts", "/dev/ptmx", *PRIVATE, *(f"{view.DEV}/{name}" for name in view.NODES)]
    named = [git_path(policy), *(rule.path for rule in policy.rules if not rule.glob)]
    return [*named, *fixed, *(path for injection in policy.injections for path in (injection.source, injection.target))]


def lay_out(policy: Policy, host: Host, disk: Disk, temporary: str) -> list[Region]:
    """The rules as regions of this disk, as this machine can hold them."""
    policy = without_swayed(policy, disk)
    if has_view(host):
        return regions(as_viewed(policy, disk), disk, PRIVATE)
    return regions(narrowed(policy, disk, temporary, host.uid), disk)


def further_paths(found: list[Region], host: Host) -> tuple[list[str], list[str]]:
    """What the planner asks the disk next: the directories to pin with a view, and those to list without one."""
    if not has_view(host):
        return [], sorted(allowlist.spines(found))
    return [path for region, above in changes(found) for path in view.pins(region, above)], []


def absent_names(policy: Policy, disk: Disk) -> tuple[str, ...]:
    """Protected names in the workspace that do not exist, and so cannot be held: they are looked for before and after
    a run."""
    return tuple(
        dict.fromkeys(
            disk[rule.path].path
            for rule in policy.rules
            if rule.access is Access.WRITE
            and rule.verdict is not Verdict.ALLOW
            and not rule.glob
            and disk[rule.path].kind is Kind.MISSING
            and is_below(disk[rule.path].path, policy.workspace)
        )
    )


def covered_places(found: list[Region], host: Host) -> tuple[Place, ...]:
    """What the view covers: when another object stands there, it stands there uncovered."""
    if not has_view(host):
        return ()
    return tuple(
        region.place
        for region, above in changes(found)
        if above is not None and region.place.kind is not Kind.MISSING and region.state in (State.HIDDEN, State.READ)
    )


def make_plan(policy: Policy, command: Command, host: Host, disk: Disk) -> Plan:
    """What will be done, and what was asked and cannot be."""
    found = lay_out(policy, host, disk, command.temporary)
    return assemble(make_walls(policy, host, disk, command, found), policy, command, host)[0]


def make_walls(policy: Policy, host: Host, disk: Disk, command: Command, found: list[Region]) -> Walls:
    """Everything but the command's own steps."""
    if policy.enforcement is Enforcement.OFF:
        return NO_WALLS
    if host.system != "linux":
        gap = Gap("a sandbox", f"{host.system} is not supported yet", Need.REQUIRED, BUILT_IN)
        return Walls((), (), (gap,), ())
    asked, policy = policy, without_swayed(policy, disk)
    handled = landlock.handled(host.landlock_abi, view=has_view(host) and not is_root_hidden(found))
    build = with_view if has_view(host) else without_view
    head, grants, gaps = build(policy, host, disk, command, found, handled)
    closed = not policy.network.open
    head.append(Step(StepKind.NO_NEW_PRIVS, "no program can give more rights (no_new_privs)"))
    if has_view(host):
        head.append(Step(StepKind.COMMAND, "the command's own process, the warden's child"))
    if command.detached:
        head.append(Step(StepKind.SESSION, "a session of its own"))
    head.append(Step(StepKind.LIMIT, "no core files", (RLIMIT_CORE, 0, 0)))
    tail = ruleset(host, handled, grants, closed)
    tail.append(Step(StepKind.CAPABILITIES, "no capabilities, now or after exec"))
    tail += seccomp(policy, host, gaps)
    gaps += kernel_gaps(host) + [Gap(ask.key, ask.why, ask.need, ask.origin) for ask in policy.asks]
    gaps += glob_gaps(policy) + grant_gaps(asked, disk)
    why = "the names are protected at the top of the workspace alone"
    gaps.append(
        Gap("hooks and configuration of repositories inside the workspace unwritable", why, Need.WANTED, BUILT_IN)
    )
    why = "the command holds it, and may change what is its own user's"
    gaps.append(Gap("the mode of a terminal on 0 to 2 kept", why, Need.WANTED, BUILT_IN))
    sentences = in_force(policy, host)
    return Walls(tuple(head), tuple(tail), tuple(gaps), sentences, command.detached, has_view(host))


Made = tuple[list[Step], list[Step], list[Gap]]


def with_view(policy: Policy, host: Host, disk: Disk, command: Command, found: list[Region], handled: int) -> Made:
    """Namespaces, the mounts, and Landlock over what they leave writable."""
    uid, gid = host.uid, host.gid
    private_network = not policy.network.open
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if private_network else 0)
    names = "user, mount, ipc" + (", network" if private_network else "")
    head = [
        Step(StepKind.NAMESPACES, f"namespaces of its own: {names}", (flags,)),
        Step(StepKind.ID_MAP, f"user {uid} and group {gid} as they are", (uid, uid, gid, gid)),
    ]
    if private_network:
        head.append(Step(StepKind.LOOPBACK, "a loopback of its own, and no other interface"))
    head.append(Step(StepKind.VIEW, "the mount tree copied, all of it read-only", (0 if host.detached_mounts else 1,)))
    changed = changes(found)
    mounts, gaps = view.lower(changed, disk)
    head += (
        mounts
        + injections(policy, disk, gaps)
        + [Step(StepKind.ATTACH, "the view becomes the root; the host's tree is let go")]
    )
    grants = [step for region, _ in changed for step in granted(region, handled)]
    if is_root_hidden(found):
        grants += hidden_root(disk, handled, gaps)
    gaps += link_gaps(policy, disk)
    why = "a mount goes with the file it covers, and what stands there then is not covered"
    gaps.append(
        Gap("what somebody outside replaced during the run kept hidden or unwritable", why, Need.WANTED, BUILT_IN)
    )
    why = "connect() to a path is not judged yet; /run, /tmp and homes are hidden"
    gaps.append(Gap("unix sockets of the host in visible directories unreachable", why, Need.WANTED, BUILT_IN))
    head.append(Step(StepKind.WARDEN, "a warden stays as pid 1 of its own pid namespace: when it ends, all ends"))
    if host.fresh_proc:
        head.append(Step(StepKind.PROC, "a /proc that shows this run and nobody else, read-only"))
        return head, grants + devices(disk, handled, SHM_PRIVATE), gaps
    gaps.append(
        Gap(
            "other processes invisible",
            "their names show in /proc; signals, memory and files do not",
            Need.WANTED,
            BUILT_IN,
        )
    )
    return head, grants + devices(disk, handled, SHM_PRIVATE), gaps


def is_root_hidden(found: list[Region]) -> bool:
    """Whether somebody closed everything, and then opened some of it. The view cannot hide what it stands on; Landlock
    then holds reading as well."""
    return not found or found[0].path != "/" or found[0].state is State.HIDDEN


def hidden_root(disk: Disk, handled: int, gaps: list[Gap]) -> list[Step]:
    """What a run needs to read although everything is closed: its own /proc."""
    if not handled & landlock.READ_FILE:
        gaps.append(Gap("everything hidden but what is allowed", "no Landlock here", Need.REQUIRED, BUILT_IN))
        return []
    why = "the view shows them, and Landlock refuses to open them"
    gaps.append(Gap("names and sizes of what is closed invisible", why, Need.WANTED, BUILT_IN))
    proc = msgspec.structs.replace(disk["/proc"], device=0, inode=0)
    return [allowlist.beneath(proc, landlock.READ & handled, "read")]


def granted(region: Region, handled: int) -> list[Step]:
    """Landlock's leave for a region; a private one is made by the view, so nobody knows its identity yet."""
    place = region.place
    if place.kind is Kind.MISSING or region.state is State.HIDDEN or view.is_device(place.path):
        return []
    if place.path == "/proc" or is_below(place.path, "/proc"):
        return []  # the view's own, and granted whole where it must be
    if region.state is State.READ:
        rights = landlock.READ & handled
        return [allowlist.beneath(place, rights, "read")] if rights else []
    if region.state is State.PRIVATE:
        place = msgspec.structs.replace(place, device=0, inode=0)
    return [allowlist.beneath(place, (landlock.GRANTED_WRITE | landlock.READ) & handled, "write")]


def injections(policy: Policy, disk: Disk, gaps: list[Gap]) -> list[Step]:
    """Files and directories shown read-only at another place."""
    steps = []
    for injection in policy.injections:
        source, target = disk[injection.source], disk[injection.target]
        if Kind.MISSING in (source.kind, target.kind) or (source.kind is Kind.DIRECTORY) != (
            target.kind is Kind.DIRECTORY
        ):
            why = "both must exist and be of one kind, for nothing is created on the host"
            gaps.append(Gap(f"{source.path} shown at {target.path}", why, Need.REQUIRED, injection.origin))
            continue
        text = f"{target.path} shows {source.path}, read-only ({injection.origin})"
        steps.append(view.mount(view.BIND, text, target.path, source.path, flags=view.READ_ONLY, place=source))
    return steps


SHM_PRIVATE, SHM_SHARED = True, False


def devices(disk: Disk, handled: int, private: bool) -> list[Step]:
    """The few device nodes, terminals and shared memory, as programs expect them."""
    rights = landlock.READ_FILE | landlock.WRITE_FILE | landlock.TRUNCATE
    terminal = rights | landlock.IOCTL_DEV | landlock.READ_DIR
    rows = [(f"{view.DEV}/{name}", rights) for name in view.NODES if name != "tty"]
    rows += [("/dev/tty", terminal), ("/dev/pts", terminal)]
    if not private:
        rows += [("/dev/ptmx", terminal), (view.SHM, landlock.GRANTED_WRITE | landlock.READ)]
    steps = []
    for path, wanted in rows:
        place = disk[path]
        given = wanted & handled
        if place.kind is Kind.MISSING or not given:
            continue
        if private and path == "/dev/pts":  # made by the view
            place = msgspec.structs.replace(place, path=path, device=0, inode=0)
        steps.append(allowlist.beneath(place, given, "use"))
    return steps


def without_view(policy: Policy, host: Host, disk: Disk, command: Command, found: list[Region], handled: int) -> Made:
    """Landlock alone, with every right, and what that cannot hold."""
    grants, gaps = allowlist.lower(found, host.landlock_abi, disk)
    why = "there is no view here: " + (host.namespaces_why or f"the {host.enactor.value} enactor cannot build one")
    way_out = "`ringfence doctor` says how to get one"

    def gap(what: str, need: Need = Need.WANTED) -> None:
        gaps.append(Gap(what, why, need, BUILT_IN, way_out))

    gap(
        "chmod, chown, utime and xattr outside the workspace",
        Need.REQUIRED if host.uid == 0 else Need.WANTED,
    )
    gap("a private /tmp: programs that do not ask TMPDIR are refused there")
    gap("a private /dev/shm: it is shared with the host")
    gap("other processes invisible, and safe from being slowed (sched_setaffinity)")
    gap("other terminals of the same user unreachable: /dev/pts is shared with the host")
    gap("no process outlives the run: one that leaves the command's session does")
    gap("names and sizes of hidden files invisible")
    gap("the secrets of the system in /etc and /var/lib hidden: their own modes hold them")
    if not (policy.network.open or policy.network.all_unix_sockets):
        gap("unix sockets among the run's own processes: socket(AF_UNIX) is refused, socketpair works")
    protected = [
        rule
        for rule in policy.rules
        if rule.verdict is Verdict.DENY and rule.access is Access.WRITE and rule.need is Need.WANTED
    ]
    if protected:
        gap(f"the {len(protected)} protected names in the workspace unwritable")
    for injection in policy.injections:
        gaps.append(
            Gap(f"{injection.source} shown at {injection.target}", why, Need.REQUIRED, injection.origin, way_out)
        )
    return [], grants + devices(disk, handled, SHM_SHARED), gaps


def ruleset(host: Host, handled: int, grants: list[Step], closed: bool) -> list[Step]:
    """Landlock: what is taken away, what is given back, and the border for signals and sockets."""
    abi = host.landlock_abi
    if abi < 1:
        return []
    with_a_view = has_view(host)
    # With a network namespace of its own the run may use TCP inside it; without one, none.
    tcp = landlock.network(abi) if closed and not with_a_view else 0
    numbers = (handled, tcp, landlock.scopes(abi))
    text = f"Landlock ABI {abi}: rights {numbers[0]:#x}, TCP {tcp:#x}, scopes {numbers[2]:#x} taken away"
    usable = landlock.known(landlock.READ_FILE | landlock.WRITE_FILE | landlock.IOCTL_DEV, abi) & numbers[0]
    return [
        Step(StepKind.RULESET, text, numbers),
        *grants,
        Step(StepKind.TERMINALS, "terminals on 0 to 2 may be opened again", (usable,)),
        Step(StepKind.RESTRICT, "Landlock in force"),
    ]


def seccomp(policy: Policy, host: Host, gaps: list[Gap]) -> list[Step]:
    """The table of closed system calls."""
    if not host.seccomp:
        gaps.append(Gap("dangerous system calls closed", "no seccomp filters here", Need.REQUIRED, BUILT_IN))
        return []
    with_a_view = has_view(host)
    allowed = Sockets(0)
    if policy.network.open or with_a_view:  # a view has a network of its own, with a loopback alone
        allowed = Sockets.UNIX | Sockets.INET | Sockets.NETLINK_ROUTE
    elif policy.network.all_unix_sockets:
        allowed = Sockets.UNIX
    names = ", ".join(member.name or "" for member in Sockets if member in allowed) or "none"
    program = filter_for(host.arch, allowed, private_ipc=with_a_view)
    text = f"seccomp: {len(program) // 8} instructions; sockets: {names}"
    return [Step(StepKind.SECCOMP, text, (), (program,))]


def writable_paths(policy: Policy) -> list[str]:
    """What was asked to be writable, beside private directories and devices."""
    asked = [rule.path for rule in policy.rules if rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW]
    return [path for path in dict.fromkeys(asked) if path not in DEVICES and path not in PRIVATE]


def in_force(policy: Policy, host: Host) -> tuple[str, ...]:
    """What holds once the steps are done, in sentences. What does not hold has no sentence here, but a gap."""
    abi, viewed = host.landlock_abi, has_view(host)
    writable = ", ".join(writable_paths(policy))
    by = ["mounts"] * viewed + [f"Landlock ABI {abi}"] * (abi >= 1)
    rows = (
        (by, f"files: only {writable} and private directories are writable ({' and '.join(by)})"),
        (policy.network.open, "network: the host's (allowed)"),
        (viewed and not policy.network.open, "network: closed but for the run's own loopback"),
        (host.seccomp and not viewed and not policy.network.open, "network: closed (seccomp)"),
        (host.seccomp, "system calls: the table of escapes is closed (seccomp)"),
        (True, "privileges: no capabilities; no_new_privs"),
        (abi >= landlock.SCOPES_SINCE, "signals and abstract sockets: none outside the run (Landlock)"),
    )
    return tuple(sentence for holds, sentence in rows if holds)


def assemble(walls: Walls, policy: Policy, command: Command, host: Host) -> tuple[Plan, list[Step], Step]:
    """The command's own steps between the walls; they are given beside the plan, for whoever encodes them anew."""
    own, last = own_steps(policy, command, host)
    steps = (*walls.head, *own, *walls.tail, last)
    plan = Plan(
        steps,
        walls.gaps,
        policy.enforcement,
        command.argv,
        policy.workspace,
        walls.in_force,
        command.ids,
        detached=walls.detached,
        has_warden=walls.has_warden,
    )
    return plan, own, last


def shows(policy: Policy, path: str, host: Host) -> bool:
    """Whether a file of the host can be opened again inside by the same path."""
    private = (*PRIVATE, view.DEV) if has_view(host) else ()
    return path.startswith(policy.workspace + "/") or not any(is_below(path, above) for above in private)
