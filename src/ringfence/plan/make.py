"""From what is wanted, what was asked to run, and what the machine and the disk are: what will be done.

Pure. `make_walls` tells the story; each paragraph gives steps, or gaps, or both. The walls depend on the policy, the
machine and the disk alone and are kept from run to run (keep.py); the command's own steps are put between them
(command.py). `make_plan` does both for one command.
"""

from collections.abc import Sequence

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
    Observe,
    Place,
    Plan,
    Policy,
    Screen,
    Step,
    StepKind,
    Verdict,
)
from ..model.plan import UNHELD
from . import allowlist, caches, crowds, landlock, limits, patterns, table, view
from .aliases import upwards
from .gaps import (
    abstract_gaps,
    anywhere_gaps,
    asking_gaps,
    closed_gaps,
    dev_gaps,
    folding_gaps,
    glob_gaps,
    grant_gaps,
    kernel_gaps,
    name_gaps,
    proc_gaps,
    unmounted_gaps,
    worktree_gaps,
)
from .means import is_root_hidden, with_view, without_view
from .network import SIBLINGS, is_asked, network_gaps, wants_datagrams
from .own import exec_step, first_steps, given_variables
from .ready import filter_of
from .regions import Region, State, between, changes, is_below, regions
from .rules import (
    DEVICES,
    PRIVATE,
    as_viewed,
    has_broker,
    has_own_network,
    has_unix_sockets,
    has_view,
    has_warden,
    is_asking,
    is_nesting,
    narrowed,
    pointers,
    relies,
    without_swayed,
)
from .sorts import Judged, Sockets


class Walls(msgspec.Struct, frozen=True):
    """What holds a run, whatever it runs: the steps before the command's own, those after, and the gaps."""

    head: tuple[Step, ...]
    tail: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    in_force: tuple[str, ...]
    has_warden: bool = False
    controllers: tuple[str, ...] = ()  # what a control group of the run's own holds
    variables: dict[str, str] = {}  # what leads tools to caches of the workspace's own
    layered: tuple[str, ...] = ()  # caches of the host below a private layer: written, and nobody else ever sees it
    prefix: tuple[str, ...] = ()  # a program that holds the command, where no enactor does
    observe: Observe = Observe.NOTHING
    asks: bool = False  # what is refused waits for a person
    shows_asked: bool = False  # and what may be asked for is in sight: the warden itself opens it for reading

    @property
    def watched(self) -> tuple[str, ...]:
        """The path or pattern of each row of the warden's table."""
        return table.watched(self.head)

    def named(self, rows: Sequence[int]) -> list[str]:
        """What some of these rows are about."""
        watched = self.watched if rows else ()
        return [watched[row] for row in rows]


NO_WALLS = Walls((), (), (), (UNHELD,))


def named_paths(policy: Policy) -> list[str]:
    """Every path the planner will ask the disk about first."""
    fixed = ["/", "/proc", view.DEV, "/dev/pts", "/dev/ptmx", *PRIVATE, *(f"{view.DEV}/{name}" for name in view.NODES)]
    named = [policy.workspace, *pointers(policy), *(rule.path for rule in policy.rules if not rule.glob)]
    named += dict.fromkeys(rule.through for rule in policy.rules if rule.through)
    return [*named, *fixed, *(path for injection in policy.injections for path in (injection.source, injection.target))]


def lay_out(policy: Policy, host: Host, disk: Disk, temporary: str) -> list[Region]:
    """The rules as regions of this disk, as this machine can hold them."""
    policy = without_swayed(policy, disk)
    if host.system == "darwin":
        from . import seatbelt  # each backend where it is used: every run would wait for the others

        return seatbelt.lay_out(policy, disk, temporary)
    if has_view(host):
        return regions(as_viewed(_shown(patterns.by_use(policy, host, disk), host, disk), disk), disk, PRIVATE)
    return regions(narrowed(policy, disk, temporary, host), disk)


def _shown(policy: Policy, host: Host, disk: Disk) -> Policy:
    """The policy without the closed places that may be asked about, where the warden refuses to open them instead."""
    if not (is_asking(policy, host) and has_view(host)) or not patterns.can_ask(policy, disk):
        return policy
    return msgspec.structs.replace(policy, rules=tuple(rule for rule in policy.rules if not patterns.is_askable(rule)))


