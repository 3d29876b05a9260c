"""The narrower of two policies: what both of them allow, and nothing else.

A run inside another one has a policy of its own, and the one around it stands for whoever started that. Whatever the
inner one says, it opens nothing that the outer one closes: so it may come from anybody. Pure, over canonical policies.

Reads: at every place that either of them names both are asked, and one rule says what both allow; between such places
neither changes. Denying patterns of both stay, and allowing ones count as far as they have matched already. Writes: any
denial of either stays, and what both allow is allowed.
"""

from collections.abc import Callable

import msgspec

from ..model import (
    BUILT_IN,
    Access,
    Enforcement,
    HostRule,
    Injection,
    Limit,
    Network,
    Origin,
    Policy,
    Rule,
    Verdict,
)
from ..model.policy import LIMITS
from .decide import decide, is_canonical, shows_nothing, writer
from .words import shown

_OUTER = Origin("the run around this one")
_STRICT = (Enforcement.OFF, Enforcement.BEST_EFFORT, Enforcement.REQUIRED)


def meet(outer: Policy, inner: Policy) -> Policy:
    """What both allow. The workspace, and what is shown in another place, are the outer one's; the variables, which
    come from inside, the inner one's."""
    shown = tuple(one for one in outer.injections if _reads_both(inner, one))
    hidden = (Rule(Access.READ, Verdict.DENY, one.target, one.origin) for one in outer.injections if one not in shown)
    found = msgspec.structs.replace(
        outer,
        rules=(*_rules(outer, inner), *hidden),
        injections=shown,
        network=_network(outer.network, inner.network),
        environment=inner.environment,
        enforcement=max(outer.enforcement, inner.enforcement, key=_STRICT.index),
        limits=_limits(outer.limits, inner.limits),
        asks=(*outer.asks, *inner.asks),
        nested=outer.nested and inner.nested,
        escape=Verdict.DENY,
        asking=False,
        is_resolved=True,
    )
    return msgspec.structs.replace(found, ignored=(*inner.ignored, *_not_given(found, inner)))


def _reads_both(inner: Policy, one: Injection) -> bool:
    return all(decide(inner, Access.READ, path).verdict is Verdict.ALLOW for path in (one.source, one.target))


def _rules(outer: Policy, inner: Policy) -> tuple[Rule, ...]:
    plain = [rule for policy in (outer, inner) for rule in policy.rules if not rule.glob and is_canonical(rule.path)]
    given = dict.fromkeys(rule.path for rule in plain if rule.access is Access.WRITE and not _denies(rule))
    named = {rule.path for rule in plain if rule.access is Access.READ} | given.keys()
    paths = sorted(named, key=lambda path: (path.count("/"), path))
    private = [rule for rule in plain if shows_nothing(rule) and _is_private((outer, inner), rule.path)]
    patterns = [rule for policy in (outer, inner) for rule in policy.rules if rule.glob and _denies(rule)]
    apart = {rule.path for rule in private}  # what is above one of them is not above what lies in it
    if any(rule.access is Access.READ for rule in patterns):
        apart = set(paths)
    reads = _reads(outer, inner, paths, apart)
    writes = [_at(rule, Access.WRITE, path) for path in given if writer(inner, path) and (rule := writer(outer, path))]
    kept = [rule for rule in plain if rule.access is Access.WRITE and _denies(rule)]
    return tuple(dict.fromkeys((*private, *reads, *writes, *kept, *patterns)))


def _reads(outer: Policy, inner: Policy, paths: list[str], apart: set[str]) -> list[Rule]:
    """What both say of each place. An allowance that the place above has too is left out, unless something lies in
    between: what is private, or perhaps a pattern."""
    found: list[Rule] = []
    said: dict[str, Verdict] = {}
    for path in paths:
        theirs = answer = decide(outer, Access.READ, path)
        if theirs.verdict is Verdict.ALLOW:
            answer = decide(inner, Access.READ, path)
        said_now = Verdict.ALLOW if answer.verdict is Verdict.ALLOW else Verdict.DENY
        if said_now is Verdict.ALLOW:
            if any(one.rule is not None and shows_nothing(one.rule) for one in (theirs, answer)):
                continue  # one of them has it private, so it is
            if _above(path, said, apart) is Verdict.ALLOW:
                continue
            answer = theirs
        said[path] = said_now
        found.append(_at(answer.rule or Rule(Access.READ, said_now, path, _OUTER), Access.READ, path, said_now))
    return found


def _is_private(policies: tuple[Policy, Policy], path: str) -> bool:
    """Whether one of them has there what is the command's own: then so has who is held by both."""
    rules = [decide(policy, Access.READ, path).rule for policy in policies]
    return any(rule is not None and shows_nothing(rule) for rule in rules)


