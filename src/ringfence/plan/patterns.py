"""The warden's patterns: what is denied by one and may come later than the mounts.

Pure. Each rule becomes a step of its parts (enforce/glob.h reads them as policy/glob.py does). Of reads the deepest
rule decides, so with a denied pattern comes everything that could allow what it denies; what is denied by name needs no
pattern, for it is hidden. Of writes any denial does, so those are enough.
"""

from collections.abc import Callable, Iterator

import msgspec

from ..model import BUILT_IN, Access, Disk, Host, Kind, Policy, Rule, Step, StepKind, Verdict
from . import view
from .aliases import SECOND_WAY
from .regions import Region, State, changes, is_below
from .rules import PRIVATE, has_view, is_protecting, is_seen, links_to
from .sorts import Judged

READ, WRITE = 0, 1  # format.h
PASSES, DENIES, ALWAYS = 0, 1, 2
MOST, MOST_PARTS = 1024, 63
_SPECIAL = "*?[{"
_NOWHERE = "/dev/null"  # where nothing of anybody's may be changed


def late(policy: Policy) -> list[Rule]:
    """The patterns that deny something, also what is not there yet."""
    return [rule for rule in policy.rules if rule.glob and rule.verdict is not Verdict.ALLOW]


def by_use(policy: Policy, host: Host, disk: Disk) -> Policy:
    """The policy with what no mount can hold as patterns: somebody's denials in /proc, for the run's own comes over
    what is mounted there, of the devices that every run has, and of writing any device or FIFO."""
    somebodys = {id(rule) for rule in policy.rules if rule.verdict is not Verdict.ALLOW and rule.origin != BUILT_IN}
    if not somebodys:  # as most often: to hash all the rules takes longer than everything else here
        return policy
    rules: dict[Rule, None] = {}
    for rule in policy.rules:
        found = _as_used(rule, host, disk) if id(rule) in somebodys else None
        others = [rule] if found is None else [msgspec.structs.replace(rule, path=path, glob=True) for path in found]
        rules.update(dict.fromkeys(others))
    return msgspec.structs.replace(policy, rules=tuple(rules))


def _as_used(rule: Rule, host: Host, disk: Disk) -> list[str] | None:
    """The patterns by which it is denied when it is used; None where it is held as it is."""
    is_judged = rule.access is Access.READ and has_view(host) and host.fresh_proc and is_seen(host)
    if rule.glob:  # without a view, too: what runs may have been there when the plan was made, waiting
        found = _of_every_process(rule.path) if rule.access is Access.READ else None
        return found if found and (is_judged or rule.path in found) else None
    place = disk[rule.path]
    path, is_node = place.path, place.kind is Kind.OTHER and rule.access is Access.WRITE and has_view(host)
    found = _without_mounts(rule.path, path, is_judged, is_node)
    if not found or not rule.pattern or path != rule.path:
        return found or None
    return [one for one in found if path == "/dev/ptmx" and one != path]  # its pattern is judged when it is used, too


def _of_every_process(pattern: str) -> list[str] | None:
    """What a pattern says of ringfence itself by `/proc/self`, of every process; and of its threads, where it does not
    name them."""
    _, top, number, *rest = [*pattern.split("/"), "", ""]
    if top != "proc" or number == "**" or not rest[0]:
        return None
    if number.isdigit():
        return _processes("[0-9]*", rest)
    is_any = not frozenset(_SPECIAL).isdisjoint(number) and rest[0] != "task"
    return [pattern, *_processes(number, rest)[1:]] if is_any else None


def _processes(number: str, rest: list[str]) -> list[str]:
    """What is denied of some processes. What is said of one is said of its threads."""
    inner = "/".join(rest[2:] if rest[0] == "task" and rest[1] else rest).rstrip("/")
    return [f"/proc/{above}/{inner}".rstrip("/") for above in (number, f"{number}/task/[0-9]*")]