def further_paths(found: list[Region], host: Host, many: crowds.Homed = ()) -> tuple[list[str], list[str]]:
    """What the planner asks the disk next: the directories to pin with a view, and those to list without one."""
    if host.system == "darwin":
        return [], []
    if not has_view(host):
        from_outside: list[str] = []
        if relies(host):
            from . import inside  # where a run is inside another one, and nobody listens

            from_outside = inside.listed(found)
        return [], sorted({*allowlist.spines(found), *from_outside})
    changed = changes(found)
    pins = [path for region, above in changed for path in view.pins(region, above)]
    return [*pins, *table.ways(changed), *crowds.ways(many)], []


def link_ways(policy: Policy, disk: Disk, found: list[Region], host: Host) -> list[str]:
    """And the directories on the way to links that lead to something denied."""
    if not has_view(host):
        return []
    kept = table.links(without_swayed(policy, disk), disk, changes(found))
    return [path for link, home in kept.items() for path in between(link, home.path)]


def ways(found: list[Region], host: Host, many: crowds.Homed) -> list[str]:
    """The directories above what is held by its name: the disk says whether a name has other spellings there. Those of
    crowds were asked already."""
    if not has_view(host):
        return []  # Landlock holds objects
    tops = [
        region.path
        for region, above in changes(found)
        if above is not None and region.state in (State.HIDDEN, State.READ)
    ]
    tops += [held.crowd.directory for held in many]
    return sorted({above for top in tops for above in upwards(top.rpartition("/")[0] or "/")})


def covered_places(found: list[Region], host: Host) -> tuple[Place, ...]:
    """What the view covers: when another object stands there, it stands there uncovered."""
    if not has_view(host):
        return ()
    covered = [
        region.place
        for region, above in changes(found)
        if above is not None and region.place.kind is not Kind.MISSING and region.state in (State.HIDDEN, State.READ)
    ]
    return (*covered, *view.sockets(found))


def make_plan(policy: Policy, command: Command, host: Host, disk: Disk) -> Plan:
    """What will be done, and what was asked and cannot be."""
    walls = make_walls(policy, host, disk, command, lay_out(policy, host, disk, command.temporary))
    given = given_variables(policy, command, host, walls.variables)
    last = exec_step(command.program, command.argv, given, walls.prefix)
    steps = (*walls.head, *first_steps(command.cwd, command.streams), *walls.tail, last)
    found = outline(walls, policy, command.ids, command.screen)
    return msgspec.structs.replace(found, steps=steps, argv=command.argv)


def make_walls(
    policy: Policy, host: Host, disk: Disk, command: Command, found: list[Region], many: crowds.Homed = ()
) -> Walls:
    """Everything but the command's own steps. `many` are the crowds of names, which the policy does not have."""
    if policy.enforcement is Enforcement.OFF:
        return NO_WALLS
    if host.system == "darwin" and host.seatbelt:
        return with_profile(policy, host, disk, found)
    if host.system != "linux":
        gap = Gap("a sandbox", f"{host.system} is not supported yet", Need.REQUIRED, BUILT_IN)
        return Walls((), (), (gap,), ())
    asked, policy = policy, without_swayed(policy, disk)
    handled = landlock.handled(host.landlock_abi, view=has_view(host) and not is_root_hidden(found))
    if is_nesting(policy, host):
        handled = 0  # a domain that takes any right on files forbids to mount
    layered = caches.layered(command.shelf, host, disk, _unasked(policy, host, disk, found))
    if has_view(host):
        head, grants, gaps = with_view(policy, host, disk, command, found, handled, many, layered)
    else:
        head, grants, gaps = without_view(policy, host, disk, command, found, handled)
    names, judged, observe = warden_steps(policy, host, disk, command, found, many)
    head += [
        Step(StepKind.NO_NEW_PRIVS, "no program can give more rights (no_new_privs)"),
        *ruleset(host, handled, grants, not policy.network.open, ~command.screen.mask & 7),
        *([*names, Step(StepKind.COMMAND, "the command's own process, the warden's child")] * has_warden(host)),
        Step(StepKind.SESSION, "a session of its own"),
        *terminal(command.screen),
        *limits.limit_steps(policy, host),
    ]
    tail = [
        *(border(host, is_nesting(policy, host)) * has_warden(host)),
        Step(StepKind.CAPABILITIES, "no capabilities, now or after exec"),
        *seccomp(policy, host, gaps, bool(names) or is_asked(policy, host), judged),
    ]
    gaps += _outer_gaps(found, disk) if relies(host) else kernel_gaps(host)
    gaps += policy_gaps(asked, policy, host, disk, found, many)
    gaps += caches.gaps(command.shelf, host, disk, layered) + anywhere_gaps(command.screen)
    return Walls(
        tuple(head),
        tuple(tail),
        tuple(gaps),
        in_force(policy, host) + limits.limits_in_force(policy, host),
        has_warden=has_warden(host),
        controllers=limits.controllers(policy, host),
        variables=caches.variables(command.shelf, disk, layered, "/tmp" if has_view(host) else command.temporary),
        layered=tuple(place.path for _, place in layered),
        observe=observe,
        asks=is_asking(policy, host),
        shows_asked=_shown(policy, host, disk) is not policy and not is_root_hidden(found),
    )


