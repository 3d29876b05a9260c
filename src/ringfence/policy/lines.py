"""Where in a policy file each value stands.

msgspec and tomllib give values without places, and an origin without its line is of no use to anyone. So the text is
walked once more, only for its structure: linear, and bounded in depth before any parser sees the file, because
tomllib takes quadratic memory for a key of many dots.
"""

import re
from bisect import bisect_left

from ..model import Origin, PolicyError
from .words import named

MAX_DEPTH = 16
MAX_KEY_PARTS = 16
MAX_WORD = 1000

Path = tuple[str | int, ...]

_JSON = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_LISTED = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*,', re.DOTALL)
_TOML = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""+'
    r"|'''[^']*(?:'(?!'')[^']*)*'''+"
    r"|\"\"\"|'''"  # a string that is never closed
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[{}\[\],=\n]"
    r"|[^\s\"'{}\[\],=\#]+"
    r"|[\"']",  # never closed either
    re.DOTALL,
)
_UNCLOSED = frozenset(('"', "'", '"""', "'''"))


class Places:
    """The offset at which each value of a document begins, by its path of keys and indices."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.offsets: dict[Path, int] = {(): 0}
        self._newlines: list[int] | None = None
        self._origins: dict[int, Origin] = {}

    @property
    def newlines(self) -> list[int]:
        if self._newlines is None:
            self._newlines = [match.start() for match in re.finditer("\n", self.text)]
        return self._newlines

    def line(self, offset: int) -> int:
        """The number of the line that holds an offset."""
        return bisect_left(self.newlines, offset) + 1

    def origin(self, path: Path) -> Origin:
        """The place of a value, or of the nearest thing around it that has one."""
        while path not in self.offsets:
            path = path[:-1]
        return self._at(self.line(self.offsets[path]))

    def origins(self, path: Path, count: int) -> list[Origin]:
        """The places of so many entries of a list, all at once, for there may be thousands."""
        offsets = [self.offsets.get((*path, index)) for index in range(count)]
        if None in offsets:
            return [self.origin((*path, index)) for index in range(count)]
        newlines, known = self.newlines, self._origins
        lines = [bisect_left(newlines, offset) + 1 for offset in offsets if offset is not None]
        return [known.get(line) or self._at(line) for line in lines]

    def _at(self, line: int) -> Origin:
        return self._origins.setdefault(line, Origin(self.name, line))

    def error(self, offset: int, what: str, hint: str = "") -> PolicyError:
        return PolicyError(Origin(self.name, self.line(offset)), what, hint)


class _Frame:
    """A list or object that is open while walking."""

    __slots__ = ("count", "key", "path", "waits")

    def __init__(self, path: Path, is_list: bool) -> None:
        self.path = path
        self.count = 0 if is_list else -1
        self.key: Path = path
        self.waits = not is_list  # for a key

    @property
    def here(self) -> Path:
        return self.key if self.count < 0 else (*self.path, self.count)


class _Walk:
    """The part of walking that JSON and the values of TOML have in common."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.frames: list[_Frame] = []

    def open(self, offset: int, is_list: bool) -> None:
        path = self.frames[-1].here if self.frames else ()
        if len(self.frames) >= MAX_DEPTH:
            raise self.places.error(offset, f"nested deeper than {MAX_DEPTH} levels")
        self.places.offsets.setdefault(path, offset)
        self.frames.append(_Frame(path, is_list))

    def close(self) -> None:
        if len(self.frames) > 1:
            self.frames.pop()

    def comma(self) -> None:
        frame = self.frames[-1]
        if frame.count < 0:
            frame.waits = True
        else:
            frame.count += 1

    def key(self, path: Path, offset: int) -> None:
        frame = self.frames[-1]
        frame.key = path
        self.places.offsets.setdefault(path, offset)

    def strings(self, text: str, end: int) -> int:
        """The strings of a list that a comma follows, as fast as can be, for there may be thousands; where they end."""
        path, offsets, count = self.frames[-1].path, self.places.offsets, 0
        while match := _LISTED.match(text, end):
            offsets[*path, count] = match.start(1)
            count += 1
            end = match.end()
        self.frames[-1].count = count
        return end

    def value(self, offset: int) -> None:
        self.places.offsets.setdefault(self.frames[-1].here, offset)


