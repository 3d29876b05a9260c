"""Profiles: boundaries with a name. A profile is a policy file with two tables more.

    [profile]   about, inherits, mode (safe, guided, autonomous), escape (ask, deny, allow), neverAllow
    [examples]  allow, ask, deny: lines such as `read ~/.ssh/id_rsa`, checked whenever it is loaded

A boundary becomes rules, and the one judge answers: what a mode opens or closes is opened or closed by a rule, and what
is said of a way out that no rule speaks of is the policy's `escape`. Pure: reading files is the caller's.
"""

import enum
import re
from collections.abc import Callable
from typing import Literal

import msgspec

from ..model import Access, Need, Origin, Policy, PolicyError, Rule, Verdict
from .connect import decide_connect
from .decide import decide
from .defaults import built_in, is_inside
from .hosts import port_number, split_port
from .layer import Layer, Tier, merge
from .parse import parse
from .paths import Base, PathError, rule_paths
from .tables import TOOLS
from .words import nearest, shown

ALIASES = {"yolo": "autonomous"}
DEEPEST = 8
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TABLES = frozenset(("profile", "examples"))
# What `autonomous` opens besides the home: other places where people keep work.
_PLACES = ("/srv", "/mnt", "/media")
# Where examples are judged: the same on every machine.
EXAMPLE = Base("/work/project", "/home/somebody")


class Mode(enum.Enum):
    """How much is quiet."""

    SAFE = "safe"  # nothing outside the workspace and the system
    GUIDED = "guided"  # reading toolchains and caches
    AUTONOMOUS = "autonomous"  # everything but secrets, start-up files and our own


class _Boundary(msgspec.Struct, forbid_unknown_fields=True):
    about: str = ""
    inherits: str = ""
    mode: Literal["safe", "guided", "autonomous", ""] = ""
    escape: Literal["ask", "deny", "allow", ""] = ""
    neverAllow: list[str] = []  # noqa: N815 - as it is written


class _Examples(msgspec.Struct, forbid_unknown_fields=True):
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []


class _Document(msgspec.Struct):
    profile: _Boundary
    examples: _Examples = msgspec.field(default_factory=_Examples)


class Profile(msgspec.Struct, frozen=True):
    """One profile as it is written; what it does not say is its parent's."""

    name: str
    about: str
    inherits: str
    mode: str
    escape: str
    never: tuple[str, ...]
    layer: Layer
    examples: tuple[tuple[Verdict, str], ...]


_HINT = (
    'a [profile] with mode = "safe", "guided" or "autonomous" and escape = "ask", "deny" or "allow": docs/airlock.md'
)


def check_name(name: str) -> None:
    """Refuse what could name a file elsewhere."""
    if not _NAME.fullmatch(name):
        raise PolicyError("profile", f"{shown(name)} is not a name of one", "a to z, 0 to 9, - and _")


def unknown(name: str, names: list[str]) -> PolicyError:
    return PolicyError("profile", f"there is no profile {shown(name)}", nearest(name, tuple(names)))


def parse_profile(content: bytes, path: str, name: str, base: Base) -> Profile:
    """One profile from the bytes of its file."""
    import tomllib

    layer = parse(content, path, base, Tier.PROFILE, besides=_TABLES)
    try:
        document = msgspec.convert(tomllib.loads(content.decode()), _Document)
    except msgspec.ValidationError as error:
        raise PolicyError(path, str(error), _HINT) from None
    said, examples = document.profile, document.examples
    try:
        never = tuple(path for text in said.neverAllow for path, _ in rule_paths(text, base, literal=True))
    except PathError as error:
        raise PolicyError(path, f"neverAllow: {error}", error.hint) from None
    lines = [
        *((Verdict.ALLOW, line) for line in examples.allow),
        *((Verdict.ASK, line) for line in examples.ask),
        *((Verdict.DENY, line) for line in examples.deny),
    ]
    return Profile(name, said.about, said.inherits, said.mode, said.escape, never, layer, tuple(lines))


Reader = Callable[[str], tuple[bytes, str]]


def load_chain(name: str, read: Reader, base: Base) -> list[Profile]:
    """A profile and those it inherits from, the farthest first. Its examples hold, or an error says which does not."""
    texts: list[tuple[bytes, str, str]] = []
    wanted = name
    while wanted:
        wanted = ALIASES.get(wanted, wanted)
        if len(texts) >= DEEPEST:
            raise PolicyError("profile", f"{shown(name)} inherits from itself, or from too many")
        content, path = read(wanted)
        texts.append((content, path, wanted))
        wanted = parse_profile(content, path, wanted, EXAMPLE).inherits
    _check_examples([parse_profile(*text, EXAMPLE) for text in reversed(texts)])
    return [parse_profile(*text, base) for text in reversed(texts)]


