"""The walls by the means of a machine: with a view, or by Landlock alone. Pure.

Each gives the steps before the command's own process, what Landlock grants, and what cannot be held.
"""

import msgspec

from ..model import BUILT_IN, Command, Disk, Gap, Host, Kind, Need, Policy, Step, StepKind
from . import allowlist, caches, crowds, landlock, limits, patterns, table, view
from .gaps import FEWER, TOO_MANY, link_gaps
from .network import doors, is_apart, port_steps, wants_datagrams
from .regions import Region, State, changes, is_below
from .rules import has_broker, has_unix_sockets, has_warden, is_nesting, is_protecting, is_swayed, narrowed

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000

Made = tuple[list[Step], list[Step], list[Gap]]


def with_view(
    policy: Policy,
    host: Host,
    disk: Disk,
    command: Command,
    found: list[Region],
    handled: int,
    many: crowds.Homed,
    layered: list[caches.Layered],
) -> Made:
    """Namespaces, the mounts, and Landlock over what they leave writable."""
    private_network = not policy.network.open
    changed = changes(found)
    pins = [*crowds.pins(many), *(place.asked for place in view.sockets(found))]
    mounts, gaps = view.lower(changed, disk, limits.tmpfs_size(policy, host), pins, command.shelf.home)
    mounts += crowds.mounts(many)
    if is_nesting(policy, host):
        why = "programs may make sandboxes of their own, and no Landlock domain around them would let them"
        gaps.append(Gap("a second lock on writing, behind the mounts", why, Need.WANTED, BUILT_IN))
        if host.owns_group:
            why = "the control group is the user's own: who mounted it would end and slow what else is in it"
            gaps.append(
                Gap("control group namespaces in sandboxes inside (bwrap --unshare-all)", why, Need.WANTED, BUILT_IN)
            )
    if not has_broker(policy, host):
        gaps += uncreated(found)
    mounts += injections(policy, disk, gaps) + caches.mounts(command.shelf, layered)
    # A user namespace is given its ids by a file of /proc. Not to root: it could write the kernel's settings there.
    read_only = not policy.nested or host.uid == 0
    opened = [door.step() for door in doors(policy, host)]
    warden = Step(StepKind.WARDEN, "a warden stays as pid 1 of its own pid namespace: when it ends, all ends", (1,))
    if host.namespaces:
        head = [*own_view(host, mounts, private_network, opened), warden]
        text = "a /proc that shows this run and nobody else" + ", read-only" * read_only
        head += [Step(StepKind.PROC, text, (int(read_only),))] * host.fresh_proc
    else:
        from . import bubblewrap

        head = [*bubblewrap.lower(host, mounts, private_network, opened, read_only, gaps), warden]
        head += bubblewrap.verify(host, mounts, disk, read_only)
    above = {place.path for _, place in layered}  # what stands there is the overlay, and no longer what was planned for
    grants = [step for region, _ in changed if region.path not in above for step in granted(region, handled)]
    grants += caches.grants(layered, handled)
    if is_root_hidden(found):
        grants += hidden_root(disk, handled, gaps)
    gaps += _unheld(policy, host, disk, changed)
    head += _locked(policy, host, command, gaps)
    if not host.fresh_proc:
        why = "their names show in /proc; signals, memory and files do not"
        gaps.append(Gap("other processes invisible", why, Need.WANTED, BUILT_IN))
    return head, grants + devices(disk, handled, SHM_PRIVATE), gaps


def _locked(policy: Policy, host: Host, command: Command, gaps: list[Gap]) -> list[Step]:
    """Mounts that stay together when the run has ended, for whoever was handed a directory of it. In every run: the
    policy of another may let that one reach a socket that this one has made."""
    if host.namespaces:
        text = "the mounts are one, and stay so for who holds a directory of the run when it has ended"
        return [Step(StepKind.LOCK, text, (host.uid, host.uid, host.gid, host.gid))]
    if command.lends or not is_apart(policy, host):
        why = "descriptors pass through unix sockets, and when the run has ended its mounts are gone"
        gaps.append(Gap("what was hidden kept from who was handed a directory of the run", why, Need.WANTED, BUILT_IN))
    return []


def _unheld(policy: Policy, host: Host, disk: Disk, changed: table.Changed) -> list[Gap]:
    """What a view does not hold."""
    judged = has_broker(policy, host)
    gaps = link_gaps(policy, disk, kept=table.held_links(policy, disk, changed) if judged else ())

    def gap(what: str, why: str, way_out: str = "") -> None:
        gaps.append(Gap(what, why, Need.WANTED, BUILT_IN, way_out))

    why = "a mount goes with the file it covers, and what stands there then is not covered"
    gap("what somebody outside replaced during the run kept hidden or unwritable", why)
    around = (State.WRITE, State.PRIVATE)
    inside = [one for one, above in changed if one.state is State.READ and above is not None and above.state in around]
    if any(one.place.kind is not Kind.MISSING for one in inside):
        why = "a read-only mount does not hold a pipe, and Landlock's leave for what is around it holds for it too"
        gap("named pipes in read-only places inside writable or private ones unwritable", why)
    if host.uid == 0:
        why = "uid 0 may read it: counters, addresses, memory of devices; it is read-only"
        what = "what the kernel tells root alone, in /proc and /sys, kept from the command"
        gap(what, why, "a workspace that belongs to a plain user")
    if not judged:
        why = "nobody here judges connect() to a path; /run, /tmp and homes are hidden"
        gap("unix sockets of the host in visible directories unreachable", why)
    if wants_datagrams(policy):
        why = "the path is in the sending call, which nobody judges; /run, /tmp and homes are hidden"
        gap("datagrams to unix sockets of the host in visible directories", why)
    return gaps


