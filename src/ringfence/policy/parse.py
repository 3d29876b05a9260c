"""From the bytes of a policy file to a layer, or to a PolicyError that names the line.

Pure: reading the file is `load`, and deciding what of it counts is `layer`.
"""

import msgspec

from ..model import Access, Injection, Origin, PolicyError, Rule, Verdict
from .flags import path_rules, plain_rules
from .keys import GROUPS, KEYS, Support, known
from .kinds import Spot, unknown
from .layer import MAX_RULES, Layer, Setting, Tier
from .lines import MAX_DEPTH, Places, json_places, toml_places
from .paths import Base, PathError, are_plain, rule_paths
from .words import found, shown

_RULES: dict[str, tuple[Access, Verdict, bool]] = {
    "filesystem.denyRead": (Access.READ, Verdict.DENY, False),
    "filesystem.denyReadAlways": (Access.READ, Verdict.DENY, True),
    "filesystem.allowRead": (Access.READ, Verdict.ALLOW, False),
    "filesystem.allowWrite": (Access.WRITE, Verdict.ALLOW, False),
    "filesystem.denyWrite": (Access.WRITE, Verdict.DENY, False),
}
_EACH = frozenset(
    f"network.{name}" for name in ("allowedDomains", "deniedDomains", "allowTcp", "deniedResolvedAddresses")
)


def parse(
    content: bytes,
    name: str,
    base: Base,
    tier: Tier = Tier.EXPLICIT,
    trusted: bool = True,
    besides: frozenset[str] = frozenset(),
) -> Layer:
    """The layer that a file's content says; TOML when its name ends so, JSON otherwise. `besides` are tables in it that
    somebody else reads."""
    text = _decoded(content, name)
    data, places = (_toml if name.endswith(".toml") else _json)(text, name)
    if not isinstance(data, dict):
        raise PolicyError(places.origin(()), f"the policy is {found(data)}", "it takes an object")
    values = _values({key: value for key, value in data.items() if key not in besides}, Spot(places))
    return _Reader(base).layer(values, Layer(tier, name, trusted))


def _decoded(content: bytes, name: str) -> str:
    if content.startswith(b"\xef\xbb\xbf"):  # some editors put it there, and no reader takes it
        raise PolicyError(Origin(name, 1), "begins with a byte order mark", "save it as UTF-8 without one")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError(Origin(name, line), "the file is not valid UTF-8", "save it as UTF-8") from None


def _json(text: str, name: str) -> tuple[object, Places]:
    plain = Places(name, text)
    try:
        data: object = msgspec.json.decode(text)
    except RecursionError:
        raise plain.error(0, f"nested deeper than {MAX_DEPTH} levels") from None
    except (msgspec.MsgspecError, ValueError) as error:
        at = _offset(str(error), text)
        raise plain.error(at, f"not valid JSON: {_reason(str(error))}", _hint(name, text, at)) from None
    return data, json_places(name, text)


def _hint(name: str, text: str, at: int) -> str:
    """What makes most files no JSON that were meant to be some."""
    if not text.strip():
        return "an empty policy is {}"
    if not name.endswith(".json"):
        return "what does not end in .toml is read as JSON"
    if text[at : at + 1] in ("/", "#"):
        return "JSON has no comments; a .toml file may have them"
    return ""


def _offset(message: str, text: str) -> int:
    """The position in the text that msgspec means by its `(byte n)`, or the end: what is truncated ends there."""
    digits = message.rpartition("(byte ")[2].removesuffix(")")
    if not digits.isdigit():
        return len(text.rstrip())
    return len(text.encode()[: int(digits)].decode(errors="ignore"))


def _reason(message: str) -> str:
    return message.removeprefix("JSON is malformed: ").partition(" (byte")[0].lower()


