"""What was asked and cannot be given here, and why. Pure."""

from collections.abc import Collection, Set

from ..model import BUILT_IN, Access, Disk, Gap, Host, Kind, Need, Origin, Policy, Rule, Screen, Verdict
from .aliases import upwards
from .crowds import Homed
from .landlock import SCOPES_SINCE
from .network import wants_datagrams
from .regions import Region, State, changes
from .rules import (
    REPOSITORY,
    has_broker,
    has_own_network,
    has_unix_sockets,
    has_view,
    is_allow_write,
    is_any_below,
    is_asking,
    is_protecting,
    links_to,
    swayed,
)
from .view import DEV, is_creatable, is_device, is_own_device


def kernel_gaps(host: Host) -> list[Gap]:
    """What this kernel's Landlock does not know, where nothing else holds it."""
    abi, way_out = host.landlock_abi, "a newer kernel"
    if has_view(host):
        rows = [
            (1, "files", Need.WANTED, "; the mounts hold alone"),
            (5, "ioctl on devices", Need.WANTED, "; the private /dev has few"),
            (6, "signals to the caller's own process group", Need.WANTED, "; at a terminal the command is in it"),
        ]
    else:
        way_out += ", or a view: `ringfence doctor` says how to get one"
        rows = [
            (1, "files", Need.REQUIRED, "; nothing holds them"),
            (3, "truncation outside the workspace", Need.REQUIRED, ""),
            (5, "ioctl on devices", Need.WANTED, ""),
            (6, "signals to other processes", Need.REQUIRED, ""),
        ]
    return [
        Gap(what, f"Landlock ABI {abi}, needs {since}{note}", need, BUILT_IN, way_out)
        for since, what, need, note in rows
        if abi < since
    ]


def abstract_gaps(policy: Policy, host: Host) -> list[Gap]:
    """Unix sockets without a path have their names in a network. In the host's, Landlock's scope keeps those of others
    from the command, and before there was one the warden does, which hears of connections and not of datagrams."""
    shared = (policy.network.open or not has_own_network(host)) and not host.is_inside
    if not shared or host.landlock_abi >= SCOPES_SINCE or not has_unix_sockets(policy, host):
        return []
    judged = has_view(host) and has_broker(policy, host)
    why = f"Landlock ABI {host.landlock_abi}, needs {SCOPES_SINCE}"
    rows = []
    if judged:
        refused = "; nobody tells them from the host's, so they are refused"
        rows.append(("abstract unix sockets among the run's own processes", refused))
    if not judged or wants_datagrams(policy):
        rows.append(("abstract unix sockets of the host unreachable (a display, a bus)", ", and no warden judges that"))
    return [Gap(what, why + more, Need.WANTED, BUILT_IN, "a newer kernel, or a closed network") for what, more in rows]


def anywhere_gaps(screen: Screen) -> list[Gap]:
    """What no machine gives."""
    why = "names are protected at the top of the workspace; deeper ones are looked for after the run, for a short time"
    what = "hooks and configuration of repositories inside the workspace unwritable"
    gaps = [Gap(what, why, Need.WANTED, BUILT_IN)]
    if not screen.is_interactive:
        why = "the command holds it, and may change what is its own user's"
        gaps.append(Gap("the mode of a terminal on 0 to 2 kept", why, Need.WANTED, BUILT_IN))
    return gaps


ASK = Origin("--ask")
TOO_MANY, FEWER = "the warden takes 1,024 rules of 63 names each, and there are more", "fewer or shorter rules"


def asking_gaps(policy: Policy, host: Host) -> list[Gap]:
    """What of --ask is not given here."""
    if not policy.asking:
        return []
    if policy.escape is not Verdict.ASK:
        return [
            Gap("questions (--ask)", "the boundary says that nothing is asked", Need.WANTED, ASK, "another --profile")
        ]
    if not is_asking(policy, host):
        why = "nobody here answers the command's calls"
        return [Gap("questions (--ask)", why, Need.REQUIRED, ASK, "`ringfence doctor` says what is missing")]
    gaps = []

    def gap(what: str, why: str) -> None:
        gaps.append(Gap(what, why, Need.WANTED, BUILT_IN))

    gap(
        "execve, owners, times and attributes, and sockets at a path asked about", "they fail at once, as without --ask"
    )
    if has_view(host):
        why = "what may be asked for is refused when it is opened, and not hidden"
        gap("names, sizes and programs in closed directories kept from the command (--ask)", why)
    if not has_own_network(host) and not policy.network.open:
        gap("connections asked about", "the run has no network that a gate serves")
    return gaps