def own_view(host: Host, mounts: list[Step], private_network: bool, doors: list[Step]) -> list[Step]:
    """Namespaces and mounts, made by the enactor itself."""
    uid, gid = host.uid, host.gid
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if private_network else 0)
    names = "user, mount, ipc" + (", network" if private_network else "")
    steps = [
        Step(StepKind.NAMESPACES, f"namespaces of its own: {names}", (flags,)),
        Step(StepKind.ID_MAP, f"user {uid} and group {gid} as they are", (uid, uid, gid, gid)),
    ]
    if private_network:
        steps += [Step(StepKind.LOOPBACK, "a loopback of its own, and no other interface"), *doors]
    steps.append(Step(StepKind.VIEW, "the mount tree copied, all of it read-only", (0 if host.detached_mounts else 1,)))
    return [*steps, *mounts, Step(StepKind.ATTACH, "the view becomes the root; the host's tree is let go")]


def uncreated(found: list[Region]) -> list[Gap]:
    """Denied names that do not exist yet, where nobody would refuse them."""
    return view.uncreated([region for region, above in changes(found) if view.is_creatable(region, above)])


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
    if place.kind is Kind.MISSING or region.state is State.HIDDEN or view.is_own_device(place.path):
        return []
    if place.path == "/proc" or is_below(place.path, "/proc"):
        return []  # the view's own, and granted whole where it must be
    wanted = landlock.READ if region.state is State.READ else landlock.GRANTED_WRITE | landlock.READ
    if region.state is State.WRITE and view.is_device(place.path):
        wanted |= landlock.IOCTL_DEV
    if region.state is State.PRIVATE:
        place = msgspec.structs.replace(place, device=0, inode=0)
    text = "read" if region.state is State.READ else "write"
    return [allowlist.beneath(place, wanted & handled, text)] if wanted & handled else []


def injections(policy: Policy, disk: Disk, gaps: list[Gap]) -> list[Step]:
    """Files and directories shown read-only at another place."""
    steps = []
    for injection in policy.injections:
        source, target = disk[injection.source], disk[injection.target]
        if is_swayed(injection, policy, disk):
            why = "there is a link on the way that the command itself may replace"
            gaps.append(Gap(f"{source.path} shown at {target.path}", why, Need.REQUIRED, injection.origin))
            continue
        if Kind.MISSING in (source.kind, target.kind) or (source.kind is Kind.DIRECTORY) != (
            target.kind is Kind.DIRECTORY
        ):
            why = "both must exist and be of one kind, for nothing is created on the host"
            need = Need.WANTED if injection.origin == BUILT_IN else Need.REQUIRED
            gaps.append(Gap(f"{source.path} shown at {target.path}", why, need, injection.origin))
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
        rows.append(("/dev/ptmx", terminal))
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
    gaps += [gap for region in found for gap in view.unfit(region, Need.WANTED if host.is_inside else Need.REQUIRED)]
    kept = narrowed(policy, disk, command.temporary, host)
    able = has_broker(policy, host)
    more, is_whole = patterns.in_place_of_mounts(policy, disk, found) if able else ([], False)
    judged = bool(more)
    gaps += [] if judged else link_gaps(kept, disk, held=allowlist.spines(found, allowlist.writable))
    why = "there is no view here: " + (host.namespaces_why or f"the {host.enactor.value} enactor cannot build one")
    way_out = "`ringfence doctor` says how to get one"
    if host.is_inside:
        # A run further inside must be able to look at what it grants child by child.
        listed = landlock.READ_DIR & handled
        grants += [allowlist.beneath(region.place, listed, "list") for region in found if region.path == "/"]
        grants = allowlist.united(grants)
        why, way_out = "inside another sandbox: it holds as far as the outer one holds it", ""

    def gap(what: str, need: Need = Need.WANTED) -> None:
        gaps.append(Gap(what, why, need, BUILT_IN, way_out))

    is_root = host.uid == 0 and not host.is_inside
    if is_root or not (judged and is_whole):
        gap("chmod, chown, utime and xattr of what may not be written", Need.REQUIRED if is_root else Need.WANTED)
    gap(
        "a private /tmp and /var/tmp"
        + ("" if host.is_inside else ": programs that do not ask TMPDIR are refused there")
        + "; runs of one caller with the same walls have one TMPDIR"
    )
    gap("a private /dev/shm: it is shared with the host")
    gap("other processes invisible" + ("" if judged else ", and safe from being slowed (sched_setaffinity)"))
    gap("other terminals of the same user unreachable: /dev/pts is shared with the host")
    if has_warden(host):
        gap("no process outlives the run when both its watchers are killed from outside at the same moment")
    else:
        gap("no process outlives the run: one that leaves the command's group does, and all where ringfence is killed")
    gap("names and sizes of hidden files invisible, with their attributes, links and when they are used (inotify)")
    gap("the secrets of the system in /etc and /var/lib hidden: their own modes hold them")
    if not has_unix_sockets(policy, host):
        gap("unix sockets among the run's own processes: socket(AF_UNIX) is refused, socketpair works")
    protected = list(filter(is_protecting, policy.rules))
    if more is None:
        gaps.append(Gap("what may not be written kept as it is", TOO_MANY, Need.REQUIRED, BUILT_IN, FEWER))
    elif protected and not judged:
        gap(f"the {len(protected)} protected names unwritable, in the workspace and in what is granted")
    for injection in policy.injections:
        gaps.append(
            Gap(f"{injection.source} shown at {injection.target}", why, Need.REQUIRED, injection.origin, way_out)
        )
    stays = Step(StepKind.WARDEN, "a warden stays; no signal leaves the run, so that it can end all of it", (0,))
    return [stays] * has_warden(host), [*grants, *devices(disk, handled, SHM_SHARED), *port_steps(policy)], gaps