def _without_mounts(asked: str, path: str, is_judged: bool, is_node: bool) -> list[str]:
    if path == "/dev/ptmx":  # inside it is a link
        return [path, "/dev/pts/ptmx"]
    if view.is_own_device(path) or is_node:
        return [_literal(path)]
    if not is_judged or not (path == "/proc" or is_below(path, "/proc")):
        return []
    _, _, number, *rest = [*path.split("/"), "", ""]
    if not number.isdigit() or asked == f"/proc/{number}":
        return [_literal(path)]
    return _processes("[0-9]*", [_literal(name) for name in rest])  # a process has another number inside


def _literal(path: str) -> str:
    return "".join(f"[{char}]" if char in _SPECIAL else char for char in path)


def lower(policy: Policy, disk: Disk) -> tuple[list[Step], Judged]:
    """The steps, by the names that the kernel has, and which calls must be judged for them. Nothing when they are more
    than the warden takes."""
    denied = late(policy)
    reads = any(rule.access is Access.READ for rule in denied)
    steps = [_step(rule) for rule in denied]
    if reads:
        allowed = [rule for rule in policy.rules if rule.access is Access.READ and rule.verdict is Verdict.ALLOW]
        # What an allowing pattern has matched may be much, and is passed by the pattern itself.
        spoken = {rule.path for rule in allowed if rule.glob}
        apart = [rule for rule in allowed if rule.pattern not in spoken or disk[rule.path].path != rule.path]
        steps += [_step(_real(rule, disk)) for rule in apart]
        steps += [_made(f"{path} is the run's own", READ, PASSES, 0, _parts(path, False)) for path in PRIVATE]
    if not _fits(steps):
        return [], Judged.NOTHING
    everything = Judged.READS | Judged.WRITES | Judged.ATTRIBUTES
    return steps, everything if reads else Judged.WRITES if denied else Judged.NOTHING


def _real(rule: Rule, disk: Disk) -> Rule:
    """A rule by the name that the kernel has for its path; a pattern begins with such a name already."""
    return rule if rule.glob else msgspec.structs.replace(rule, path=disk[rule.path].path)


def asked(policy: Policy, disk: Disk) -> list[Step]:
    """What may be asked for is not hidden by mounts, but refused when it is opened: the closed places, and all that is
    open inside them, by the names that the kernel has."""
    steps = [_step(msgspec.structs.replace(rule, path=path)) for rule, path in _asked(policy, disk)]
    own = (*PRIVATE, *(disk[injection.target].path for injection in policy.injections))
    return steps + [_made(f"{path} is the run's own", READ, PASSES, 0, _parts(path, False)) for path in own]


def can_ask(policy: Policy, disk: Disk) -> bool:
    """Whether the warden takes so many, and there are any."""
    found = _asked(policy, disk)
    count = len(found) + len(PRIVATE) + len(policy.injections) + len(lower(policy, disk)[0])
    return len(found) > 0 and count <= MOST and all(path.count("/") <= MOST_PARTS for _, path in found)


def _asked(policy: Policy, disk: Disk) -> list[tuple[Rule, str]]:
    """The rules that close a place which may be asked about, and those that open something inside one."""
    reads = [rule for rule in policy.rules if rule.access is Access.READ and not rule.glob]
    closed = [(rule, disk[rule.path].path) for rule in reads if is_askable(rule)]
    tops = {path for _, path in closed}
    opened = [(rule, disk[rule.path].path) for rule in reads if rule.verdict is Verdict.ALLOW]
    return closed + [(rule, path) for rule, path in opened if any(path == top or is_below(path, top) for top in tops)]


def is_askable(rule: Rule) -> bool:
    """Whether it closes a place that a person may be asked about."""
    return rule.asks and rule.access is Access.READ and rule.verdict is Verdict.DENY