def glob_gaps(policy: Policy, disk: Disk, held: bool = False, able: bool = False) -> list[Gap]:
    """Patterns are looked for when the run starts: what comes later is not among what was found. Where the warden holds
    those that deny something, the others are left: they grant what was there. Where it is `able` to and there are too
    many, somebody has added some, who must not undo another's."""
    patterns = [rule for rule in policy.rules if rule.glob and not rule.implied]
    executed = held and any(rule.access is Access.READ and rule.verdict is not Verdict.ALLOW for rule in patterns)
    if held:
        patterns = [rule for rule in patterns if rule.verdict is Verdict.ALLOW]
    why = "no other process can execute for the command, and a path that was judged could be another by then"
    programs = ["programs that match a denied pattern and appear later not executed"]
    programs += [f"programs that match a denied pattern in {_unsearched(disk)} not executed"] * bool(disk.unsearched)
    gaps = [Gap(what, why, Need.WANTED, BUILT_IN) for what in programs * executed]
    for rule in patterns:
        what, why = (
            f"the pattern {rule.path} for names that appear later",
            "patterns are looked for when the run starts",
        )
        if able and rule.verdict is not Verdict.ALLOW:
            gaps.append(Gap(what, TOO_MANY, Need.REQUIRED, rule.origin, FEWER))
        else:
            way_out = "name a directory instead, or start the run again"
            gaps.append(Gap(what, why, Need.WANTED, rule.origin, way_out))
    if patterns and disk.unsearched:
        first = patterns[0]
        why = "there are too many files, or the directory cannot be listed"
        way_out = "give the pattern a longer beginning without stars"
        gaps.append(Gap(f"patterns looked for in {_unsearched(disk)}", why, Need.WANTED, first.origin, way_out))
    return gaps


def unmounted_gaps(policy: Policy, late: Policy, held: bool) -> list[Gap]:
    """Denials that are patterns only because no mount can hold them, where the warden does not either."""
    rules = set(policy.rules).difference(late.rules) if not held else set()
    why = "no mount holds it, and nobody here judges what is opened"
    return [Gap(f"{rule.path} denied", why, rule.need, rule.origin) for rule in policy.rules if rule in rules]


def _unsearched(disk: Disk) -> str:
    return ", ".join(disk.unsearched[:3]) + (", …" if len(disk.unsearched) > 3 else "") + ", and what comes after"


def worktree_gaps(policy: Policy) -> list[Gap]:
    """In a linked worktree whose repository is open to new worktrees."""
    if not any(rule.glob and rule.why == REPOSITORY for rule in policy.rules):
        return []
    what = "worktrees that somebody else adds to this repository during the run kept as they are"
    why = (
        "the command may add some itself, and they are not told apart; those that lead elsewhere are told after the run"
    )
    return [Gap(what, why, Need.WANTED, BUILT_IN)]


def folding_gaps(found: list[Region], disk: Disk, many: Homed) -> list[Gap]:
    """What is denied by its name where a name has other spellings: the warden knows one of those that are not there,
    and a mount lies on one unless the kernel knows that they are the same."""
    if not disk.folding:
        return []
    together: dict[tuple[Need, Origin], list[str]] = {}

    def add(rule: Rule, path: str, what: str, is_there: bool) -> None:
        met = [disk.folding[above] for above in upwards(path.rpartition("/")[0] or "/") if above in disk.folding]
        if met and not (is_there and all(met)):
            together.setdefault((rule.need if rule.origin != BUILT_IN else Need.WANTED, rule.origin), []).append(what)

    for region, above in changes(found):
        is_there = region.place.kind is not Kind.MISSING
        if is_creatable(region, above) or (
            is_there and above is not None and region.state in (State.HIDDEN, State.READ)
        ):
            add(region.rule, region.path, region.path, is_there)
    for held in many:
        names = f"names in {held.crowd.directory}"
        add(held.crowd.first, f"{held.crowd.directory}/", names, is_there=not held.missing)
    why = "the file system does not tell upper case from lower, and rules are about one spelling"
    return [
        Gap(f"denied in every spelling: {', '.join(paths)}", why, need, origin, "use another file system")
        for (need, origin), paths in together.items()
    ]


def link_gaps(policy: Policy, disk: Disk, held: Set[str] = frozenset(), kept: Collection[str] = ()) -> list[Gap]:
    """Symbolic links in writable places on the way to something denied: the target is held, the link is not. `held` are
    directories in which no name can be replaced, `kept` links that the warden holds.

    Whoever replaces a link on the way to an unwritable file puts another in its place; what was hidden stays hidden.
    """
    denied = [rule for rule in policy.rules if rule.verdict is Verdict.DENY]
    linked = [rule for rule in denied if links_to(rule, disk)]
    if not linked:
        return []
    roots = {disk[rule.path].path for rule in policy.rules if is_allow_write(rule)}

    def loose(rule: Rule) -> tuple[str, ...]:
        places = links_to(rule, disk)
        return tuple(link for link in places if link not in kept and link.rpartition("/")[0] not in held)

    return [
        Gap(
            f"{rule.through or rule.path} kept through its link",
            "what a link points at is held, and the link itself can be replaced",
            rule.need if rule.access is Access.WRITE else Need.WANTED,
            rule.origin,
            "name the link's target instead",
        )
        for rule in linked
        if is_any_below(loose(rule), roots)
    ]


