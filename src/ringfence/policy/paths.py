"""From a path as someone wrote it to the absolute path or pattern a rule holds.

Pure: the home and the directory that relative paths start from are handed in. Links are not followed here; that is
`canonical_policy`, with a function from outside.
"""

import posixpath

import msgspec

from .glob import GlobError, escape, expand, is_pattern, literal_of
from .words import named

MAX_PATH = 4095  # PATH_MAX less its NUL: nothing longer can be opened
MAX_NAME = 255  # NAME_MAX: nothing longer can be told to the warden


class PathError(ValueError):
    """A path that cannot stand in a policy; the text says why, `hint` what to do."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class Base(msgspec.Struct, frozen=True):
    """What paths in one layer are relative to."""

    directory: str  # canonical, so that a leading `..` means what the kernel means by it
    home: str  # empty when none is known


def rule_paths(text: str, base: Base, literal: bool = False) -> tuple[tuple[str, bool], ...]:
    """The absolute paths that one entry stands for, each with whether it is a pattern."""
    _check(text)
    if literal or not is_pattern(text):
        return ((_absolute(text, base, plain=True), False),)
    try:
        return tuple(dict.fromkeys(_one(pattern, base) for pattern in expand(text)))
    except GlobError as error:
        hint = f'a name with such characters is written {{"path": {named(text)}, "literal": true}}'
        raise PathError(f"{named(text)} is not a pattern: {error}", hint.replace("'", '"')) from None


def are_plain(texts: tuple[str, ...]) -> bool:
    """Whether all of these are absolute paths that stand for themselves as they are written: then nobody need look at
    each. Asked of all at once, for there may be thousands."""
    # Of one path behind the other each begins with a slash, and what is wrong with the end of one shows there too.
    whole = "/x" + "".join(texts)
    if not texts or not min(texts)[:1] == max(texts)[:1] == "/" or len(max(texts, key=len)) > 1000:
        return False
    try:
        names = whole.encode().split(b"/")
    except UnicodeEncodeError:
        return False
    return (
        not (max(map(len, names)) > MAX_NAME or is_pattern(whole) or "\0" in whole)
        and posixpath.normpath(whole) == whole
    )


def _one(pattern: str, base: Base) -> tuple[str, bool]:
    """One pattern without braces; what can match only one path is that path."""
    whole = _absolute(pattern, base, plain=False)
    exact = literal_of(whole)
    if exact is not None:
        return exact, False
    names = whole.split("/")
    while names[-1] == "**":  # a rule holds for everything below its path anyway
        names.pop()
    if ".." in names:
        raise PathError(f"{named(pattern)} has '..' in a pattern", "write the path without '..'")
    return "/".join(names), True


def _check(text: str) -> None:
    if not text:
        raise PathError("an empty path", "name a path, or leave the entry out")
    if "\0" in text:
        raise PathError(f"{named(text)} holds a NUL character")
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise PathError(f"{named(text)} is not valid UTF-8") from None
    if length > MAX_PATH:
        raise PathError(f"a path of {length} bytes", f"no path can be longer than {MAX_PATH}")


def _absolute(text: str, base: Base, plain: bool) -> str:
    """A path or pattern, made absolute, without empty and `.` names."""
    start, rest = _start(text, base)
    names = [name for name in rest.split("/") if name not in ("", ".")]
    longest = max((len(name.encode()) for name in names), default=0) if plain else 0
    if longest > MAX_NAME:
        raise PathError(f"a name of {longest} bytes", f"no name can be longer than {MAX_NAME}")
    above = 0
    while start == base.directory and above < len(names) and names[above] == "..":
        above += 1
    if ".." in names[above:]:
        raise PathError(f"{named(text)} has '..' behind a name", "what '..' means there depends on links: write it out")
    before = [name for name in start.split("/") if name]
    before = before[: max(len(before) - above, 0)]
    return "/" + "/".join((before if plain else [escape(name) for name in before]) + names[above:])


def _start(text: str, base: Base) -> tuple[str, str]:
    """The directory a path starts from, and the rest of it."""
    if text.startswith("/"):
        return "/", text
    if text == "~" or text.startswith("~/"):
        if not base.home:
            raise PathError(f"{named(text)} needs a home directory, and none is known", "set HOME, or write it out")
        return base.home, text[2:]
    if text.startswith("~"):
        raise PathError(f"{named(text)} names another user's home", "write it out, or ./~name for a file of that name")
    return base.directory, text