def _unasked(policy: Policy, host: Host, disk: Disk, found: list[Region]) -> list[Region]:
    """The regions as they would be if nothing were asked about."""
    if not (has_view(host) and is_asking(policy, host)):
        return found
    return regions(as_viewed(policy, disk), disk, PRIVATE)


def terminal(screen: Screen) -> list[Step]:
    """A terminal of the command's own, where it was started at one."""
    if not screen.mask:
        return []
    which = ", ".join(str(fd) for fd in range(3) if screen.mask >> fd & 1)
    return [Step(StepKind.TERMINAL, f"a terminal of its own on {which}; the person's stays outside", (screen.mask,))]


def policy_gaps(
    asked: Policy, policy: Policy, host: Host, disk: Disk, found: list[Region], many: crowds.Homed
) -> list[Gap]:
    """What of a policy is not given here, or not held; `asked` is the policy with its swayed grants."""
    able, late = has_broker(policy, host), patterns.by_use(policy, host, disk)
    held = able and bool(patterns.lower(late, disk)[0])
    return [
        *(Gap(ask.key, ask.why, ask.need, ask.origin) for ask in policy.asks),
        *folding_gaps(found, disk, many),
        *glob_gaps(policy, disk, held, able),
        *unmounted_gaps(policy, late, held),
        *worktree_gaps(policy),
        *name_gaps(policy, disk),
        *closed_gaps(policy, disk),
        *crowds.gaps(many),
        *grant_gaps(asked, disk),
        *dev_gaps(asked, policy, host, found),
        *proc_gaps(policy, late, host, disk),
        *limits.limit_gaps(policy, host),
        *network_gaps(policy, host),
        *asking_gaps(policy, host),
        *abstract_gaps(policy, host),
    ]


def _outer_gaps(found: list[Region], disk: Disk) -> list[Gap]:
    from . import inside

    return inside.outer_gaps(found, disk)


def warden_steps(
    policy: Policy, host: Host, disk: Disk, command: Command, found: list[Region], many: crowds.Homed
) -> tuple[list[Step], Judged, Observe]:
    """What the warden is to know: its table and its patterns, which calls are judged for them, and what is told."""
    if not has_broker(policy, host):
        return [], Judged.NOTHING, Observe.NOTHING
    policy = patterns.by_use(policy, host, disk)
    links = table.held_links(policy, disk, changes(found)) if has_view(host) else {}
    names = table.rows(changes(found), disk, many, links) if has_view(host) else []
    late, judged = patterns.lower(policy, disk)
    kept = bool(links) or any(held.kept for held in many)
    if kept:
        judged |= Judged.WRITES
    if not has_view(host):
        more = patterns.in_place_of_mounts(policy, disk, found)[0] or []
        late, judged = late + more, judged | (Judged.WRITES if more else Judged.NOTHING)
    observe = command.observe | (Observe.REFUSALS if late or kept else Observe.NOTHING)
    pause: list[Step] = []
    if is_asking(policy, host):
        if _shown(policy, host, disk) is not policy:
            late = late + patterns.asked(policy, disk)
        pause.append(Step(StepKind.PAUSE, "what is refused waits for a person's answer"))
    if observe & ~Observe.REFUSALS or pause:
        judged |= Judged.READS | Judged.WRITES
    told = [Step(StepKind.OBSERVE, f"what is told: {observe.name}".lower(), (int(observe),))] * bool(observe)
    return [*told, *names, *late, *pause], judged, observe


