"""Layers, and how they become one policy: who may narrow, who may widen.

    built-in < managed < --profile < user < project < what was approved < --policy files < flags

Lists unite, and of single values the later wins. A managed layer is a floor besides: its read denials hold always,
and what it sets to false or to a stricter enforcement stays so. The project's own layer can only narrow until
somebody trusts it. Pure: layers are values, and merging reads nothing.
"""

import enum

import msgspec

from ..model import (
    BUILT_IN,
    Access,
    Ask,
    Enforcement,
    Environment,
    Injection,
    Limit,
    Need,
    Network,
    Origin,
    Policy,
    PolicyError,
    Rule,
    Verdict,
)
from .words import shown

MAX_RULES = 8192

_STRICTNESS = {Enforcement.OFF: 0, Enforcement.BEST_EFFORT: 1, Enforcement.REQUIRED: 2}
_SWITCHES = (
    "network.allowNetwork",
    "network.allowLocalBinding",
    "network.allowAllUnixSockets",
    "network.allowSshAgent",
    "filesystem.allowGitConfig",
    "filesystem.disabled",
    "allowNestedSandbox",
)


class Tier(enum.IntEnum):
    """Where a layer comes from; the order is the order of merging."""

    BUILT_IN = 0
    MANAGED = 1
    PROFILE = 2
    USER = 3
    PROJECT = 4
    GRANTS = 5
    EXPLICIT = 6
    FLAGS = 7


_MAY_DISABLE = (Tier.USER, Tier.EXPLICIT, Tier.FLAGS)


class Setting(msgspec.Struct, frozen=True):
    """One key that is not a list of paths, as somebody set it."""

    key: str
    value: object
    origin: Origin


class Layer(msgspec.Struct, frozen=True):
    """What one file, the flags or the built-in policy say."""

    tier: Tier
    source: str = ""  # the file
    trusted: bool = True  # whether its widening parts count
    rules: tuple[Rule, ...] = ()
    injections: tuple[Injection, ...] = ()
    settings: tuple[Setting, ...] = ()
    escape: Verdict = Verdict.DENY  # of a profile
    notes: tuple[str, ...] = ()  # what did not count, as sentences


def merge(workspace: str, layers: tuple[Layer, ...], guarded: tuple[str, ...] = ()) -> Policy:
    """One policy out of all layers. `guarded` are our own files, unwritable even where path rules are switched off."""
    notes = [note for layer in layers for note in layer.notes]
    counted = [_as_trusted(layer, notes) for layer in sorted(layers, key=lambda layer: layer.tier)]
    switches = {key: _switch(key, counted, notes) for key in _SWITCHES}
    network = _network(counted, _switched(switches))
    return Policy(
        workspace,
        _rules(workspace, counted, switches, guarded),
        network=network,
        environment=_environment(counted),
        enforcement=_enforcement(counted, notes),
        injections=tuple(injection for layer in counted for injection in layer.injections),
        limits=_limits(counted, notes),
        asks=_asks(counted, network),
        ignored=tuple(notes),
        sources=tuple(layer.source for layer in counted if layer.source),
        nested=switches["allowNestedSandbox"] is not None,
        escape=next((layer.escape for layer in reversed(counted) if layer.tier is Tier.PROFILE), Verdict.DENY),
    )


def _switched(switches: dict[str, Setting | None]) -> Network:
    is_open, binding, unix, agent = (switches[key] is not None for key in _SWITCHES[:4])
    return Network(is_open, binding, unix, agent)


def _network(layers: list[Layer], switches: Network) -> Network:
    named = [setting for layer in layers for setting in layer.settings if setting.key.startswith("network.")]
    if all(setting.key in _SWITCHES for setting in named):
        return switches  # most runs: nothing more need be imported
    from .reach import make_network

    return make_network(((setting.key, setting.value, setting.origin) for setting in named), switches)


