"""What somebody said on the command line, or in a call, as a layer."""

import enum
from collections.abc import Callable, Sequence
from itertools import repeat

import msgspec

from ..model import Access, Enforcement, Injection, Origin, Rule, UsageError, Verdict
from .layer import Layer, Setting, Tier
from .paths import Base, PathError, are_plain, rule_paths
from .words import found, named, shown


class Reach(enum.Enum):
    """What a flag says about the network; nothing is not the same as no."""

    AS_POLICY = "as-policy"
    OPEN = "open"
    CLOSED = "closed"


class Flags(msgspec.Struct, frozen=True, cache_hash=True):
    """The flags that change a policy. Relative paths start from `cwd`, or from the workspace when it is empty."""

    allow_read: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    allow_env: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    deny_host: tuple[str, ...] = ()
    allow_socket: tuple[str, ...] = ()
    forward: tuple[int, ...] = ()
    network: Reach = Reach.AS_POLICY
    enforcement: Enforcement | None = None  # None: as the policy says
    policy_files: tuple[str, ...] = ()
    inline: tuple[bytes, ...] = ()  # policies in JSON, each as a policy file that is nowhere on the disk
    cwd: str = ""
    inject: tuple[tuple[str, str], ...] = ()  # (source, target): shown read-only at another place
    limits: tuple[tuple[str, float | str], ...] = ()  # ("memory", "2G"): by the names of the policy's limits
    profile: str = ""  # a boundary with a name: one of ours, or of the user's own
    ask: bool = False  # what may be granted waits for a person

    def __post_init__(self) -> None:
        """One text instead of several would be read letter by letter, and its first is often the whole disk."""
        for name in _SEVERAL:
            given = getattr(self, name)
            if type(given) is not tuple or not all(type(one) is str for one in given):
                raise UsageError(f"Flags.{name}", f"is {given!r}", 'it takes a tuple of texts: ("…",)')
        for name, is_one, takes in _OTHERS:
            given = getattr(self, name)
            if not is_one(given):
                raise UsageError(f"Flags.{name}", f"is {given!r}", f"it takes {takes}")


_SEVERAL = (
    """allow_read allow_write deny_read deny_write allow_env allow_host deny_host allow_socket policy_files""".split()
)


def _are(kind: type) -> Callable[[object], bool]:
    return lambda given: type(given) is tuple and all(type(one) is kind for one in given)


def _are_pairs(given: object) -> bool:
    return type(given) is tuple and all(
        type(one) is tuple and len(one) == 2 and type(one[0]) is str and type(one[1]) in (str, int, float)
        for one in given
    )


def _is_text(given: object) -> bool:
    return type(given) is str


_OTHERS: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("forward", _are(int), "a tuple of ports: (8080,)"),
    ("network", lambda given: type(given) is Reach, "Reach.OPEN, Reach.CLOSED or Reach.AS_POLICY"),
    ("enforcement", lambda given: given is None or type(given) is Enforcement, "Enforcement.BEST_EFFORT and its kin"),
    ("inline", _are(bytes), 'a tuple of JSON in bytes: (b"{…}",)'),
    ("inject", _are_pairs, 'a tuple of pairs: (("source", "target"),)'),
    ("limits", _are_pairs, 'a tuple of pairs: (("memory", "2G"),)'),
    ("cwd", _is_text, 'text, and "" for none'),
    ("profile", _is_text, 'text, and "" for none'),
)


def flags_layer(flags: Flags, base: Base) -> Layer:
    """The flags as a layer; every rule's origin is the flag it came by."""
    rules: list[Rule] = []
    for flag, paths, access, verdict in (
        ("--allow-read", flags.allow_read, Access.READ, Verdict.ALLOW),
        ("--allow-write", flags.allow_write, Access.WRITE, Verdict.ALLOW),
        ("--deny-read", flags.deny_read, Access.READ, Verdict.DENY),
        ("--deny-write", flags.deny_write, Access.WRITE, Verdict.DENY),
    ):
        if are_plain(paths):
            rules += plain_rules(paths, [Origin(flag)] * len(paths), access, verdict)
            continue
        for text in paths:
            try:
                rules += path_rules(text, base, access, verdict, Origin(flag))
            except PathError as error:
                raise UsageError(flag, str(error), error.hint) from None
    shown = tuple(
        Injection(_one_path(source, base), _one_path(target, base), Origin("--inject"))
        for source, target in flags.inject
    )
    sockets = tuple(_one_path(path, base, "--allow-socket") for path in flags.allow_socket)
    return Layer(Tier.FLAGS, rules=tuple(rules), injections=shown, settings=_settings(flags, sockets))


def plain_rules(
    paths: Sequence[str], origins: Sequence[Origin], access: Access, verdict: Verdict, always: bool = False
) -> list[Rule]:
    """The rules of paths that stand for themselves."""
    rules = list(map(Rule, repeat(access), repeat(verdict), paths, origins, repeat(always)))
    if access is Access.WRITE and verdict is Verdict.ALLOW:
        rules += [Rule(Access.READ, verdict, rule.path, rule.origin, implied=True) for rule in rules]
    return rules


def _one_path(text: str, base: Base, flag: str = "--inject") -> str:
    try:
        return rule_paths(text, base, True)[0][0]
    except PathError as error:
        raise UsageError(flag, str(error), error.hint) from None


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


def _settings(flags: Flags, sockets: tuple[str, ...]) -> tuple[Setting, ...]:
    settings = []
    for flag, key, entries in (
        ("--allow-host", "network.allowedDomains", flags.allow_host),
        ("--deny-host", "network.deniedDomains", flags.deny_host),
        ("--allow-socket", "network.allowUnixSockets", sockets),
    ):
        if entries:
            settings.append(Setting(key, entries, Origin(flag)))
    _check_hosts("--allow-host", flags.allow_host, False)
    _check_hosts("--deny-host", flags.deny_host, True)
    if flags.forward:
        settings.append(Setting("network.forward", flags.forward, Origin("--forward")))
    if flags.network is not Reach.AS_POLICY:
        settings.append(Setting("network.allowNetwork", flags.network is Reach.OPEN, Origin("--allow-network")))
    if flags.enforcement is not None:
        settings.append(Setting("enforcement", flags.enforcement.value, Origin("--enforcement")))
    for name in flags.allow_env:
        stem = name.removesuffix("*")
        if not stem.isidentifier() or not stem.isascii():
            hint = "it takes a name like LANG or a pattern like LC_*"
            raise UsageError("--allow-env", f"{found(name)} is no variable's name", hint)
    if flags.allow_env:
        settings.append(Setting("environment.allow", flags.allow_env, Origin("--allow-env")))
    for name, value in flags.limits:
        settings.append(_limit(name, value))
    return tuple(settings)


def _check_hosts(flag: str, entries: tuple[str, ...], any_host: bool) -> None:
    if entries:
        from .names import HOST, entry_fault

        for entry in entries:
            fault = entry_fault(entry, any_host)
            if fault:
                raise UsageError(flag, f"{named(entry)}: {fault}", HOST)


def _limit(name: str, value: float | str) -> Setting:
    from ..model.policy import LIMITS
    from .limits import examples, read_amount

    flag = "--" + "".join(f"-{char.lower()}" if char.isupper() else char for char in name)
    if name not in LIMITS:
        raise UsageError("limits", f"there is no limit {shown(name)}", f"one of: {', '.join(LIMITS)}")
    try:
        return Setting(f"limits.{name}", read_amount(name, value), Origin(flag))
    except ValueError:
        raise UsageError(flag, f"does not understand {value!r}", examples(name)) from None
