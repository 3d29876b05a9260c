"""The policy format as JSON Schema, and a policy as people and programs read it.

Both come from the values themselves: the schema from the table of keys, so that it cannot say something else than
what is parsed.
"""

from ..model import HostRule, Origin, Policy, Rule
from .hosts import joined
from .keys import GROUPS, KEYS, Key, Support
from .words import shown

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of a policy file."""
    properties: dict[str, object] = {}
    for name, row in KEYS.items():
        if "." not in name:
            properties[name] = _described(row)
    for group in GROUPS:
        inner = {name.split(".", 1)[1]: _described(row) for name, row in KEYS.items() if name.startswith(f"{group}.")}
        properties[group] = {"type": "object", "properties": inner, "additionalProperties": False}
    return {
        "$schema": _DIALECT,
        "title": "ringfence policy",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _described(row: Key) -> dict[str, object]:
    held = row.support in (Support.HELD, Support.NOTED)
    return {"description": row.why if held else f"Not enforced yet: {row.why}.", **row.kind.schema()}


def as_document(policy: Policy) -> dict[str, object]:
    """A policy as plain values, ready to become JSON, each with where it comes from."""
    return {
        "workspace": policy.workspace,
        "enforcement": policy.enforcement.value,
        "network": {
            "open": policy.network.open,
            "localBinding": policy.network.local_binding,
            "allUnixSockets": policy.network.all_unix_sockets,
            "sshAgent": policy.network.ssh_agent,
            "hosts": [_host_value(rule) for rule in policy.network.hosts],
            "deniedAddresses": [_host_value(rule) for rule in policy.network.denied_addresses],
            "unixSockets": [{"path": one.path, "origin": str(one.origin)} for one in policy.network.sockets],
        },
        "environment": {"allow": list(policy.environment.allow), "set": dict(policy.environment.set)},
        "rules": [_rule_value(rule) for rule in policy.rules],
        "injections": [
            {"source": one.source, "target": one.target, "origin": str(one.origin)} for one in policy.injections
        ],
        "limits": [{"name": one.name, "amount": one.amount, "origin": str(one.origin)} for one in policy.limits],
        "asks": [
            {"key": ask.key, "why": ask.why, "need": ask.need.value, "origin": str(ask.origin)} for ask in policy.asks
        ],
        "ignored": list(policy.ignored),
        "sources": list(policy.sources),
    }


def _host_value(rule: HostRule) -> dict[str, object]:
    value: dict[str, object] = {"verdict": rule.verdict.word, "host": rule.host}
    value |= {"port": rule.port} if rule.port else {}
    value |= {"why": rule.why} if rule.why else {}
    return value | {"origin": str(rule.origin)}


def _rule_value(rule: Rule) -> dict[str, object]:
    value: dict[str, object] = {"access": rule.access.value, "verdict": rule.verdict.word, "path": rule.path}
    value |= {name: True for name in ("always", "glob", "implied") if getattr(rule, name)}
    value |= {"why": rule.why} if rule.why else {}
    return value | {"need": rule.need.value, "origin": str(rule.origin)}


def as_text(policy: Policy, origin: bool = False) -> str:
    """A policy as people read it, a line for each thing it says."""
    network = "open" if policy.network.open else "by name" if policy.network.allows_hosts else "closed"
    lines = [f"workspace    {shown(policy.workspace)}", f"enforcement  {policy.enforcement.value}"]
    lines += [f"network      {network}"]
    lines += ["             listening on loopback"] if policy.network.local_binding else []
    lines += ["             all unix sockets"] if policy.network.all_unix_sockets else []
    lines += ["             the ssh agent, for listing and signing"] if policy.network.ssh_agent else []
    lines += [
        f"             unix socket {shown(one.path)}" + _place(one.origin, origin) for one in policy.network.sockets
    ]
    lines += [
        f"{rule.verdict.word:6}connect {shown(joined(rule.host, rule.port))}{_place(rule.origin, origin)}"
        for rule in (*policy.network.hosts, *policy.network.denied_addresses)
    ]
    lines += [f"environment  {', '.join(('the built-in list', *policy.environment.allow))}"]
    lines += [f"             {name}={shown(value)}" for name, value in policy.environment.set.items()]
    lines += [_rule_line(rule, origin) for rule in policy.rules]
    lines += [
        f"inject       {shown(one.source)} at {shown(one.target)}{_place(one.origin, origin)}"
        for one in policy.injections
    ]
    lines += [f"limit        {one}{_place(one.origin, origin)}" for one in policy.limits]
    lines += [
        f"not enforced {one.key} ({one.need.value}): {one.why}{_place(one.origin, origin)}" for one in policy.asks
    ]
    lines += [f"ignored      {sentence}" for sentence in policy.ignored]
    lines += [f"from         {shown(source)}" for source in policy.sources]
    return "\n".join(lines)


def _place(origin: Origin, wanted: bool) -> str:
    return f"  [{origin}]" if wanted else ""


def _rule_line(rule: Rule, origin: bool) -> str:
    marks = [name for name in ("always", "implied") if getattr(rule, name)]
    marks += ["pattern"] if rule.glob else []
    notes = f"  ({', '.join(marks)})" if marks else ""
    return f"{rule.verdict.word:6}{rule.access.value:7}{shown(rule.path)}{notes}{_place(rule.origin, origin)}"