def with_profile(policy: Policy, host: Host, disk: Disk, found: list[Region]) -> Walls:
    """macOS: one profile holds everything, and a program of the system applies it."""
    asked, policy = policy, without_swayed(policy, disk)
    from . import seatbelt

    made = seatbelt.profile(policy, found)
    gaps = seatbelt.gaps(policy) + [Gap(ask.key, ask.why, ask.need, ask.origin) for ask in policy.asks]
    gaps += glob_gaps(policy, disk) + name_gaps(policy, disk) + grant_gaps(asked, disk) + asking_gaps(policy, host)
    network = "the host's (allowed)" if policy.network.open else "closed (Seatbelt)"
    sentences = ("Seatbelt, by these rules, the last that matches wins:", *made.sentences, f"network: {network}")
    return Walls((), (), tuple(gaps), sentences, prefix=made.prefix())


def ruleset(host: Host, handled: int, grants: list[Step], closed: bool, inherited: int) -> list[Step]:
    """Landlock: what is taken away, what is given back, and the border for signals and sockets. `inherited` are those
    of 0 to 2 that the command has as they are, by bits."""
    abi = host.landlock_abi
    if abi < 1 or not (handled or landlock.scopes(abi)):
        return []
    with_a_view = has_view(host)
    # With a network namespace of its own the run may use TCP inside it; without one, none.
    tcp = landlock.network(abi) if closed and not with_a_view and not host.loopback_only else 0
    numbers = (handled, tcp, landlock.scopes(abi))
    text = f"Landlock ABI {abi}: rights {numbers[0]:#x}, TCP {tcp:#x}, scopes {numbers[2]:#x} taken away"
    which = ", ".join(str(fd) for fd in range(3) if inherited >> fd & 1)
    usable = landlock.known(landlock.READ_FILE | landlock.WRITE_FILE | landlock.IOCTL_DEV, abi) & numbers[0]
    return [
        Step(StepKind.RULESET, text, numbers),
        *grants,
        *[Step(StepKind.TERMINALS, f"terminals on {which} may be opened again", (usable, inherited))]
        * bool(usable and which),
        Step(StepKind.RESTRICT, "Landlock in force"),
    ]


def border(host: Host, nesting: bool) -> list[Step]:
    """The command in a domain within the warden's, so that it can neither signal the warden nor look into it. A domain
    needs a right to take: one that it gives back everywhere, or that nobody has."""
    abi = host.landlock_abi
    if abi < 1:
        return []
    rights = 0 if nesting else landlock.known(landlock.REFER, abi) or landlock.MAKE_BLOCK
    if not rights and not landlock.scopes(abi):
        return []
    numbers = (rights, landlock.scopes(abi))
    return [Step(StepKind.SCOPE, "the warden out of reach (a domain within the domain)", numbers)]