def settled(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules without the reads that came with allowWrite to a place whose reading somebody denied."""
    if not [rule for rule in rules if rule.implied]:
        return rules
    denied = {rule.path for rule in rules if rule.access is Access.READ and rule.verdict is Verdict.DENY}
    return tuple(rule for rule in rules if not (rule.implied and rule.path in denied))


def _as_trusted(layer: Layer, notes: list[str]) -> Layer:
    """A layer as far as it counts: a managed denial holds always, and an untrusted layer only narrows."""
    if layer.tier is Tier.MANAGED:
        return msgspec.structs.replace(layer, rules=tuple(_absolute(rule) for rule in layer.rules))
    if layer.trusted:
        return layer
    for rule in layer.rules:
        if rule.verdict is Verdict.ALLOW and not rule.implied:
            notes.append(_untrusted(rule.origin, f"the permission to {rule.access.value} {shown(rule.path)}"))
    for injection in layer.injections:
        notes.append(_untrusted(injection.origin, f"showing {shown(injection.source)} at {shown(injection.target)}"))
    dropped = [setting for setting in layer.settings if _widens(setting)]
    notes += [_untrusted(setting.origin, setting.key) for setting in dropped]
    return msgspec.structs.replace(
        layer,
        rules=tuple(rule for rule in layer.rules if rule.verdict is Verdict.DENY),
        injections=(),
        settings=tuple(setting for setting in layer.settings if setting not in dropped),
    )


def _absolute(rule: Rule) -> Rule:
    if rule.access is Access.READ and rule.verdict is Verdict.DENY:
        return msgspec.structs.replace(rule, always=True)
    return rule


def _untrusted(origin: Origin, what: str) -> str:
    return f"{origin}: {what} has no effect: the project is not trusted; read the file, then run `ringfence trust`"


def _widens(setting: Setting) -> bool:
    """Whether a setting of an untrusted layer asks for more; enforcement is weighed against the layers below."""
    from .keys import KEYS, Effect

    if setting.key in ("network.requireHostMatch", "network.endWithProxy"):
        return not setting.value
    return setting.key != "enforcement" and KEYS[setting.key].effect is Effect.WIDENS and bool(setting.value)


def _switch(key: str, layers: list[Layer], notes: list[str]) -> Setting | None:
    """The setting that turns a switch on, or None: off."""
    on: Setting | None = None
    pin: Origin | None = None
    for layer in layers:
        for setting in layer.settings:
            if setting.key != key:
                continue
            if not setting.value:
                on = None
                pin = setting.origin if layer.tier is Tier.MANAGED else pin
            elif pin is not None:
                notes.append(f"{setting.origin}: {key} has no effect: {pin} says no for everyone")
            elif key == "filesystem.disabled" and layer.tier not in _MAY_DISABLE:
                notes.append(f"{setting.origin}: {key} has no effect: only the user's own policy or a flag may say it")
            else:
                on = setting
    return on


def _rules(
    workspace: str, layers: list[Layer], switches: dict[str, Setting | None], guarded: tuple[str, ...]
) -> tuple[Rule, ...]:
    disabled = switches["filesystem.disabled"]
    rules: list[Rule] = []
    for layer in layers:
        rules += layer.rules
    if disabled is not None:
        rules = _without_walls(workspace, layers, disabled, guarded)
    if switches["filesystem.allowGitConfig"] is not None:
        lifted = f"{workspace}/.git/config"
        rules = [rule for rule in rules if rule.path != lifted or rule.origin != BUILT_IN]
    count = len(rules)
    if count > MAX_RULES and (count := len([rule for rule in rules if not rule.implied])) > MAX_RULES:
        raise PolicyError("policy", f"{count} rules about paths", f"join some: at most {MAX_RULES} are enforced")
    return settled(tuple(rules))


def _without_walls(workspace: str, layers: list[Layer], disabled: Setting, guarded: tuple[str, ...]) -> list[Rule]:
    """What is left when path rules are switched off: managed denials, later layers, and our own files. The workspace is
    named besides, for it may lie in a directory that stays private."""
    tier = next(layer.tier for layer in layers if disabled in layer.settings)
    kept = [
        rule
        for layer in layers
        for rule in layer.rules
        if layer.tier > tier or (layer.tier is Tier.MANAGED and rule.verdict is Verdict.DENY)
    ]
    opened = [Rule(access, Verdict.ALLOW, path, disabled.origin) for path in ("/", workspace) for access in Access]
    why = "ringfence's own files"
    ours = [Rule(Access.WRITE, Verdict.DENY, path, BUILT_IN, need=Need.WANTED, why=why) for path in guarded]
    return opened + ours + kept


def _environment(layers: list[Layer]) -> Environment:
    names: dict[str, None] = {}
    values: dict[str, str] = {}
    for layer in layers:
        for setting in layer.settings:
            if setting.key == "environment.allow" and isinstance(setting.value, tuple):
                names.update(dict.fromkeys(setting.value))
            elif setting.key == "environment.set" and isinstance(setting.value, dict):
                values.update(setting.value)
    return Environment(tuple(names), values)


def _limits(layers: list[Layer], notes: list[str]) -> tuple[Limit, ...]:
    settings = [(layer, setting) for layer in layers for setting in layer.settings if setting.key[:7] == "limits."]
    if not settings:
        return ()
    from .limits import Asked, read_amount, settle

    asked = []
    for layer, setting in settings:
        name = setting.key[7:]
        amount = read_amount(name, setting.value)
        asked.append(Asked(name, amount, setting.origin, layer.trusted, layer.tier is Tier.MANAGED))
    return settle(asked, notes)


def _enforcement(layers: list[Layer], notes: list[str]) -> Enforcement:
    """The latest enforcement that nobody with more say forbids."""
    wanted, floor, pin = Enforcement.REQUIRED, Enforcement.OFF, BUILT_IN
    for layer in layers:
        for setting in layer.settings:
            if setting.key != "enforcement":
                continue
            asked = Enforcement(setting.value)
            weaker = _STRICTNESS[asked] < _STRICTNESS[wanted]
            if _STRICTNESS[asked] < _STRICTNESS[floor]:
                notes.append(f"{setting.origin}: enforcement has no effect: {pin} says {floor.value} for everyone")
            elif weaker and not layer.trusted:
                notes.append(_untrusted(setting.origin, f"enforcement {asked.value}"))
            else:
                wanted = asked
                floor, pin = (asked, setting.origin) if layer.tier is Tier.MANAGED else (floor, pin)
    return wanted


def _asks(layers: list[Layer], network: Network) -> tuple[Ask, ...]:
    """The keys that nothing carries out yet, where it matters."""
    settings = [setting for layer in layers if layer.source for setting in layer.settings]
    if not settings:
        return ()
    from .keys import BY_NAME, KEYS, Effect, Support

    asks = []
    for setting in settings:
        row = KEYS[setting.key]
        is_open = network.open or (network.allows_hosts and setting.key not in BY_NAME)
        if row.support is Support.ASKED or (row.support is Support.MOOT and is_open):
            need = Need.REQUIRED if row.effect is Effect.NARROWS else Need.WANTED
            if setting.value not in (False, (), {}):
                asks.append(Ask(setting.key, setting.origin, row.why, need))
    return tuple(asks)