def _above(path: str, said: dict[str, Verdict], apart: set[str]) -> Verdict:
    """What was said of the nearest place above."""
    while path != "/" and path not in apart:
        path = path.rpartition("/")[0] or "/"
        if path in said:
            return said[path]
    return Verdict.DENY


def _at(rule: Rule, access: Access, path: str, verdict: Verdict = Verdict.ALLOW) -> Rule:
    """What a rule says, of one place."""
    always = rule.always and verdict is Verdict.DENY
    return Rule(access, verdict, path, rule.origin, always, need=rule.need, why=rule.why)


def _denies(rule: Rule | HostRule) -> bool:
    return rule.verdict is not Verdict.ALLOW


def _network(outer: Network, inner: Network) -> Network:
    """What both reach. What listens or leads inwards is the outer run's alone."""
    theirs = [rule for rule in outer.hosts if not _denies(rule)]
    allowed = [rule for rule in theirs if inner.open or _covers(inner, rule)]
    allowed += [rule for rule in inner.hosts if not _denies(rule) and (outer.open or _covers(outer, rule))]
    denied = [rule for network in (outer, inner) for rule in network.hosts if _denies(rule)]
    paths = {rule.path for rule in inner.sockets}
    return msgspec.structs.replace(
        outer,
        open=outer.open and inner.open,
        local_binding=outer.local_binding and inner.local_binding,
        all_unix_sockets=outer.all_unix_sockets and inner.all_unix_sockets,
        ssh_agent=outer.ssh_agent and inner.ssh_agent,
        hosts=tuple(dict.fromkeys((*denied, *allowed))),
        denied_addresses=(*outer.denied_addresses, *inner.denied_addresses),
        sockets=tuple(rule for rule in outer.sockets if inner.all_unix_sockets or rule.path in paths),
        match_hosts=outer.match_hosts or inner.match_hosts,
        ends_with_proxy=outer.ends_with_proxy or inner.ends_with_proxy,
        forwards=(),
        proxies=(),
        credential="",
    )


def _covers(network: Network, asked: HostRule) -> bool:
    """Whether one rule of a network allows all that another allows. Of several ports or addresses none need be told
    apart: then the narrower one is not given."""
    return any(
        not _denies(rule)
        and rule.port in (0, asked.port)
        and (rule.host == asked.host or _is_below(asked.host, rule.host))
        for rule in network.hosts
    )


def _is_below(host: str, above: str) -> bool:
    """Whether a name, or all names below one, are among those that a pattern means. An address, or this machine, means
    more when it is named itself."""
    if above != "*" and not above.startswith("*."):
        return False
    from .connect import LOCAL
    from .hosts import HostError, canonical_host, is_address

    name = host.removeprefix("*.")
    try:
        is_plain = canonical_host(name) == name and not is_address(name) and name != LOCAL and "/" not in name
    except HostError:
        return False
    return is_plain and (above == "*" or name.endswith(above[1:]) or host == above)


def _limits(outer: tuple[Limit, ...], inner: tuple[Limit, ...]) -> tuple[Limit, ...]:
    found = {limit.name: limit for limit in outer}
    for limit in inner:
        is_limit = limit.name in LIMITS and 0 < limit.amount < float("inf")
        if is_limit and (limit.name not in found or limit.amount < found[limit.name].amount):
            found[limit.name] = limit
    return tuple(found.values())


def _not_given(found: Policy, inner: Policy) -> list[str]:
    """What somebody asked for inside, and the run around does not have to give."""
    judges: dict[Access, Callable[[str], bool]] = {
        Access.READ: lambda path: decide(found, Access.READ, path).verdict is Verdict.ALLOW,
        Access.WRITE: lambda path: writer(found, path) is not None,
    }
    asked = [rule for rule in inner.rules if rule.verdict is Verdict.ALLOW and not (rule.implied or rule.pattern)]
    missing = [
        (rule.origin, f"{shown(rule.path)} {'readable' if rule.access is Access.READ else 'writable'}")
        for rule in asked
        if rule.origin != BUILT_IN and (rule.glob or not judges[rule.access](rule.path))
    ]
    network, has = inner.network, found.network
    missing += [
        (rule.origin, f"{shown(rule.text or rule.host)} reachable")
        for rule in network.hosts
        if not _denies(rule) and rule not in has.hosts
    ]
    missing += [(_OUTER, "the host's network")] * (network.open and not has.open)
    missing += [(_OUTER, "questions to a person (--ask)")] * inner.asking
    return [f"not given: {what}: the run around this one does not have it ({origin})" for origin, what in missing]