def json_places(name: str, text: str) -> Places:
    """The places of a JSON document that has been decoded already; a key that comes twice is an error."""
    import msgspec

    places = Places(name, text)
    walk = _Walk(places)
    end = 0
    while match := _JSON.search(text, end):
        token, offset, end = match.group(), match.start(), match.end()
        if token in ("{", "["):
            walk.open(offset, is_list=token == "[")
            if token == "[":
                end = walk.strings(text, end)
        elif not walk.frames:
            break
        elif token in ("}", "]"):
            walk.close()
        elif token == ",":
            walk.comma()
        elif token == ":":
            walk.frames[-1].waits = False
        elif walk.frames[-1].waits:
            key = msgspec.json.decode(token, type=str) if "\\" in token else token[1:-1]
            path = (*walk.frames[-1].path, key)
            if path in places.offsets:
                first = places.line(places.offsets[path])
                raise places.error(offset, f"the key {named(key)} comes twice", f"it was set first in line {first}")
            walk.key(path, offset)
        else:
            walk.value(offset)
    return places


def toml_places(name: str, text: str) -> Places:
    """The places of a TOML document, before it is decoded: best effort, but bounded on any text."""
    places = Places(name, text)
    _TomlWalk(places).run()
    return places


class _TomlWalk(_Walk):
    """A walk over TOML's statements: headers in brackets, and dotted keys with values."""

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self.frames = [_Frame((), is_list=False)]
        self.parts: list[str] = []  # of the key being read
        self.dots = 0  # met since the last thing that ends a key
        self.header = 0  # how many brackets opened the header being read
        self.tables: dict[Path, int] = {}  # how often each [[header]] has come

    def run(self) -> None:
        for match in _TOML.finditer(self.places.text):
            token, offset = match.group(), match.start()
            if token in _UNCLOSED:
                raise self.places.error(offset, "a string that is never closed")
            if token[0] == "#":
                continue
            self.check(token, offset)
            self.token(token, offset)

    def check(self, token: str, offset: int) -> None:
        """Refuse endless numbers, and what tomllib could take for an endless key, wherever this walk believes to be."""
        if token[0] in "\n={}[],":
            self.dots = 0
        elif token[0] not in "\"'":
            self.dots += token.count(".")
            if len(token) > MAX_WORD:
                raise self.places.error(offset, f"a word of {len(token)} characters")
        if self.dots >= MAX_KEY_PARTS:
            raise self.places.error(offset, f"a key of more than {MAX_KEY_PARTS} parts")

    def token(self, token: str, offset: int) -> None:
        frame = self.frames[-1]
        top = len(self.frames) == 1
        if token == "\n":
            if top:
                frame.waits, self.parts, self.header = True, [], 0
        elif top and frame.waits and token == "[":
            self.header += 1
        elif self.header:
            self.in_header(token, offset)
        elif frame.waits and token not in ("{", "}", "[", "]", ","):
            self.in_key(token, offset)
        elif token in ("{", "["):
            self.open(offset, is_list=token == "[")
        elif token in ("}", "]"):
            self.close()
        elif token == ",":
            self.comma()
        else:
            self.value(offset)

    def in_header(self, token: str, offset: int) -> None:
        if token != "]":
            self.parts += _split(token)
            return
        path: Path = ()
        for part in self.parts:
            path = (*path, part)
            if path in self.tables:
                path = (*path, self.tables[path])
        if self.header > 1 and self.parts:
            base = path[:-1] if isinstance(path[-1], int) else path
            self.tables[base] = self.tables.get(base, -1) + 1
            path = (*base, self.tables[base])
        self.frames[0] = _Frame(path, is_list=False)
        self.key(path, offset)
        self.parts, self.header, self.frames[0].waits = [], 0, False

    def in_key(self, token: str, offset: int) -> None:
        if token != "=":
            self.parts += _split(token)
            return
        self.key((*self.frames[-1].path, *self.parts), offset)
        self.parts, self.frames[-1].waits = [], False


def _split(token: str) -> list[str]:
    """The parts of a dotted key that one token holds."""
    return [token[1:-1]] if token[0] in "\"'" else [part for part in token.split(".") if part]