def in_place_of_mounts(policy: Policy, disk: Disk, found: list[Region]) -> tuple[list[Step] | None, bool]:
    """Without a view: where what is there may be changed and where not, and what is protected inside, by the names that
    the kernel has for them; and the links on the way to what is denied. None when that is more than the warden takes:
    what somebody adds must not cost another's protection. And whether it is all of it: what is denied inside a place
    that may be changed, Landlock holds as well, but for its attributes."""
    changed = changes(found)
    granted = [region.path for region, _ in changed if region.state is State.WRITE]
    granted = granted or [_NOWHERE]  # a rule, for without one nobody is asked
    closed = [region.path for region, above in changed if above is not None and above.state is State.WRITE]
    kept = {rule.path for rule in policy.rules if rule.origin == SECOND_WAY}
    # It may also be granted itself, or something below it: any denial of writing wins.
    kept.update(path for path in _held_by_name(policy, disk) if any(map(_meets(path), granted)))
    late = lower(policy, disk)[0]
    held = _written(sorted(kept), ALWAYS)
    room = MOST - len(held) - len(late)
    passed = [step for step in _written(granted, PASSES) if _fits([step])][:room]
    if not _fits(held + late) or not passed:
        return None, False
    whole = passed + _written(closed, DENIES) + held
    return (whole, True) if _fits(whole + late) else (passed + held, False)


def _written(paths: list[str], verdict: int) -> list[Step]:
    what = "may be changed" if verdict == PASSES else "is refused when it is used"
    return [_made(f"{path} {what}", WRITE, verdict, 0, _parts(path, False)) for path in paths]


def _meets(path: str) -> Callable[[str], bool]:
    """Whether a place is another, above it or below it."""
    return lambda other: path == other or is_below(path, other) or is_below(other, path)


def _held_by_name(policy: Policy, disk: Disk) -> Iterator[str]:
    """What is protected, and every link that leads there or to something else that is denied."""
    for rule in policy.rules:
        if is_protecting(rule):
            yield disk[rule.path].path
        if rule.verdict is Verdict.DENY:
            yield from links_to(rule, disk)


def _fits(steps: list[Step]) -> bool:
    return len(steps) <= MOST and not any(len(step.strings) > MOST_PARTS or _has_braces(step) for step in steps)


def _step(rule: Rule) -> Step:
    absolute = rule.always or (rule.access is Access.WRITE and rule.verdict is not Verdict.ALLOW)
    verdict = ALWAYS if absolute else PASSES if rule.verdict is Verdict.ALLOW else DENIES
    # As policy.decide ranks them; the first place is for what is the run's own.
    by_pattern = rule.glob or bool(rule.pattern)
    rank = 1 + (rule.implied << 3 | (rule.origin == BUILT_IN) << 2 | by_pattern << 1 | (verdict != PASSES))
    what = "passes" if verdict == PASSES else "is refused when it is used"
    text = f"{rule.access.value} {rule.path} {what} ({rule.origin})"
    return _made(text, READ if rule.access is Access.READ else WRITE, verdict, rank, _parts(rule.path, rule.glob))


def _made(text: str, access: int, verdict: int, rank: int, parts: list[str]) -> Step:
    names = tuple(part.encode("utf-8", "surrogateescape") for part in parts)
    return Step(StepKind.PATTERN, text, (access, verdict, rank), names)


def _parts(path: str, is_glob: bool) -> list[str]:
    """The names of a path, as patterns; a `**` at the end says nothing, and two are one."""
    parts: list[str] = []
    for name in path.split("/"):
        if name in ("", ".") or (is_glob and name == "**" and parts[-1:] == ["**"]):
            continue
        parts.append(name if is_glob else _literal(name))
    while is_glob and parts[-1:] == ["**"]:
        parts.pop()
    return parts


def _has_braces(step: Step) -> bool:
    """Whether alternatives in braces were left in it, which the warden does not read."""
    return any(b"{" in part.replace(b"[{]", b"") for part in step.strings)
