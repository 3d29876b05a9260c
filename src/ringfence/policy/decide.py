"""The one judge: may this path be read, may it be written, and which line of which file says so.

Reads: the most specific rule wins. Specific is how deep the place lies that a rule names; a pattern counts as each
place it matches, as if written out. At the same depth what somebody wrote goes before what is built in, then a name
before a pattern, then allow before deny, and a read that merely came with allowWrite goes last. An `always` denial
beats everything; where no rule speaks, it is no.
Writes: any denial wins; else an allowance is needed; and what may not be read may not be written, for it is hidden,
except where writing shows nothing: private directories and devices.

Pure, over a canonical absolute path and a policy with canonical paths (`canonical_policy`). Paths are compared by
their names: a rule is looked up under each ancestor, so `/work` never speaks for `/workshop`.
"""

from collections.abc import Callable

import msgspec

from ..model import BUILT_IN, Access, Decision, Policy, Rule, Verdict
from .defaults import DEVICES, PRIVATE
from .glob import Part, compile_parts, deepest_match, escape, expand, parted
from .layer import settled
from .words import quoted, shown

_UNSEEN = frozenset((*PRIVATE, *DEVICES))  # writing here shows nothing of the host
_Glob = tuple[tuple[Part, ...], Rule]


def decide(policy: Policy, access: Access, path: str) -> Decision:
    """What the policy says of one access, why, and the smallest grant that would change it."""
    if not is_canonical(path):
        return Decision(Verdict.DENY, f"{shown(path)} is not a canonical absolute path")
    return _judge(policy).decide(access, path)


def is_canonical(path: str) -> bool:
    """Whether a path is absolute and has no empty, `.` or `..` names; links are the caller's."""
    if path == "/":
        return True
    names = path.split("/")[1:]
    return path.startswith("/") and "\0" not in path and not {"", ".", ".."}.intersection(names)


class _Judge:
    """A policy's rules, arranged for looking up a path's ancestors."""

    def __init__(self, policy: Policy) -> None:
        self.outside = max(policy.escape, Verdict.ASK)  # what is said of what no rule speaks of
        self.workspace = policy.workspace
        self.reads: dict[str, list[Rule]] = {}
        self.writes: dict[str, list[Rule]] = {}
        self.globs: dict[Access, list[_Glob]] = {Access.READ: [], Access.WRITE: []}
        for rule in policy.rules:
            if rule.glob:
                self.globs[rule.access] += [(compile_parts(pattern), rule) for pattern in expand(rule.path)]
            else:
                (self.reads if rule.access is Access.READ else self.writes).setdefault(rule.path, []).append(rule)

    def matching(self, access: Access, path: str) -> list[tuple[int, Rule]]:
        """The rules that speak for a path, each with the depth of the place it names, deepest first."""
        names = [name for name in path.split("/") if name]
        found = []
        exact = self.reads if access is Access.READ else self.writes
        place = path
        for depth in range(len(names), -1, -1):
            found += [(depth, rule) for rule in exact.get(place, ())]
            place = place.rpartition("/")[0] or "/"
        for parts, rule in self.globs[access]:
            depth = deepest_match(parts, names)
            if depth >= 0:
                found.append((depth, rule))
        return sorted(found, key=_rank)

    def decide(self, access: Access, path: str) -> Decision:
        return self.read(path) if access is Access.READ else self.write(path)

    def read(self, path: str) -> Decision:
        matching = self.matching(Access.READ, path)
        for _, rule in matching:
            if rule.always:
                return Decision(Verdict.DENY, _sentence(path, rule, "always"), rule)
        private = self.private(path, matching)
        if private is not None:
            return Decision(Verdict.ALLOW, _sentence(path, private), private)
        if not matching:
            return Decision(self.outside, f"no rule lets anyone read {shown(path)}", None, _grant(path, "read"))
        rule = matching[0][1]
        if rule.verdict is Verdict.ALLOW:
            return Decision(Verdict.ALLOW, _sentence(path, rule), rule)
        verdict = self.outside if rule.asks else rule.verdict
        return Decision(verdict, _sentence(path, rule), rule, _grant(path, "read"))

    def write(self, path: str) -> Decision:
        matching = self.matching(Access.WRITE, path)
        for _, rule in matching:
            if rule.verdict is not Verdict.ALLOW:
                return Decision(rule.verdict, f"{_sentence(path, rule)}; {_way_out(rule, self.workspace)}", rule)
        reading = self.read(path)
        if reading.rule is not None and reading.verdict is Verdict.ALLOW and shows_nothing(reading.rule):
            return reading
        allowing = _of_the_host(matching)
        if not allowing:
            reason = f"no rule lets the command write {shown(path)}"
            verdict = reading.verdict if reading.verdict is Verdict.DENY else self.outside
            return Decision(verdict, reason, None, _write_grant(path, reading))
        if reading.verdict is not Verdict.ALLOW:
            reason = f"{shown(path)} is hidden, so it cannot be written: {reading.reason}"
            return Decision(reading.verdict, reason, reading.rule, reading.grant)
        return Decision(Verdict.ALLOW, _sentence(path, allowing[0]), allowing[0])

    def private(self, path: str, reading: list[tuple[int, Rule]]) -> Rule | None:
        """The rule that makes a path the command's own: private, and nobody speaks of the host's file inside it."""
        for depth, rule in self.matching(Access.WRITE, path):
            if rule.verdict is Verdict.ALLOW:
                # Somebody can close a device itself, or all of /dev; what is private has nothing that could be.
                is_closed = rule.path in DEVICES and bool(reading) and _is_somebodys_denial(reading[0][1])
                inside = bool(reading) and reading[0][0] > (0 if is_closed else depth)
                return rule if shows_nothing(rule) and not inside else None
        return None


