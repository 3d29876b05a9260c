"""What somebody said on the command line, or in a call, as a layer."""

import enum

import msgspec

from ..model import Access, Enforcement, Injection, Origin, PolicyError, Rule, Verdict
from .layer import Layer, Setting, Tier
from .paths import Base, PathError, rule_paths
from .words import found


class Reach(enum.Enum):
    """What a flag says about the network; nothing is not the same as no."""

    AS_POLICY = "as-policy"
    OPEN = "open"
    CLOSED = "closed"


class Flags(msgspec.Struct, frozen=True):
    """The flags that change a policy. Relative paths start from `cwd`, or from the workspace when it is empty."""

    allow_read: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    allow_env: tuple[str, ...] = ()
    network: Reach = Reach.AS_POLICY
    enforcement: Enforcement | None = None  # None: as the policy says
    policy_files: tuple[str, ...] = ()
    cwd: str = ""
    inject: tuple[tuple[str, str], ...] = ()  # (source, target): shown read-only at another place


def flags_layer(flags: Flags, base: Base) -> Layer:
    """The flags as a layer; every rule's origin is the flag it came by."""
    rules: list[Rule] = []
    for flag, paths, access, verdict in (
        ("--allow-read", flags.allow_read, Access.READ, Verdict.ALLOW),
        ("--allow-write", flags.allow_write, Access.WRITE, Verdict.ALLOW),
        ("--deny-read", flags.deny_read, Access.READ, Verdict.DENY),
        ("--deny-write", flags.deny_write, Access.WRITE, Verdict.DENY),
    ):
        for text in paths:
            try:
                rules += path_rules(text, base, access, verdict, Origin(flag))
            except PathError as error:
                raise PolicyError(flag, str(error), error.hint) from None
    shown = tuple(
        Injection(_one_path(source, base), _one_path(target, base), Origin("--inject"))
        for source, target in flags.inject
    )
    return Layer(Tier.FLAGS, rules=tuple(rules), injections=shown, settings=_settings(flags))


def _one_path(text: str, base: Base) -> str:
    try:
        return rule_paths(text, base, True)[0][0]
    except PathError as error:
        raise PolicyError("--inject", str(error), error.hint) from None


def path_rules(
    text: str,
    base: Base,
    access: Access,
    verdict: Verdict,
    origin: Origin,
    *,
    always: bool = False,
    literal: bool = False,
) -> list[Rule]:
    """The rules one entry makes. What may be written may be read, unless a read denial names the same place."""
    rules = []
    for path, glob in rule_paths(text, base, literal):
        rules.append(Rule(access, verdict, path, origin, always=always, glob=glob))
        if access is Access.WRITE and verdict is Verdict.ALLOW:
            rules.append(Rule(Access.READ, verdict, path, origin, glob=glob, implied=True))
    return rules


def _settings(flags: Flags) -> tuple[Setting, ...]:
    settings = []
    if flags.network is not Reach.AS_POLICY:
        settings.append(Setting("network.allowNetwork", flags.network is Reach.OPEN, Origin("--allow-network")))
    if flags.enforcement is not None:
        settings.append(Setting("enforcement", flags.enforcement.value, Origin("--enforcement")))
    for name in flags.allow_env:
        stem = name.removesuffix("*")
        if not stem.isidentifier() or not stem.isascii():
            raise PolicyError("--allow-env", f"it is {found(name)}", "it takes a name like LANG or a pattern like LC_*")
    if flags.allow_env:
        settings.append(Setting("environment.allow", flags.allow_env, Origin("--allow-env")))
    return tuple(settings)
