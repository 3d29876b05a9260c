"""Settings in JSON with comments, edited in place: what we do not touch keeps its bytes.

A small scanner gives the span of every value; an edit cuts and pastes text. Nothing is written out anew.
"""

import msgspec

from .patterns import lazy

_SPACE = lazy(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", 16)  # re.DOTALL
_SCALAR = lazy(r"\"(?:[^\"\\\n]|\\.)*\"|-?[0-9][0-9.eE+-]*|true|false|null")


class NotSettings(ValueError):
    """A text that is not JSON, not even with comments."""


class Value(msgspec.Struct):
    """One value and where it stands; members of an object or an array with the place where each begins."""

    start: int
    end: int
    kind: str  # the first character
    members: list[tuple[str, int, "Value"]] = []

    def get(self, name: str) -> "Value | None":
        return next((value for key, _, value in self.members if key == name), None)


def scan(text: str) -> Value:
    """The value that a whole text is; an empty text is an empty object that is not there yet."""
    value, at = _value(text, _skip(text, 0))
    if _skip(text, at) != len(text):
        raise NotSettings(f"something follows at character {at}")
    return value


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int = 0) -> tuple[Value, int]:
    char = text[at : at + 1]
    if depth > 50 or not char:
        raise NotSettings(f"a value is missing at character {at}")
    if char not in "{[":
        found = _SCALAR.match(text, at)
        if found is None:
            raise NotSettings(f"{char!r} at character {at} begins no value")
        try:  # as is_ours and others do, who want no other error
            msgspec.json.decode(found[0])
        except msgspec.DecodeError as error:
            raise NotSettings(f"the value at character {at}: {error}") from None
        return Value(at, found.end(), char), found.end()
    value = Value(at, at, char)
    closing = "}" if char == "{" else "]"
    names: set[str] = set()
    at = _skip(text, at + 1)
    while text[at : at + 1] != closing:
        begins, key = at, ""
        if char == "{":
            name, at = _value(text, at, depth + 1)
            if name.kind != '"':
                raise NotSettings(f"a name is missing at character {at}")
            key = msgspec.json.decode(text[name.start : name.end], type=str)
            if key in names:  # an agent goes by the last, or takes none
                raise NotSettings(f"{key!r} is there twice, the second at character {name.start}")
            names.add(key)
            at = _skip(text, at)
            if text[at : at + 1] != ":":
                raise NotSettings(f"a colon is missing at character {at}")
            at = _skip(text, at + 1)
        member, at = _value(text, at, depth + 1)
        value.members.append((key, begins, member))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise NotSettings(f"a comma is missing at character {at}")
    value.end = at + 1
    return value, at + 1


def added(text: str, path: tuple[str, ...], element: object) -> str:
    """The text with an element put first into the array at a path, which is made where it is missing."""
    if not text.strip():
        return msgspec.json.format(msgspec.json.encode(_nested(path, element)), indent=2).decode() + "\n"
    place = scan(text)
    for index, name in enumerate(path):
        if place.kind != "{":
            raise NotSettings(f"{'.'.join(path[:index]) or 'the whole'} is not an object")
        found = place.get(name)
        if found is None:
            made = f"{_json(name)}: {_json(_nested(path[index + 1 :], element))}"
            return _inserted(text, place, made)
        place = found
    if place.kind != "[":
        raise NotSettings(f"{'.'.join(path)} is not an array")
    return _inserted(text, place, _json(element))


def _nested(path: tuple[str, ...], element: object) -> object:
    made: object = [element]
    for name in reversed(path):
        made = {name: made}
    return made


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _inserted(text: str, place: Value, made: str) -> str:
    """The text with something put first into an object or an array."""
    at = place.start + 1
    after = text[at : place.end - 1]
    if not place.members:
        return (
            f"{text[:at]}{made}{text[at:]}" if not after.strip() else f"{text[:at]}{made}{after}{text[place.end - 1 :]}"
        )
    lead = text[at : place.members[0][1]]
    indent = lead[lead.rfind("\n") :] if "\n" in lead and not lead[lead.rfind("\n") :].strip() else " "
    return f"{text[:at]}{indent}{made},{text[at:]}"


def elements(text: str, path: tuple[str, ...]) -> list[tuple[Value, str]]:
    """The elements of the array at a path, each with its text; none where there is no such array."""
    if not text.strip():
        return []
    place: Value | None = scan(text)
    for name in path:
        place = place.get(name) if place is not None and place.kind == "{" else None
    if place is None or place.kind != "[":
        return []
    return [(member, text[member.start : member.end]) for _, _, member in place.members]


def cut(text: str, value: Value) -> str:
    """The text without one element of an array, and without the comma that belonged to it."""
    after = _skip(text, value.end)
    if text[after : after + 1] == ",":
        begin = (
            len(text[: value.start].rstrip(" \t\r\n"))
            if text[: value.start].rstrip().endswith(("[", ","))
            else value.start
        )
        return text[:begin] + text[after + 1 :]
    before = text[: value.start].rstrip()
    begin = len(before) - 1 if before.endswith(",") else value.start
    return text[:begin] + text[value.end :]