def _last(chain: list[Profile], name: str, default: str) -> str:
    return next((value for one in reversed(chain) if (value := getattr(one, name))), default)


def never_of(chain: list[Profile]) -> tuple[str, ...]:
    """What is never allowed, by any of them: nobody takes a denial back."""
    return tuple(dict.fromkeys(path for one in chain for path in one.never))


def layers_of(
    chain: list[Profile], workspace: str, homes: tuple[str, ...], own: tuple[str, ...] = ()
) -> tuple[Layer, ...]:
    """What a profile says as layers: its files' own, and the boundary's rules. `own` are our files."""
    escape = _last(chain, "escape", "ask")
    mode = Mode(_last(chain, "mode", "guided"))
    origin = Origin(f"profile {chain[-1].name}")
    rules = [
        *_never_rules(never_of(chain), workspace, origin),
        *(_safe_rules(homes, origin) if mode is Mode.SAFE else ()),
        *(_open_rules(homes, own, origin) if mode is Mode.AUTONOMOUS or escape == "allow" else ()),
    ]
    verdict = {"ask": Verdict.ASK, "deny": Verdict.DENY, "allow": Verdict.DENY}[escape]
    boundary = Layer(Tier.PROFILE, rules=tuple(rules), escape=verdict)
    return (*(_as_wanted(one.layer) for one in chain), boundary)


def _as_wanted(layer: Layer) -> Layer:
    """A profile names what an agent may have: what is not there is no fault."""
    rules = (
        msgspec.structs.replace(rule, need=Need.WANTED) if rule.verdict is Verdict.ALLOW else rule
        for rule in layer.rules
    )
    return msgspec.structs.replace(layer, rules=tuple(rules))


def _never_rules(never: tuple[str, ...], workspace: str, origin: Origin) -> list[Rule]:
    """Closed whatever else opens it; a workspace inside stays open, for its own rule is the more specific one."""
    rules = []
    for path in never:
        inside = is_inside(workspace, (path,))
        rules.append(Rule(Access.READ, Verdict.DENY, path, origin, always=not inside))
        if not inside:
            rules.append(Rule(Access.WRITE, Verdict.DENY, path, origin))
    return rules


def _safe_rules(homes: tuple[str, ...], origin: Origin) -> list[Rule]:
    """Toolchains and caches are asked for too."""
    return [
        Rule(Access.READ, Verdict.DENY, f"{home.rstrip('/')}/{name}", origin, why=why, asks=True)
        for home in homes[:1]
        for name, why in TOOLS
    ]


def _open_rules(homes: tuple[str, ...], own: tuple[str, ...], origin: Origin) -> list[Rule]:
    """The home and where else people keep work; secrets in it stay closed by name, and so do our own files."""
    opened = (*(home for home in homes[:1] if home != "/"), *_PLACES)
    rules = [Rule(access, Verdict.ALLOW, path, origin, need=Need.WANTED) for path in opened for access in Access]
    return rules + [Rule(Access.WRITE, Verdict.DENY, path, origin, why="ringfence's own") for path in own]


# ---- Examples ----


def _check_examples(chain: list[Profile]) -> None:
    """Judge the examples of the last profile of a chain."""
    homes = (EXAMPLE.home,)
    layers = (built_in(EXAMPLE.directory, homes), *layers_of(chain, EXAMPLE.directory, homes))
    judged = merge(EXAMPLE.directory, layers)
    for wanted, line in chain[-1].examples:
        said = judge_line(judged, line)
        if said is not wanted:
            place = chain[-1].layer.source
            raise PolicyError(place, f"the example `{shown(line)}` is to be {wanted.word}, and is {said.word}")


def judge_line(judged: Policy, line: str) -> Verdict:
    """What the judge says of `read PATH`, `write PATH` or `connect HOST:PORT`."""
    verb, _, target = line.partition(" ")
    if verb == "connect":
        host, port = split_port(target)
        return decide_connect(judged, host, port_number(port) or 443).verdict
    if verb not in ("read", "write"):
        raise PolicyError("examples", f"{shown(line)} begins with neither read, write nor connect")
    path = target.replace("{workspace}", EXAMPLE.directory, 1)
    path = f"{EXAMPLE.home}{path[1:]}" if path.startswith("~") else path
    return decide(judged, Access(verb), path).verdict
