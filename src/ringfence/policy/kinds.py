"""What a key of a policy file may hold: each kind checks a value, and describes itself as JSON Schema.

Pure. A kind returns the value it was given (lists as tuples), or raises a PolicyError that names the place, what was
found there and what belongs there.
"""

from ..model import Origin, PolicyError
from .lines import Path, Places
from .words import found, named, nearest

Schema = dict[str, object]


class Spot:
    """One value's place in a file."""

    __slots__ = ("path", "places")

    def __init__(self, places: Places, path: Path = ()) -> None:
        self.places = places
        self.path = path

    def __getitem__(self, part: str | int) -> "Spot":
        return Spot(self.places, (*self.path, part))

    @property
    def name(self) -> str:
        """The key as people write it: `network.allowedDomains[2]`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.removeprefix(".") or "the policy"

    @property
    def origin(self) -> Origin:
        return self.places.origin(self.path)

    def error(self, what: str, hint: str = "") -> PolicyError:
        return PolicyError(self.origin, what, hint)

    def wrong(self, value: object, wanted: str) -> PolicyError:
        return self.error(f"{self.name} is {found(value)}", f"it takes {wanted}")


class Kind:
    """The base of all kinds."""

    wants = "a value"

    def read(self, value: object, at: Spot) -> object:
        raise NotImplementedError

    def schema(self) -> Schema:
        raise NotImplementedError


class Bool(Kind):
    wants = "true or false"

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, bool):
            raise at.wrong(value, self.wants)
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Number(Kind):
    """A number within bounds; `whole` for counts."""

    def __init__(self, low: int, high: int | None = None, whole: bool = True) -> None:
        self.low, self.high, self.whole = low, high, whole
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        self.wants = f"a {'whole ' if whole else ''}number {bounds}" if whole else "a number above 0"

    def read(self, value: object, at: Spot) -> object:
        fits = isinstance(value, int) or (not self.whole and isinstance(value, float))
        if not fits or isinstance(value, bool) or not isinstance(value, int | float):
            raise at.wrong(value, self.wants)
        if not (value >= self.low if self.whole else 0 < value < float("inf")):
            raise at.wrong(value, self.wants)
        if self.high is not None and value > self.high:
            raise at.wrong(value, self.wants)
        return value

    def schema(self) -> Schema:
        bounds: Schema = {"minimum": self.low} if self.whole else {"exclusiveMinimum": 0}
        if self.high is not None:
            bounds["maximum"] = self.high
        return {"type": "integer" if self.whole else "number", **bounds}


class Text(Kind):
    """A string; `choices` when only some will do, `pattern` when it has a form."""

    def __init__(self, wants: str = "text", choices: tuple[str, ...] = (), pattern: str = "", longest: int = 0) -> None:
        self.wants = f"one of: {', '.join(choices)}" if choices else wants
        self.choices, self.pattern, self.longest = choices, pattern, longest

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, str) or (self.choices and value not in self.choices) or not self.fits(value):
            raise at.wrong(value, self.wants)
        if "\0" in value:
            raise at.error(f"{at.name} holds a NUL character")
        return value

    def fits(self, value: str) -> bool:
        import re

        if self.longest and len(value) > self.longest:
            return False
        return not self.pattern or re.search(self.pattern, value) is not None

    def schema(self) -> Schema:
        described: Schema = {"type": "string"}
        if self.choices:
            described["enum"] = list(self.choices)
        if self.pattern:
            described["pattern"] = self.pattern
        if self.longest:
            described["maxLength"] = self.longest
        return described


class Size(Kind):
    """Bytes, as a number or with a unit."""

    wants = "a number of bytes, or text like '512M'"
    form = r"^[1-9][0-9]{0,17}[KMGT]?$"

    def read(self, value: object, at: Spot) -> object:
        return (Text(self.wants, pattern=self.form) if isinstance(value, str) else Number(1)).read(value, at)

    def schema(self) -> Schema:
        return {"anyOf": [Number(1).schema(), {"type": "string", "pattern": self.form}]}


class Either(Kind):
    """One of two kinds, told apart by whether the value is a string."""

    def __init__(self, text: Kind, other: Kind) -> None:
        self.text, self.other = text, other
        self.wants = f"{text.wants}, or {other.wants}"

    def read(self, value: object, at: Spot) -> object:
        return (self.text if isinstance(value, str) else self.other).read(value, at)

    def schema(self) -> Schema:
        return {"anyOf": [self.text.schema(), self.other.schema()]}


class ListOf(Kind):
    def __init__(self, item: Kind, least: int = 0, most: int = 0) -> None:
        self.item, self.least, self.most = item, least, most
        self.wants = f"a list of {least} or more entries" if least > 1 or most else "a list"

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, list):
            raise at.wrong(value, self.wants)
        if len(value) < self.least or (self.most and len(value) > self.most):
            count = f"exactly {self.least}" if self.least == self.most else f"at least {self.least}"
            raise at.error(f"{at.name} has {len(value)} entries", f"it takes {count}")
        return tuple(self.item.read(entry, at[index]) for index, entry in enumerate(value))

    def schema(self) -> Schema:
        bounds: Schema = {"minItems": self.least} if self.least else {}
        if self.most:
            bounds["maxItems"] = self.most
        return {"type": "array", "items": self.item.schema(), **bounds}


class MapOf(Kind):
    """An object whose keys are the writer's own."""

    wants = "an object"

    def __init__(self, item: Kind, key: Text | None = None) -> None:
        self.item, self.key = item, key or Text()

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, dict):
            raise at.wrong(value, self.wants)
        for name in value:
            if not self.key.fits(name):
                raise at[name].error(f"{at.name} has the key {named(name)}", f"it takes {self.key.wants}")
        return {name: self.item.read(entry, at[name]) for name, entry in value.items()}

    def schema(self) -> Schema:
        names: Schema = {"propertyNames": {"pattern": self.key.pattern}} if self.key.pattern else {}
        return {"type": "object", "additionalProperties": self.item.schema(), **names}


class Object(Kind):
    """An object of known keys."""

    wants = "an object"

    def __init__(self, fields: dict[str, Kind], required: tuple[str, ...] = ()) -> None:
        self.fields, self.required = fields, required

    def read(self, value: object, at: Spot) -> object:
        if not isinstance(value, dict):
            raise at.wrong(value, self.wants)
        for name in value:
            if name not in self.fields:
                raise unknown(name, at, tuple(self.fields))
        for name in self.required:
            if name not in value:
                raise at.error(f"{at.name} has no {name}", f"add {name}: {self.fields[name].wants}")
        return {name: self.fields[name].read(entry, at[name]) for name, entry in value.items()}

    def schema(self) -> Schema:
        fields = {name: kind.schema() for name, kind in self.fields.items()}
        required: Schema = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "properties": fields, "additionalProperties": False, **required}


class Never(Kind):
    """A key that srt knows and a file cannot hold."""

    def __init__(self, why: str) -> None:
        self.why = why

    def read(self, value: object, at: Spot) -> object:
        raise at.error(f"{at.name} {self.why}", "remove it")

    def schema(self) -> Schema:
        return {"not": {}}


def unknown(name: str, at: Spot, known: tuple[str, ...]) -> PolicyError:
    """The error for a key that nobody knows."""
    where = f" in {at.name}" if at.path else ""
    return at[name].error(f"unknown key {named(name)}{where}", nearest(name, known))