def seccomp(policy: Policy, host: Host, gaps: list[Gap], watched: bool, judged: Judged) -> list[Step]:
    """The table of closed system calls."""
    if not host.seccomp:
        why = f"no seccomp filters here, or none that are known for {host.arch}"
        gaps.append(Gap("dangerous system calls closed", why, Need.REQUIRED, BUILT_IN))
        return []
    if not (watched or Judged.WRITES in judged or host.is_inside):
        what = (
            "no program made that lends its group (setgid), or by being opened anew with that mode its owner (setuid)"
        )
        gaps.append(Gap(what, "no warden answers the calls that open and change files", Need.WANTED, BUILT_IN))
    with_a_view = has_view(host)
    allowed = Sockets.UNIX if has_unix_sockets(policy, host) else Sockets(0)
    if policy.network.open or with_a_view or host.loopback_only:  # a view's network has a loopback alone
        allowed |= Sockets.INET | Sockets.NETLINK_ROUTE
    elif policy.network.proxies:
        allowed |= Sockets.TCP
    if Sockets.UNIX in allowed and wants_datagrams(policy):
        allowed |= Sockets.UNIX_DATAGRAMS
    names = ", ".join(member.name or "" for member in Sockets if member in allowed) or "none"
    nesting = is_nesting(policy, host)
    judged |= Judged.GROUPS if nesting and host.owns_group else Judged.NOTHING
    judged |= Judged.ROOM if any(limit.name == "disk" for limit in policy.limits) else Judged.NOTHING
    program = filter_of(host.arch, allowed, private_ipc=with_a_view, nested=nesting, watched=watched, judged=judged)
    text = f"seccomp: {len(program) // 8} instructions; sockets: {names}" + "; new names by the warden" * watched
    text += "; what is opened, too" * (Judged.READS in judged) + "; what is changed, too" * (Judged.WRITES in judged)
    return [Step(StepKind.SECCOMP, text, (int(watched),), (program,))]


def writable_paths(policy: Policy) -> list[str]:
    """What was asked to be writable, beside private directories and devices."""
    asked = [rule.path for rule in policy.rules if rule.access is Access.WRITE and rule.verdict is Verdict.ALLOW]
    others = (*DEVICES, *PRIVATE, policy.environment.set.get(SIBLINGS, ""))
    return [path for path in dict.fromkeys(asked) if path not in others]


def in_force(policy: Policy, host: Host) -> tuple[str, ...]:
    """What holds once the steps are done, in sentences. What does not hold has no sentence here, but a gap."""
    abi, viewed = host.landlock_abi, has_view(host)
    open_inside = policy.network.open or host.loopback_only
    gated = has_own_network(host) and policy.network.allows_hosts
    writable = ", ".join(writable_paths(policy))
    mounts = "mounts" if host.namespaces else f"mounts by {host.bubblewrap}"
    by = [mounts] * viewed + [f"Landlock ABI {abi}"] * (abi >= 1)
    rows = (
        (by, f"files: only {writable} and private directories are writable ({' and '.join(by)})"),
        (policy.network.open, f"network: {'the outer run' if host.is_inside else 'the host'}'s (allowed)"),
        (gated, "network: the run's own loopback, and what the policy names (gate)"),
        (
            viewed and not policy.network.open and not gated,
            "network: closed but for the run's own loopback",
        ),
        (host.seccomp and bool(policy.network.proxies), "network: TCP to the ports of two proxies (seccomp, Landlock)"),
        (host.loopback_only and not policy.network.open, "network: closed but for the loopback of the outer run"),
        (host.seccomp and not viewed and not open_inside and not policy.network.proxies, "network: closed (seccomp)"),
        (host.seccomp, "system calls: the table of escapes is closed (seccomp)"),
        (True, "privileges: no capabilities; no_new_privs"),
        (
            SIBLINGS in policy.environment.set,
            "a ringfence inside: a run beside this one, by the narrower policy",
        ),
        (abi >= landlock.SCOPES_SINCE, "signals and abstract sockets: none outside the run (Landlock)"),
    )
    return tuple(sentence for holds, sentence in rows if holds)


def outline(walls: Walls, policy: Policy, ids: tuple[int, int] | None, screen: Screen) -> Plan:
    """A plan with these walls alone, for no command yet."""
    return Plan(
        (*walls.head, *walls.tail),
        walls.gaps,
        policy.enforcement,
        (),
        policy.workspace,
        walls.in_force,
        ids,
        has_warden=walls.has_warden,
        screen=screen,
        limits=policy.limits,
        controllers=walls.controllers,
        observe=walls.observe,
        asks=walls.asks,
    )


def shows(policy: Policy, path: str) -> bool:
    """Whether a file of the host can be opened again inside by the same path: /tmp and /dev are others there."""
    return path.startswith(policy.workspace + "/") or not any(is_below(path, above) for above in (*PRIVATE, view.DEV))
