"""What a person may approve, as which rule it is remembered, and how that rule reaches the judge.

Pure: where a path leads and whether it is there is found out by the caller. A grant never opens a store of secrets, our
own files; a wider one leaves them closed, for they are denied by name.
"""

from ..model import GRANTED, Access, Origin, Rule, Standing, Verdict
from ..model.grant import Answer, Grant, Operation
from .connect import LOCAL
from .decide import is_canonical
from .defaults import SHARED, is_inside
from .hosts import HostError, IsOwn, canonical_host, is_address, joined, port_number, special, split_port
from .layer import Layer, Setting, Tier
from .names import entry_fault
from .stores import SECRETS, SYSTEM_SECRETS
from .tables import STARTUP
from .words import quoted, shown


def target_of(operation: Operation, text: str) -> str:
    """The one form in which a target is remembered; ValueError says why it has none. Paths come canonical."""
    if operation is Operation.BIND:
        if not port_number(text):
            raise ValueError(f"{shown(text)} is not a port")
        return str(port_number(text))
    if operation is Operation.CONNECT:
        if "/" in text:
            raise ValueError(f"{shown(text)}: {entry_fault(text, any_host=False)}")
        host, port = split_port(text)
        if port and not port_number(port):
            raise ValueError(f"{shown(text)} has no port that can be dialled")
        wild = host.startswith("*.")
        try:
            name = canonical_host(host.removeprefix("*."))
        except HostError as error:
            raise ValueError(f"{shown(text)} is not a host: {error}") from None
        if wild and (is_address(name) or "." not in name):
            raise ValueError(f"{shown(text)} would be half of the internet")
        found = joined(f"*.{name}" if wild else name, port_number(port))
        fault = entry_fault(found, any_host=False)
        if fault:
            raise ValueError(f"{shown(text)}: {fault}")
        return found
    if not is_canonical(text):
        raise ValueError(f"{shown(text)} is not an absolute path")
    return text


def refusal(grant: Grant, homes: tuple[str, ...] = (), own: tuple[str, ...] = (), is_own: IsOwn | None = None) -> str:
    """Why a grant may not be given, or "", whatever the policy; `own` are our files, `is_own` knows the addresses
    of a host that is not the person's: what listens there, and in its network, trusts whoever is near."""
    if grant.operation in (Operation.CONNECT, Operation.BIND):
        fault = entry_fault(grant.target, any_host=False) if grant.operation is Operation.CONNECT else ""
        if fault or is_own is None:  # what no policy can hold would refuse every run
            return f"{shown(grant.target)}: {fault}" if fault else ""
        host, port = split_port(grant.target)
        host = host.strip("[]")
        is_near = grant.operation is Operation.BIND or host == LOCAL
        if is_near or (is_address(host) and (special(host) or is_own(host, port_number(port)))):
            return f"{shown(grant.target)} is of the host or its network, which a policy file can open, and no approval"
        return ""
    path, writes = grant.target, grant.operation.kind == "write"
    if path in SHARED or any(is_inside(home, (path,)) for home in homes):
        return f"{shown(path)} is too much at once: name what is needed in it"
    stores = [(f"{home.rstrip('/')}/{name}", why) for home in homes for name, why in SECRETS]
    for place, why in (*SYSTEM_SECRETS, *stores):
        if is_inside(path, (place,)):
            return f"{shown(path)} is kept closed ({why}); only a policy file can open it"
    for place in own:
        if is_inside(path, (place,)) or (writes and is_inside(place, (path,))):
            return f"{shown(place)} is ringfence's own"
    for home in homes if writes else ():
        for name, why in STARTUP:
            if is_inside(path, (f"{home.rstrip('/')}/{name}",)):
                return f"{shown(path)} runs code later ({why}), and no grant lifts that"
    return ""


# Below these a country has everybody's names, as co.uk; nobody is offered them whole.
_EVERYBODYS = frozenset("ac co com edu gob gouv gov go ne net nom or org".split())


def choices(operation: Operation, target: str, homes: tuple[str, ...]) -> list[str]:
    """What would answer who asks for a path, a host with its port, or a port to listen on, from the narrowest: a person
    chooses, or names another."""
    if operation is Operation.BIND:
        return [target]
    if operation is Operation.CONNECT:
        host, port = split_port(target)
        found = [target, *([host] if port else [])]
        labels = host.split(".")
        is_wide = len(labels) < 3 or (len(labels) == 3 and len(labels[2]) == 2 and labels[1] in _EVERYBODYS)
        return found + ([f"*.{'.'.join(labels[1:])}"] if not is_wide and not is_address(host) else [])
    found, path = [], target
    while path not in SHARED and path not in homes and len(found) < 4:
        found.append(path)
        path = path.rpartition("/")[0] or "/"
    return found or [target]


def rule_text(grant: Grant) -> str:
    """Exactly what is remembered, in the words of the policy, where, and until when."""
    verbs = {"read": "--allow-read", "write": "--allow-write", "connect": "--allow-host", "bind": "--forward"}
    where = f"in {shown(grant.workspace)}" if grant.workspace else "in every workspace"
    return f"{verbs[grant.operation.kind]} {quoted(grant.target)} {where}, {ending(grant)}"


LATEST = 253_402_300_799  # the end of the last year that a date can have


def ending(grant: Grant) -> str:
    """When a grant ends, for people."""
    if not grant.until:
        return "until it is revoked"
    from datetime import UTC, datetime

    until = max(0, min(grant.until, LATEST))
    stamp = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
    return f"until {stamp}" + (" or a restart" if grant.answer is Answer.SESSION else "")


def grants_layer(standing: Standing) -> Layer:
    """What was approved as a layer; every rule's origin names the grant and its end."""
    rules: list[Rule] = []
    settings: list[Setting] = []
    for grant in standing.grants:
        origin = Origin(f"grant {grant.id} ({ending(grant)})")
        kind, target = grant.operation.kind, grant.target
        if kind == "connect":
            settings.append(Setting("network.allowedDomains", (target,), origin))
        elif kind == "bind":
            settings.append(Setting("network.forward", (int(target),), origin))
        else:
            access = Access.WRITE if kind == "write" else Access.READ
            rules.append(Rule(access, Verdict.ALLOW, target, origin, why=GRANTED))
            if access is Access.WRITE:
                rules.append(Rule(Access.READ, Verdict.ALLOW, target, origin, implied=True, why=GRANTED))
    return Layer(Tier.GRANTS, rules=tuple(rules), settings=tuple(settings), notes=standing.notes)