def _toml(text: str, name: str) -> tuple[object, Places]:
    import tomllib

    places = toml_places(name, text)
    try:
        return tomllib.loads(text), places
    except RecursionError:
        raise places.error(0, f"nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, OverflowError) as error:
        reason, _, where = str(error).partition(" (at ")
        digits = where.removeprefix("line ").partition(",")[0]
        line = int(digits) if digits.isdigit() else text.rstrip().count("\n") + 1  # else: at the end of the document
        raise PolicyError(Origin(name, line), f"not valid TOML: {shown(reason)}") from None


def _values(data: dict[str, object], top: Spot) -> list[tuple[str, object, Spot]]:
    """Every key with its value, checked, in the file's order."""
    values = []
    for name, value in data.items():
        if name in GROUPS:
            if not isinstance(value, dict):
                raise top[name].wrong(value, "an object")
            for inner, entry in value.items():
                if f"{name}.{inner}" not in KEYS:
                    raise unknown(inner, top[name], known(name))
                values.append((f"{name}.{inner}", entry, top[name][inner]))
        elif "." in name or name not in KEYS:
            raise unknown(name, top, known(""))
        else:
            values.append((name, value, top[name]))
    return [(key, KEYS[key].kind.read(value, at), at) for key, value, at in values]


class _Reader:
    """Turns checked values into the parts of a layer."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.rules: list[Rule] = []
        self.injections: list[Injection] = []
        self.settings: list[Setting] = []

    def layer(self, values: list[tuple[str, object, Spot]], empty: Layer) -> Layer:
        for key, value, at in values:
            if key in _RULES:
                self.read_paths(value, at, *_RULES[key])
            elif key == "filesystem.inject":
                self.read_injections(value, at)
            elif key == "network.allowUnixSockets" and isinstance(value, tuple):
                self.read_each(key, tuple(self.exact(path, at[index]) for index, path in enumerate(value)), at)
            elif key in _EACH and isinstance(value, tuple):
                self.read_each(key, value, at)
            elif key == "credentials.files":
                self.read_credentials(key, value, at)
            elif KEYS[key].support is not Support.NOTED:
                self.settings.append(Setting(key, value, at.origin))
        return msgspec.structs.replace(
            empty, rules=tuple(self.rules), injections=tuple(self.injections), settings=tuple(self.settings)
        )

    def read_each(self, key: str, entries: tuple[object, ...], at: Spot) -> None:
        """A setting for each entry, so that each keeps its own line."""
        self.settings += [Setting(key, (entry,), at[index].origin) for index, entry in enumerate(entries)]
        if not entries:
            self.settings.append(Setting(key, (), at.origin))

    def read_paths(self, entries: object, at: Spot, access: Access, verdict: Verdict, always: bool) -> None:
        assert isinstance(entries, tuple)
        texts = tuple([text for text, _, _ in entries])
        if len(entries) <= MAX_RULES and are_plain(texts):
            is_text = entries[0][2] is None
            origins = [at.origin] * len(entries) if is_text else at.places.origins(at.path, len(entries))
            self.rules += plain_rules(texts, origins, access, verdict, always)
            return
        for text, literal, index in entries:
            self.add(text, at if index is None else at[index], access, verdict, always=always, literal=literal)

    def add(
        self, text: str, at: Spot, access: Access, verdict: Verdict, *, always: bool = False, literal: bool = False
    ) -> None:
        try:
            self.rules += path_rules(text, self.base, access, verdict, at.origin, always=always, literal=literal)
        except PathError as error:
            raise at.error(f"{at.name}: {error}", error.hint) from None
        if len(self.rules) > 2 * MAX_RULES:
            raise at.error(f"more than {MAX_RULES} rules about paths", "join some: a rule holds for all below its path")

    def read_injections(self, entries: object, at: Spot) -> None:
        assert isinstance(entries, tuple)
        for index, entry in enumerate(entries):
            source, target = (self.exact(entry[name], at[index][name]) for name in ("source", "target"))
            self.injections.append(Injection(source, target, at[index].origin))

    def exact(self, text: str, at: Spot) -> str:
        try:
            return rule_paths(text, self.base, literal=True)[0][0]
        except PathError as error:
            raise at.error(f"{at.name}: {error}", error.hint) from None

    def read_credentials(self, key: str, entries: object, at: Spot) -> None:
        """A file that is only to be denied is a read denial like any other; one to be masked is asked for."""
        assert isinstance(entries, tuple)
        for index, entry in enumerate(entries):
            if entry["mode"] == "deny":
                self.add(entry["path"], at[index]["path"], Access.READ, Verdict.DENY)
        masked = tuple(entry["path"] for entry in entries if entry["mode"] != "deny")
        if masked:
            self.settings.append(Setting(key, masked, at.origin))