_KEPT = 16
_judges: list[tuple[Policy, _Judge]] = []


def _judge(policy: Policy) -> _Judge:
    """The judge of a policy; the latest are kept, for a planner asks about one policy many times, others in turns."""
    for known, judge in _judges:
        if known is policy:
            return judge
    made = _Judge(policy)
    _judges.insert(0, (policy, made))
    del _judges[_KEPT:]
    return made


def _rank(found: tuple[int, Rule]) -> tuple[int, bool, bool, bool, int]:
    """What somebody wrote goes before what is built in, so that denying the root leaves only what is allowed."""
    depth, rule = found
    return -depth, rule.implied, rule.origin == BUILT_IN, rule.glob or bool(rule.pattern), rule.verdict


def shows_nothing(rule: Rule) -> bool:
    """Whether it makes a place the command's own, with nothing of the host's in it."""
    return rule.origin == BUILT_IN and rule.access is Access.WRITE and rule.path in _UNSEEN


def _is_somebodys_denial(rule: Rule) -> bool:
    return rule.verdict is not Verdict.ALLOW and rule.origin != BUILT_IN


def _of_the_host(matching: list[tuple[int, Rule]]) -> list[Rule]:
    """The rules that let the host's own file be written: none that reaches into a private place from outside."""
    kept: list[Rule] = []
    for _, rule in matching:
        if shows_nothing(rule) and not (kept and kept[-1].path == rule.path):
            break
        if rule.verdict is Verdict.ALLOW and not shows_nothing(rule):
            kept.append(rule)
    return kept


def _sentence(path: str, rule: Rule, how: str = "") -> str:
    """Why a rule decides about a path, for people."""
    verb = "may be" if rule.verdict is Verdict.ALLOW else "may not be"
    done = "read" if rule.access is Access.READ else "written"
    why = f", {rule.why}" if rule.why else ""
    adverb = f" {how}" if how else ""
    place = "" if rule.path == path else f" as part of {shown(rule.path)}"
    place += f", found by {shown(rule.pattern)}" if rule.pattern else ""
    return f"{shown(path)} {verb} {done}{place}: {rule.origin}{adverb} {_said(rule)}{why}"


def _said(rule: Rule) -> str:
    if rule.implied:
        return "allows writing it"
    return "allows it" if rule.verdict is Verdict.ALLOW else "denies it"


