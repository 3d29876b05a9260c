"""The one judge, of hosts: may this name and port be reached, and the address it leads to?

A denial wins; else an allowance is needed. A name is compared label by label: `*.example.com` is what lies strictly
below example.com, and never `evilexample.com`. The address that a name leads to is judged a second time, because
whoever owns the name chooses the address: loopback, private, link-local and the machine's own addresses must be named
themselves. What was judged is what is to be dialled: never resolve a second time.

Pure: resolving is the caller's, and so is knowing the machine's own addresses.
"""

import msgspec

from ..model import Decision, HostRule, Network, Policy, Verdict
from .hosts import (
    HostError,
    IsOwn,
    canonical_address,
    canonical_host,
    is_address,
    is_within,
    joined,
    port_number,
    special,
    split_port,
)
from .names import entry_fault
from .words import named, quoted, shown

LOCAL = "localhost"
_LOOPBACK = ("127.0.0.1", "::1")
_UNLISTED = 65535  # stands for any port that no rule names
HTTPS = 443


def decide_host(network: Network, host: str, port: int) -> Decision:
    """May this host be reached at this port? A grant is one that a policy can hold."""
    try:
        name = canonical_host(host)
    except HostError as error:
        return Decision(Verdict.DENY, f"{named(host)} is not a host: {error}")
    if not 1 <= port <= 65535:
        return Decision(Verdict.DENY, f"{port} is not a port")
    target = joined(name, port)
    for rule in network.hosts:
        if rule.verdict is not Verdict.ALLOW and matches(rule, name, port):
            why = f": {shown(rule.why)}" if rule.why else ""
            reason = f"{target} may not be reached: {rule.origin} denies {_entry(rule)}{why}"
            return Decision(rule.verdict, reason, host=rule)
    if network.open:
        return Decision(Verdict.ALLOW, f"{target} may be reached: the network is open")
    for rule in network.hosts:
        if rule.verdict is Verdict.ALLOW and matches(rule, name, port):
            return Decision(Verdict.ALLOW, f"{target} may be reached: {rule.origin} allows {_entry(rule)}", host=rule)
    fault = entry_fault(target, False)
    why = f", nor could one: {fault}" if fault else ""
    return Decision(Verdict.DENY, f"no rule lets anyone reach {target}{why}", grant="" if fault else _grant(target))


def decide_connect(policy: Policy, host: str, port: int) -> Decision:
    """The same of a policy, where what nobody spoke of may be asked."""
    answer = decide_host(policy.network, host, port)
    if answer.verdict is Verdict.DENY and answer.host is None and answer.grant and not policy.network.is_strict:
        return msgspec.structs.replace(answer, verdict=max(policy.escape, Verdict.ASK))
    return answer


def decide_target(policy: Policy, target: str, port: int = 0) -> Decision:
    """The same of a host as people write it: with its port, else with the one beside it, else with that of HTTPS. An
    address is judged as a name and as the address that it leads to."""
    host, said = split_port(target)
    number = port_number(said) if said else port or HTTPS
    if not number or "/" in target:
        return Decision(Verdict.DENY, f"{named(target)} is not a host, or a host and its port")
    answer = decide_connect(policy, host, number)
    if answer.verdict is not Verdict.ALLOW or policy.network.open:
        return answer
    name = canonical_host(host)
    judged = decide_address(policy.network, name, number, name) if is_address(name) else answer
    return max(answer, judged, key=lambda one: one.verdict)


def decide_name(network: Network, host: str) -> Decision:
    """May this host be reached at some port, so that its name may be resolved?"""
    try:
        name = canonical_host(host)
    except HostError as error:
        return Decision(Verdict.DENY, f"{named(host)} is not a host: {error}")
    answer = decide_host(network, name, 443)
    for rule in network.hosts:
        if answer.verdict is Verdict.ALLOW:
            break
        port = rule.port or _UNLISTED
        if rule.verdict is Verdict.ALLOW and matches(rule, name, port):
            answer = min(answer, decide_host(network, name, port), key=lambda one: one.verdict)
    return answer


def _is_nobodys(_address: str, _port: int) -> bool:
    return False


def decide_address(network: Network, host: str, port: int, address: str, is_own: IsOwn = _is_nobodys) -> Decision:
    """May an allowed host lead to this address? `is_own` knows the machine's own."""
    try:
        found = canonical_address(address)
    except HostError as error:
        return Decision(Verdict.DENY, f"{named(address)} is not an address: {error}")
    where = f"{shown(host)} leads to {found}"
    for rule in network.denied_addresses:
        if is_within(found, rule.host):
            return Decision(rule.verdict, f"{where}: {rule.origin} denies {_entry(rule)}", host=rule)
    for rule in network.hosts:
        if rule.verdict is not Verdict.ALLOW and matches(rule, found, port):
            return Decision(rule.verdict, f"{where}: {rule.origin} denies {_entry(rule)}", host=rule)
    kind = special(found) or ("one of this machine's own addresses" if is_own(found, port) else "")
    if network.open or not kind:
        return Decision(Verdict.ALLOW, f"{where}, a public address" if not kind else f"{where}: the network is open")
    for rule in network.hosts:
        if rule.verdict is Verdict.ALLOW and _names(rule, host, found, port):
            return Decision(Verdict.ALLOW, f"{where}: {rule.origin} allows {_entry(rule)}", host=rule)
    return Decision(Verdict.DENY, f"{where}, {kind}, and nobody named that", grant=_grant(joined(found, port)))


def matches(rule: HostRule, name: str, port: int) -> bool:
    """Whether a rule speaks of a canonical host at a port."""
    if rule.port not in (0, port):
        return False
    if rule.host in ("*", name):
        return True
    if rule.host.startswith("*."):
        return name.endswith(rule.host[1:]) and len(name) >= len(rule.host) and not is_address(name)
    return rule.host == LOCAL and name in _LOOPBACK


def _names(rule: HostRule, host: str, address: str, port: int) -> bool:
    """Whether a rule names an address itself, so that it may be special."""
    if rule.port not in (0, port):
        return False
    is_local = rule.host == LOCAL and address in _LOOPBACK and host in (LOCAL, *_LOOPBACK)
    return rule.host == address or is_local


def _entry(rule: HostRule) -> str:
    return shown(rule.text or joined(rule.host, rule.port))


def _grant(target: str) -> str:
    return f"--allow-host {quoted(target)}"
