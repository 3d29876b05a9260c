"""Many denied names of one directory, planned as one.

Pure. A policy of thousands of rules is long lists of names to deny, and to plan each by itself takes longer than all of
the run. Of a name that one rule speaks of, with nothing said below it, only two things matter: what its directory is to
the command, and whether it is there. So such names go through the planner as crowds; every other rule by itself.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from ..model import BUILT_IN, Access, Crowd, Disk, Gap, Host, Kind, Need, Place, Policy, Rule, Step, StepKind, Verdict
from . import view
from .regions import Region, State, between, changes
from .rules import has_broker, links_to

DENY, KEEP = 1, 4  # format.h
LEAST = 16  # names of one directory: with fewer there is nothing to save
# Names that are there and unwritable: from so many on mounts cost a launch more than judged writes cost a run. The
# warden has room for 16,384 rows.
MANY, MOST = 200, 12_000
APART = ("/dev", "/proc")  # made by the view


class Held(msgspec.Struct, frozen=True):
    """A crowd that the plan must hold, with the region that it lies in, and the names that could still be made."""

    crowd: Crowd
    home: Region
    missing: tuple[str, ...]
    kept: bool = False  # what is there is held by the warden's table, and not by mounts

    @property
    def way(self) -> list[str]:
        """The directories on the way to what is denied: renaming one would carry it away."""
        return between(f"{self.crowd.directory}/", self.home.path) if self.home.state is State.WRITE else []


Homed = Sequence[Held]


def has_many(policy: Policy) -> bool:
    """Whether there is anything to fold, maybe."""
    own = (rule for rule in policy.rules if rule.origin is not BUILT_IN)
    return next(islice(own, LEAST - 1, None), None) is not None


def can_fold(policy: Policy, host: Host) -> bool:
    """Whether a view of our own and a warden hold the rules: whoever else holds them is told of each."""
    return host.namespaces and has_broker(policy, host)


def fold(policy: Policy) -> tuple[Policy, tuple[Crowd, ...]]:
    """The policy without the rules that can go as crowds, and those."""
    reads: dict[str, dict[str, Rule]] = {}  # by directory, and by name
    writes: dict[str, dict[str, Rule]] = {}
    read, deny, built_in = Access.READ, Verdict.DENY, BUILT_IN  # an enumeration is slow to ask, and there are thousands
    others = [rule for rule in policy.rules if rule.verdict is not deny or rule.origin is built_in or rule.glob]
    denied = [rule for rule in policy.rules if rule.verdict is deny and rule.origin is not built_in and not rule.glob]
    last, about, named = "", None, {}  # most rules lie beside the one before
    for rule in denied:
        directory, _, name = rule.path.rpartition("/")
        if directory != last or rule.access is not about:
            last, about = directory, rule.access
            named = (reads if about is read else writes).setdefault(directory, {})
        known = named.setdefault(name, rule)
        if known is not rule and known != rule:  # another line says it otherwise
            others.append(rule)
    large: list[tuple[str, Access, dict[str, Rule]]] = []
    for access, found in ((Access.READ, reads), (Access.WRITE, writes)):
        for directory, rules in found.items():
            if len(rules) >= LEAST and not _is_apart(directory):
                large.append((directory, access, rules))
            else:
                others += rules.values()
    if not large:
        return policy, ()
    alone = {rule.path for rule in others}
    alone.update(path for injection in policy.injections for path in (injection.source, injection.target))
    spoken = _twice(large) | alone | _above(alone | {f"{directory}/" for directory, _, _ in large})
    inside = {path.rpartition("/")[0] for path in spoken}
    crowds = []
    for directory, access, rules in large:
        kept = rules
        if directory in inside:
            others += [rule for rule in rules.values() if rule.path in spoken]
            kept = {name: rule for name, rule in rules.items() if rule.path not in spoken}
        crowds.append(Crowd(Place(directory, directory, Kind.MISSING), access, kept))
    return msgspec.structs.replace(policy, rules=tuple(others)), tuple(crowds)


def _is_apart(directory: str) -> bool:
    return not directory or any(directory == path or directory.startswith(f"{path}/") for path in APART)


def _twice(large: list[tuple[str, Access, dict[str, Rule]]]) -> set[str]:
    """What is denied both ways, maybe: one rule is not all that is said of it."""
    both = {directory for directory, access, _ in large if access is Access.READ}
    return {
        rule.path
        for directory, access, rules in large
        if access is Access.WRITE and directory in both
        for rule in rules.values()
    }


def _above(paths: Iterable[str]) -> set[str]:
    """The directories above these paths."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def parted(policy: Policy, crowds: Iterable[Crowd], disk: Disk) -> tuple[Policy, tuple[Crowd, ...]]:
    """The policy with those rules of the crowds again that are not alone after all: another rule's path leads there, or
    below, by a link or by another mount, or there is a link on its way."""
    led = {disk[rule.path].path for rule in policy.rules if not rule.glob and disk[rule.path].path != rule.path}
    led.update(link for rule in policy.rules for link in links_to(rule, disk))
    spoken = led | _above(led)
    spoken.update(rule.path for rule in policy.rules)
    inside = {path.rpartition("/")[0] for path in spoken}
    near = [crowd for crowd in crowds if crowd.directory in inside]
    met = [rule for crowd in near for rule in crowd.rules.values() if rule.path in spoken]
    if not met:
        return policy, tuple(crowds)
    alone = [_without(crowd, spoken) for crowd in crowds]
    return with_rules(policy, met), tuple(crowd for crowd in alone if crowd.rules)


