"""`ringfence tenant`: many people's workspaces on one host, each with a user and a tree of its own. For root."""

import os
import time

from ..model import RingfenceError, TenantError, UsageError
from ..model.policy import shown_amount
from ..model.tenant import Tenant, TenantFault, TenantState
from ..policy.limits import read_amount
from ..workspace.tenants import life, quota, tree
from ..workspace.tenants.names import tenant_name
from ..workspace.tenants.registry import Registry
from .options import OUTPUT, Option, Values, give, one, parse_around, render_help

BASE, REGISTRY = "/srv/ringfence", "/etc/ringfence/tenants"
TABLE = (
    Option("--base", "DIR", f"where the trees are (default: {BASE})"),
    Option("--registry", "DIR", f"where the records are (default: {REGISTRY})"),
    Option("--alias", "HOST", "create: another name for it", many=True),
    Option("--runs", "COUNT", "create, limit: the most runs at once"),
    Option("--memory", "SIZE", "create, limit: the most memory of all its runs together, as 2G; needs control groups"),
    Option("--processes", "COUNT", "create, limit: the most processes of all its runs; needs control groups"),
    Option("--disk", "SIZE", "create, limit: the most that its tree holds, as 10G; by quota where there are any"),
    Option("--off", "", "suspend: let it run again"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence tenant create example.com --alias www.example.com",
    "ringfence tenant list",
    "ringfence tenant limit example.com --disk 10G",
    "ringfence tenant suspend example.com",
    "ringfence tenant remove example.com",
)
VERBS = ("create", "list", "show", "limit", "suspend", "repair", "remove", "unit")


def main(words: list[str]) -> int:
    """One of the verbs of tenants."""
    values, rest = parse_around(words, TABLE)
    verb, host, rest = *rest[:2], *[""] * (2 - len(rest)), rest[2:]
    if "--help" in values:
        usage = f"tenant {'|'.join(VERBS)} [HOST] [options]"
        print(render_help(usage, "Gives each of many people on one host a user and a tree.", TABLE, EXAMPLES))
        return 0
    if verb not in VERBS:
        raise UsageError("tenant", f"needs one of: {', '.join(VERBS)}", hint="ringfence tenant list")
    if rest or (host == "") != (verb == "list"):
        what = "takes no name" if verb == "list" else "needs one name, and nothing behind it"
        raise UsageError(f"tenant {verb}", what, "ringfence tenant --help")
    if os.geteuid() != 0 and verb not in ("list", "show", "unit"):
        raise UsageError(f"tenant {verb}", "users and their trees are made by root", hint="sudo ringfence tenant …")
    base, place = one(values, "--base") or BASE, one(values, "--registry") or REGISTRY
    if verb == "create":
        tenant_name(host)  # a mistake makes nothing
        _make_places(base, place)
    elif not os.path.lexists(place):
        raise UsageError(f"tenant {verb}", f"no tenant was made here: there is no {place}", hint=EXAMPLES[0])
    with Registry(place) as registry:
        return _act(verb, host, values, registry, base)


def _make_places(base: str, registry: str) -> None:
    """The first tenant makes the two directories; ones that are there are only looked at."""
    for path, mode in ((base, tree.PASSABLE), (registry, 0o755)):
        try:
            os.makedirs(path, mode)
        except FileExistsError:
            continue
        os.chmod(path, mode)


def _act(verb: str, host: str, values: Values, registry: Registry, base: str) -> int:
    if verb == "list":
        tenants = [registry.find(name) for name in registry.names()]
        documents = [_document(base, found) for found in tenants]
        give(values, {"schema": "ringfence/tenants@1", "tenants": documents}, *map(_line, tenants))
    elif verb == "create":
        _show(values, base, life.create(registry, base, host, values.get("--alias", ()), _limits(values)))
    elif verb == "show":
        _show(values, base, registry.find(host))
    elif verb == "limit":
        _show(values, base, life.limit(registry, base, host, _limits(values)))
    elif verb == "suspend":
        _show(values, base, life.suspend(registry, host, off="--off" in values))
    elif verb == "repair":
        found, changed, left = life.repair(registry, base, host)
        text = f"{found.name}: {changed} names given back"
        rows = (f"  left, for it has another name somewhere or lies too deep: {path}" for path in left)
        give(values, {**_document(base, found), "changed": changed, "left": left}, text, *rows)
    elif verb == "remove":
        archive = life.remove(registry, base, host)
        give(values, {"schema": "ringfence/tenant@1", "archive": archive}, f"removed; its tree is in {archive}")
    else:
        from .units import tenant_unit

        print(tenant_unit(registry.find(host), base), end="")
    return 0


def _limits(values: Values) -> dict[str, int]:
    limits = {}
    for name in ("runs", "memory", "processes", "disk"):
        text = one(values, f"--{name}")
        if text is None:
            continue
        try:
            limits[name] = int(read_amount(name if name in ("memory", "disk") else "processes", text))
        except ValueError:
            raise UsageError(f"--{name}", f"does not understand {text!r}", "a number, as 8 or 2G") from None
    return limits


def _document(base: str, found: Tenant) -> dict[str, object]:
    document: dict[str, object] = {"schema": "ringfence/tenant@1", "name": found.name, "id": found.id}
    document |= {"user": found.user, "uid": found.uid, "gid": found.gid, "state": found.state.value}
    document |= {"aliases": found.aliases, "limits": found.limits, "made": found.made}
    if "disk" in found.limits:
        document["disk"] = _holds(base, found)
    if found.state is TenantState.ACTIVE:
        try:
            document["workspace"] = tree.resolve(base, found).root
        except TenantError as error:
            document["fault"] = error.code
        except PermissionError:
            document["fault"] = f"TENANT_{TenantFault.FAILED.name}"  # only root and the tenant can look
    return document


def _holds(base: str, found: Tenant) -> str:
    """Who holds the limit of the disk."""
    try:
        held = tree.open_base(base)
    except RingfenceError:
        return "unknown"
    try:
        by_kernel = quota.is_held(held, found.uid, found.limits["disk"])
    except TenantError:  # another user's quota is for root to see
        return "unknown"
    finally:
        os.close(held)
    return "the kernel's quota" if by_kernel else "measured by stewards: a run can be over it for a moment"


def _line(found: Tenant) -> str:
    return f"{found.name:32} {found.user:32} {found.uid:6} {found.state.value}"


def _show(values: Values, base: str, found: Tenant) -> None:
    document = _document(base, found)
    shown = {key: _worded(key, value) for key, value in document.items() if key != "schema" and value}
    give(values, document, *(f"{key:10} {text}" for key, text in shown.items()))


def _worded(key: str, value: object) -> str:
    """A value as a person reads it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown_amount(name, amount)}" for name, amount in value.items())
    if key == "made":
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(int(str(value))))
    return ", ".join(value) if isinstance(value, tuple) else str(value)