def _way_out(rule: Rule, workspace: str) -> str:
    if rule.origin == BUILT_IN and rule.path == f"{workspace}/.git/config":
        return "no flag lifts that, only filesystem.allowGitConfig in a policy of yours"
    if rule.origin == BUILT_IN:
        return "the built-in policy protects it, and no flag lifts that"
    return f"no flag lifts that, only removing it from {rule.origin}"


def _grant(path: str, verb: str) -> str:
    return f"--allow-{verb} {quoted(escape(path))}"


def _write_grant(path: str, reading: Decision) -> str:
    """What lets a path be written that no rule speaks for; allowing it to be read too where its own name is denied."""
    writing = _grant(path, "write")
    if reading.verdict is Verdict.ALLOW or reading.rule is None:
        return writing
    if reading.rule.always:
        return ""
    by_name = reading.rule.glob or reading.rule.path == path
    return f"{reading.grant} {writing}" if by_name else writing


def writer(policy: Policy, path: str) -> Rule | None:
    """The rule that lets the command write what the host has at a path, whether or not it may be read."""
    matching = _judge(policy).matching(Access.WRITE, path)
    if any(rule.verdict is not Verdict.ALLOW for _, rule in matching):
        return None
    return next(iter(_of_the_host(matching)), None)


def written_down(data: bytes) -> Policy:
    """A policy from its JSON. Built-in rules have BUILT_IN itself as origin again: the planner asks by identity."""
    found = msgspec.json.decode(data, type=Policy)
    rules = (msgspec.structs.replace(one, origin=BUILT_IN) if one.origin == BUILT_IN else one for one in found.rules)
    return msgspec.structs.replace(found, rules=tuple(rules))


def with_real_patterns(policy: Policy, resolve: Callable[[str], str]) -> Policy:
    """The policy with the beginning of every pattern as `resolve` gives it: that is the path the kernel has for what it
    matches. Names that vary are matched as they stand, so links among those are nobody's."""
    if not any(rule.glob for rule in policy.rules):
        return policy
    rules = tuple(_real_pattern(rule, resolve) if rule.glob else rule for rule in policy.rules)
    return msgspec.structs.replace(policy, rules=rules)


def _real_pattern(rule: Rule, resolve: Callable[[str], str]) -> Rule:
    fixed, rest = parted(rule.path)
    real = resolve(fixed)
    if real == fixed:
        return rule
    return msgspec.structs.replace(rule, path=f"{escape(real).rstrip('/')}/{rest}", through=rule.through or fixed)


def canonical_policy(policy: Policy, resolve: Callable[[str], str], has_real_patterns: bool = False) -> Policy:
    """The policy with every path as `resolve` gives it. A denied link stays denied beside its target. Patterns that are
    real already are not looked at again: where they begin there may be a link by now."""
    rules: list[Rule] = []
    for rule in (policy if has_real_patterns else with_real_patterns(policy, resolve)).rules:
        path = rule.path if rule.glob else resolve(rule.path)
        rules.append(rule if path == rule.path else msgspec.structs.replace(rule, path=path))
        if (path != rule.path or (rule.glob and rule.through)) and rule.verdict is not Verdict.ALLOW:
            rules += [msgspec.structs.replace(rule, path=link, glob=False) for link in _links(rule, resolve)]
    injections = tuple(
        msgspec.structs.replace(injection, source=resolve(injection.source)) for injection in policy.injections
    )
    return msgspec.structs.replace(
        policy, workspace=resolve(policy.workspace), rules=settled(tuple(rules)), injections=injections
    )


def _links(rule: Rule, resolve: Callable[[str], str]) -> list[str]:
    """The links a denied path leads through, each at its canonical place: the last for reads, all for writes.

    Whoever can replace a link on the way to an unwritable file can put another file there.
    """
    links = []
    place = ""
    names = [name for name in (rule.through if rule.glob else rule.path).split("/") if name]
    for index, name in enumerate(names):
        path = f"{place.rstrip('/')}/{name}"
        place = resolve(path)
        is_last = index == len(names) - 1 and not rule.glob
        if place != path and (rule.access is Access.WRITE or is_last):
            links.append(path)
    return links