def _without(crowd: Crowd, spoken: set[str]) -> Crowd:
    rules = {name: rule for name, rule in crowd.rules.items() if rule.path not in spoken}
    present = {name: inode for name, inode in crowd.present.items() if name in rules}
    return msgspec.structs.replace(
        crowd, rules=rules, present=present, directories=crowd.directories.intersection(present)
    )


def unfold(policy: Policy, crowds: Iterable[Crowd]) -> Policy:
    """The policy with the rules of these crowds again."""
    return with_rules(policy, [rule for crowd in crowds for rule in crowd.rules.values()])


def with_rules(policy: Policy, added: list[Rule]) -> Policy:
    return msgspec.structs.replace(policy, rules=(*policy.rules, *added)) if added else policy


def homed(crowds: Iterable[Crowd], found: list[Region]) -> list[Held]:
    """Each crowd with the region it lies in, but for those that need nothing: what is hidden hides them too, and what
    cannot be written need not be denied."""
    regions = {region.path: region for region, _ in changes(found)} if crowds else {}
    homes = []
    for crowd in crowds:
        path = crowd.directory
        while path not in regions and path != "/":
            path = path.rpartition("/")[0] or "/"
        home = regions.get(path)
        if home is None or home.state is State.HIDDEN:
            continue
        if home.state is not State.READ or crowd.access is Access.READ:
            homes.append(Held(crowd, home, _missing(crowd) if home.state is State.WRITE else ()))
    return _kept(homes)


def _kept(homes: list[Held]) -> list[Held]:
    """The crowds, with those that are many enough left to the warden. Not what is hidden: every open would be asked
    about, and mounts are paid for once."""
    able = [held.crowd.access is Access.WRITE and held.home.state is State.WRITE for held in homes]
    count = sum(len(held.crowd.present) for held, is_able in zip(homes, able, strict=True) if is_able)
    if not MANY < count <= MOST - sum(len(held.missing) + len(held.way) for held in homes):
        return homes
    return [
        msgspec.structs.replace(held, kept=is_able and bool(held.crowd.present))
        for held, is_able in zip(homes, able, strict=True)
    ]


def _missing(crowd: Crowd) -> tuple[str, ...]:
    rules, present = crowd.rules, crowd.present
    if len(present) in (0, len(rules)):
        return () if present else tuple(rules)
    return tuple([name for name in rules if name not in present])


def private(found: Homed) -> tuple[Crowd, ...]:
    """Those in directories of the run's own: there nothing of the host's shows, and each name is made or held."""
    return tuple(held.crowd for held in found if held.home.state is State.PRIVATE)


def ways(found: Homed) -> list[str]:
    """The directories on the way to all of them."""
    return [path for held in found for path in held.way]


def pins(found: Homed) -> list[str]:
    """Those of them that must be mount points; on the way to names that are not there the warden holds them."""
    return [path for held in found if held.crowd.present and not held.kept for path in held.way]


def mounts(found: Homed) -> list[Step]:
    """What covers the names that are there."""
    return [step for held in found if not held.kept for step in _mounts(held.crowd)]


def _mounts(crowd: Crowd) -> list[Step]:
    hides = crowd.access is Access.READ
    operation, word = (view.MASK_EACH, "hidden") if hides else (view.BIND_EACH, "read-only")
    steps = []
    directories = [name for name in crowd.present if name in crowd.directories] if crowd.directories else []
    files = [name for name in crowd.present if name not in crowd.directories] if directories else list(crowd.present)
    for flag, names in ((0, files), (view.DIRECTORIES, directories)):
        if names:
            text = f"{len(names)} names in {crowd.directory} {word} ({crowd.said})"
            steps.append(view.mount(operation, text, crowd.directory, "/".join(names), flags=flag, place=crowd.place))
    return steps


def rows(found: Homed, numbers: dict[str, int]) -> list[Step]:
    """The names that must not appear, as rows of the warden's table; `numbers` are those of their directories."""
    steps: list[Step] = []
    for held in found:
        path = held.crowd.directory
        present = tuple(held.crowd.present) if held.kept else ()
        for names, verdict, what in ((held.missing, DENY, "must not appear"), (present, KEEP, "are not to be changed")):
            if names:
                text = f"{len(names)} names in {path} {what} ({held.crowd.said})"
                steps.append(Step(StepKind.NAME, text, (numbers[path], verdict), view.encoded(("/".join(names),))))
    return steps


def gaps(found: Homed) -> list[Gap]:
    """Files have other names, maybe; nobody looks at each of so many."""
    count = sum(len(held.crowd.present) - len(held.crowd.directories) for held in found)
    if count <= 0:
        return []
    why = "a file may have several, rules are about paths, and so many are not looked at one by one"
    way_out = "deny the other names as well: find -links +1 shows such files"
    origin = found[0].crowd.first.origin
    return [Gap(f"{count} denied files kept by their other names too", why, Need.WANTED, origin, way_out)]