def closed_gaps(policy: Policy, disk: Disk) -> list[Gap]:
    """Directories that let nobody look into them, with something denied below: they are closed whole, and so stay as
    they are where the judge would let the command change them."""
    denied = [rule for rule in policy.rules if rule.verdict is Verdict.DENY and not rule.glob]
    closed = {disk[rule.path].closed: rule for rule in denied if disk[rule.path].closed}
    if not closed:
        return []
    roots = {disk[rule.path].path for rule in policy.rules if is_allow_write(rule)}
    why = "nobody can look into it, and something is denied below: it is closed whole"
    return [
        Gap(f"{path} changed or opened", why, Need.WANTED, rule.origin, f"chmod u+rx {path}")
        for path, rule in closed.items()
        if is_any_below((path,), roots)
    ]


def name_gaps(policy: Policy, disk: Disk) -> list[Gap]:
    """Denied files that have other names: those are judged by themselves."""
    return [
        Gap(
            f"{rule.path} kept by its other names too",
            f"the file has {disk[rule.path].names} names, and rules are about paths",
            Need.WANTED,
            rule.origin,
            "deny the other names as well: find -samefile shows them",
        )
        for rule in policy.rules
        if rule.verdict is Verdict.DENY and not rule.glob and disk[rule.path].names > 1 and rule.origin != BUILT_IN
    ]


def grant_gaps(policy: Policy, disk: Disk) -> list[Gap]:
    """What somebody asked to be given, and is not."""
    gaps = [
        Gap(
            f"{rule.path} {'readable' if rule.access is Access.READ else 'writable'}",
            "it runs through a symbolic link that the command itself may replace",
            Need.REQUIRED,
            rule.origin,
            "name the link's target instead",
        )
        for rule in swayed(policy, disk)
    ]
    for rule in policy.rules:
        given = rule.verdict is Verdict.ALLOW and rule.origin != BUILT_IN and not rule.glob and not rule.implied
        if given and rule.need is Need.REQUIRED and disk[rule.path].kind is Kind.MISSING:
            why = "nothing is there, and nothing is created on the host"
            way_out = "create it before the run, or name its directory"
            gaps.append(Gap(f"{rule.path} granted", why, Need.WANTED, rule.origin, way_out))
    gaps += _swallowed(policy, disk)
    return list(dict.fromkeys(gaps))  # one grant may be two rules


def _swallowed(policy: Policy, disk: Disk) -> list[Gap]:
    """Protected names that have become links to where the workspace lies: to keep that is to keep all of it. A person's
    own denial may mean that."""
    linked = [rule for rule in policy.rules if rule.origin == BUILT_IN and is_protecting(rule) and links_to(rule, disk)]
    return [
        Gap(
            f"{policy.workspace} writable",
            f"{rule.path} leads to {disk[rule.path].path}, and what it leads to is kept",
            Need.REQUIRED,
            rule.origin,
            "remove that link",
        )
        for rule in linked
        if is_any_below((f"{policy.workspace}/",), {disk[rule.path].path})
    ]


def dev_gaps(asked: Policy, policy: Policy, host: Host, found: list[Region]) -> list[Gap]:
    """Leave for all of /dev, which a view has of its own; and a device that is given to be read where Landlock does not
    hold it: a read-only mount does not."""
    if not has_view(host):
        return []
    origins = {rule.origin: None for rule in asked.rules if rule.path == DEV and rule.verdict is Verdict.ALLOW}
    why = "the run has a /dev of its own, with the few that programs need"
    gaps = [Gap(f"{DEV} granted", why, Need.WANTED, one, "name the device: --allow-write /dev/kvm") for one in origins]
    if host.landlock_abi >= 1 and not policy.nested:
        return gaps
    why = "a read-only mount does not hold a device, and nobody here judges what is opened"
    named = [one for one in found if one.state is State.READ and is_device(one.path) and not is_own_device(one.path)]
    for one in named:
        way_out = f"--allow-write {one.path}, if it may be written"
        gaps.append(Gap(f"{one.path} unwritable", why, Need.REQUIRED, one.rule.origin, way_out))
    return gaps


def proc_gaps(policy: Policy, late: Policy, host: Host, disk: Disk) -> list[Gap]:
    """Grants in a /proc of the run's own, which is read-only and has other numbers. `late` has somebody's denials there
    as patterns, for every process; without one all of it is read."""
    if not (has_view(host) and host.fresh_proc):
        return []
    denied = any(rule.path.startswith("/proc") for rule in set(late.rules).difference(policy.rules))
    gaps = []
    for rule in policy.rules:
        if rule.verdict is not Verdict.ALLOW or rule.origin == BUILT_IN or rule.glob or rule.pattern or rule.implied:
            continue
        root, name, number, *_ = [*disk[rule.path].path.split("/"), "", ""]
        if (root, name) != ("", "proc") or disk[rule.path].kind is Kind.MISSING:
            continue
        if rule.access is Access.WRITE and not policy.nested:
            why = "the run has a /proc of its own, which is read-only"
            gaps.append(Gap(f"{rule.path} writable", why, Need.WANTED, rule.origin, "run it outside"))
        elif rule.access is Access.READ and number.isdigit() and denied:
            why = "the run has a /proc of its own, where processes have other numbers"
            gaps.append(Gap(f"{rule.path} readable", why, Need.WANTED, rule.origin, "a pattern: /proc/*/NAME"))
    return gaps
