"""What a failed command says of its failure: which path, host or variable, and which error.

Pure. Programs say it in many ways; here are the shapes that most of them have: a sentence of strerror(3) or the name
of an error, with a path or host beside it. Nothing is decided by it: what is found is judged afterwards, and what is
not understood is left out.
"""

import errno
import re

import msgspec

MOST_TEXT = 65536  # the end of what was said
MOST_CLUES = 32
LONGEST = 8192  # characters of one line


class Clue(msgspec.Struct, frozen=True):
    """Something that failed: `read`, `write`, `make`, `remove` (or rename), `use` (any of them), `run`, `connect`,
    `bind`, `socket` (of a kind that there is not), `trace`, `sandbox` (one of its own) or `variable`."""

    access: str
    target: str  # a path as it was said, host:port, a port, a name
    error: int = 0  # errno; 0 where nobody said it


_ERRORS = {
    "permission denied": errno.EACCES,
    "operation not permitted": errno.EPERM,
    "read-only file system": errno.EROFS,
    "no such file or directory": errno.ENOENT,
    "device or resource busy": errno.EBUSY,  # what is covered by itself is not replaced
    "connection refused": errno.ECONNREFUSED,
    "couldn't connect to server": errno.ECONNREFUSED,
    "network is unreachable": errno.ENETUNREACH,
    "no route to host": errno.EHOSTUNREACH,
    "address family not supported": errno.EAFNOSUPPORT,
    "protocol not supported": errno.EPROTONOSUPPORT,
    "could not resolve host": errno.EADDRNOTAVAIL,
    "name or service not known": errno.EADDRNOTAVAIL,
    "temporary failure in name resolution": errno.EADDRNOTAVAIL,
    "no address associated with hostname": errno.EADDRNOTAVAIL,
    "getaddrinfo": errno.EADDRNOTAVAIL,
    "nodename nor servname": errno.EADDRNOTAVAIL,
    "unknown host": errno.EADDRNOTAVAIL,
    "unknownhostexception": errno.EADDRNOTAVAIL,
    "no such host": errno.EADDRNOTAVAIL,
    "failed to establish a new connection": errno.ECONNREFUSED,
}
_NAMES = {
    name: getattr(errno, name)
    for name in ("EACCES", "EPERM", "EROFS", "ENOENT", "EBUSY", "ECONNREFUSED", "ENETUNREACH", "EPROTONOSUPPORT")
}
_ERRNO = re.compile(r"\b(?:\[Errno (\d{1,3})\]|os error (\d{1,3})\b|(" + "|".join(_NAMES) + r")\b)")
_CANNOT = r"(?i)\b(?:cannot|can't|could not|couldn't|unable to|failed to) "
_MAKES = re.compile(_CANNOT + r"(?:create|touch|make|mkdir|lock|link)|\bmkdir\b|\bsaving key\b")
_REMOVES = re.compile(
    _CANNOT + r"(?:remove|rename|move|unlink|delete)|\bunlink\b|\brename\b|\brmdir\b|\brm:|\bmv:|' -> '"
)
_WRITES = re.compile(
    _CANNOT + r"(?:write|save|append|truncate|overwrite)|\btee:|\bfor writing\b|setting permissions|"
    r"changing (?:permissions|ownership)"
)
_READS = re.compile(
    r"(?i)^(?:\S*/)?(?:cat|head|tail|less|more|wc|sort|diff|cmp|stat|file|source|grep|xxd|od|ls|find|readlink|du):|"
    r"\bcannot (?:open|access|stat|read|load)|\bfor reading\b|\bload key\b|\bscandir\b|\breaddir\b"
)
_QUOTED = re.compile(
    r"'([^'\n]{1,4096})'|\"([^\"\n]{1,4096})\"|`([^`'\n]{1,4096})['`]|\u2018([^\u2018\u2019\n]{1,4096})\u2019"
)
# As GNU's tools quote what is no plain text: 'a'$'\n''b', 'it'\''s'.
_ESCAPED = re.compile(r"(?:'[^'\n]{0,4096}'|\$'(?:[^'\\\n]|\\.){0,4096}'|\\'){2,512}")
_PIECE = re.compile(r"\$'((?:[^'\\]|\\.)*)'|'([^']*)'|\\(')")
_OCTAL = re.compile(rb"\\([0-7]{1,3}|.)")
_PLAIN = re.compile(
    r"(?:unix://|(?<![\w.~/-]))((?:~|\.{1,2})?/[^\s'\"`:,;()<>|\u2018\u2019]*[^\s'\"`:,;()<>|.\u2018\u2019])"
)
# An address, the name of an error, a sentence, a piece of an expression.
_NO_PATH = re.compile(r"://|^\[|^E[A-Z]{3,}$|^[^/]* [^/]*$|\($|^[^\w./~]+$")
_SOCKETS = re.compile(r"(?i)\b(?:on|daemon|unix|local) socket\b|\bunix:/|\bdial unix\b|\bconnect e[a-z]+ /")
_INDEX = re.compile(r"\bLooking in indexes: ([^\s,]+)")
_CONNECTS = re.compile(r"(?i)failed to establish a new connection|connection broken by")
_ROOT = re.compile(r"(?i)superuser|are you root|must be (?:run (?:as|by) )?root|root privileges|\bas root\b")
_ENV = re.compile(r"^\S*\benv: \W?([\w.+-]+)\W?: (?:No such file or directory|Permission denied)")
_LOOKS = re.compile(r"(?i)\b(?:cannot|failed to) (?:stat|access)\b")
_LISTENS = re.compile(r"\blisten E[A-Z]+")
_DATABASE = re.compile(r'unable to open database "([^"\n]{1,4096})"')
_REPOSITORY = re.compile(  # a `.git` file leads there, or a remote
    r"\bnot a git repository: (/.+)$|\bfatal: '(\.{0,2}/[^'\n]+)' does not appear to be a git repository$"
)
_TRACES = re.compile(r"(?i)\bptrace\b|\bPTRACE_TRACEME\b")
_LEAKS = "LeakSanitizer has encountered a fatal error"
_NAMESPACES = re.compile(
    r"(?i)\bunshare failed: operation not permitted|to create new namespace|no usable sandbox|move to new namespace"
)
_POINTS = re.compile(r"(?<=\bsymlink )'[^'\n]{0,4096}' -> ")  # what node's says is a text, and no path that failed
_NO_VERSIONS = "(from versions: none)"  # all that pip says of an index which it could not reach, and tried once
_THREAD = re.compile(r'\bin thread "[^"\n]{0,200}"')
_THROUGH = re.compile(r"--unix-socket[ =](/\S+)")
_CANNOT_DO = re.compile(r"Cannot \w+$")
_VERBS = re.compile(
    r"(?i)^(?:(?:cannot|can't|could not|unable to|failed to) (?:open|create|access|stat|read|execute|load|touch|"
    r"make directory|remove|write|lock)|open|mkdir|stat|lstat|unlink|rename|fork/exec|exec|cannot)\s+"
    r"(?:config file|file|directory)?\s*"
)
_HOSTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"could not resolve host(?:name)?:?\s+([\w.-]+)",
        r"getaddrinfo \w+ ([\w.-]+)(?::(\d+))?",
        r"\blookup ([\w.-]+)",
        r"\bUnknownHostException: ([\w.-]+)",
        r"connect to (?:host )?\[?([\w.:-]+?)\]? port (\d+)",
        r"connect \w+ \[?([\w.:]+?)\]?:(\d+)",
        r"dial tcp[46]?:? \[?([\w.:-]+?)\]?:(\d+)",
        r"host='([^']+)', port=(\d+)",
        r"server (?:at )?\W?([\w.-]+)\W?,? port (\d+)",
    )
)
_URL = re.compile(r"\b([a-z][a-z0-9+]*)://(?:[^\s/@'\"]*@)?(\[[0-9a-f:]+\]|[\w.-]+)(?::(\d+))?", re.IGNORECASE)
_PORTS = {"http": 80, "ws": 80, "ssh": 22, "git+ssh": 22, "git": 9418, "ftp": 21, "https": 443, "wss": 443}
_UNSET = (
    (re.compile(r"\bKeyError: '([A-Z_][A-Z0-9_]*)'"), True),
    (re.compile(r"\b([A-Za-z_]\w*): (?:unbound variable|parameter (?:null or )?not set)"), True),
    (re.compile(
        r"\b([A-Z][A-Z0-9_]{2,})\b[`'\"]?(?: environment)?(?: variable)?(?: is| was| must be)?"
        r" (?:not set|unset|undefined|missing|required|set\b|not defined|not found in the environment)"
    ), False),
)  # fmt: skip
_NOT_FOUND = re.compile(r"\bcommand not found: (\S+)|(?:^|: )([^\s:'\"]+): (?:command )?not found\b(?!:)")
_BINDS = re.compile(r"(?i)\bbind\b|listen(?:ing)? on|address already in use")
_PORT = re.compile(r"(?<![\w.])(\d{1,5})(?![\w.])")
_NETWORK = frozenset(
    (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
)
ANYWHERE = "*"  # no host was named


def clues(said: str, words: tuple[str, ...] = ()) -> list[Clue]:
    """What a command's last words tell; `words` are its own, which name hosts and ports where it does not."""
    found: dict[tuple[str, str], Clue] = {}
    text = said[-MOST_TEXT:]
    for line in text.splitlines():
        for clue in _of_line(line.strip()[:LONGEST], words, text):
            found.setdefault((clue.access, clue.target), clue)
            if len(found) >= MOST_CLUES:
                return list(found.values())
    return list(found.values())


def error_of(line: str) -> int:
    """The error that a line speaks of, or 0."""
    by_number = _ERRNO.search(line)
    if by_number:
        number = by_number[1] or by_number[2]
        return int(number) if number else _NAMES[by_number[3]]
    lower = line.lower()
    return next((number for words, number in _ERRORS.items() if words in lower), 0)


def _of_line(line: str, words: tuple[str, ...], text: str) -> list[Clue]:
    unset = [(found[1], sure) for pattern, sure in _UNSET if (found := pattern.search(line))]
    if unset:
        return [Clue("variable", name, errno.ENOENT if sure else 0) for name, sure in unset]
    line = _POINTS.sub("", _THREAD.sub("", line))
    error = error_of(line)
    if _LEAKS in line:
        return [Clue("trace", "ptrace", errno.EPERM)]
    if _NAMESPACES.search(line):
        return [Clue("sandbox", "namespaces", errno.EPERM)]
    if database := _DATABASE.search(line):  # which does not say why
        return [Clue("write", database[1], errno.EACCES)]
    if repository := _REPOSITORY.search(line):
        return [Clue("read", repository[1] or repository[2], errno.ENOENT)]
    if _NO_VERSIONS in line and "--no-index" not in words:
        return _at_index(text, 0)
    if not error:
        program = _NOT_FOUND.search(line)
        return [Clue("run", program[1] or program[2], errno.ENOENT)] if program else []
    if asked := _ENV.search(line):
        return [Clue("run", asked[1], error)]
    if error == errno.EPROTONOSUPPORT:
        return [Clue("socket", "datagrams", error)]
    if error == errno.EPERM and _TRACES.search(line):
        return [Clue("trace", "ptrace", error)]
    is_socket = _SOCKETS.search(line) is not None
    if error in _NETWORK or _CONNECTS.search(line):
        return _reached(line, words, text, error, is_socket)
    paths = _paths(line)
    if _LISTENS.search(line) and not paths:
        return _port(words, error)
    if is_socket and any(path.startswith("/") for path in paths):
        return [Clue("connect", path, error) for path in paths if path.startswith("/")]
    if not paths and _BINDS.search(" ".join((text, *words))):
        return _port(words, error)
    shapes = (("read", _LOOKS), ("remove", _REMOVES), ("make", _MAKES), ("write", _WRITES), ("read", _READS))
    usual = "write" if error in (errno.EROFS, errno.EBUSY) else "use"
    access = next((access for access, shape in shapes if shape.search(line)), usual)
    return [Clue(access, path, error) for path in paths]


def _reached(line: str, words: tuple[str, ...], text: str, error: int, is_socket: bool) -> list[Clue]:
    """What could not be reached: hosts, or else sockets, or nobody says."""
    through = _THROUGH.search(" ".join(words))
    if through:
        return [Clue("connect", through[1], error)]
    if _LISTENS.search(line):
        return [] if _paths(line) else _port(words, error) or [Clue("connect", ANYWHERE, error)]
    found = _hosts(line, words, error)
    if not found and "': /simple/" in line:  # pip names its index elsewhere, or not at all
        found = _at_index(text, error)
    if not found and error != errno.EADDRNOTAVAIL:
        paths = [path for path in _paths(line) if path.startswith("/") and (is_socket or "sock" in path)]
        found = [Clue("connect", path, error) for path in paths]
    return found or [Clue("connect", ANYWHERE, error)]


def _at_index(text: str, error: int) -> list[Clue]:
    index = _INDEX.search(text)
    urls = urls_of(index[1] if index else "https://pypi.org")
    return [Clue("connect", f"{host}:{port}", error) for host, port in urls]


def _port(words: tuple[str, ...], error: int) -> list[Clue]:
    ports = [port for word in words for port in _PORT.findall(word) if 0 < int(port) < 65536]
    return [Clue("bind", ports[0], error)] if ports else []


def wants_root(said: str) -> bool:
    """Whether a command says that only root may do what it was to do."""
    return _ROOT.search(said[-MOST_TEXT:]) is not None


def _paths(line: str) -> list[str]:
    """What of a line may be a path: what is quoted, what begins like one, or what stands before the error's words."""
    escaped = [_unescaped(found) for found in _ESCAPED.findall(line)]
    line = _ESCAPED.sub(" ", line)
    quoted = [*escaped, *(next(filter(None, found)) for found in _QUOTED.findall(line))]
    plain = [found for found in _PLAIN.findall(_QUOTED.sub(" ", line)) if not found.startswith("//")]
    if plain and len(quoted) + len(plain) > 1 and line.startswith(f"{plain[0]}: "):  # who speaks
        plain = plain[1:]
    named = [path for path in (*quoted, *plain) if path and not _NO_PATH.search(path)]
    return list(dict.fromkeys(named)) or ([] if escaped else _before(line))


def _unescaped(text: str) -> str:
    """What a shell would read in it."""
    return "".join(_read(escaped) if escaped else plain or quote for escaped, plain, quote in _PIECE.findall(text))


def _read(text: str) -> str:
    names = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
    said = text.encode("utf-8", "surrogateescape")

    def byte(found: re.Match[bytes]) -> bytes:
        word = found[1]
        return bytes((int(word, 8) & 255,)) if word.isdigit() else names.get(word, word)

    return _OCTAL.sub(byte, said).decode("utf-8", "surrogateescape")


def _before(line: str) -> list[str]:
    """`cat: notes: Permission denied`, `sh: 1: cannot create x: …`: the piece before the words of the error."""
    lower = line.lower()
    at = next((lower.find(words) for words in _ERRORS if words in lower), -1)
    pieces = [piece for piece in line[: max(at, 0)].split(": ") if piece.strip()]
    if pieces and _CANNOT_DO.match(pieces[-1]):  # tar's: the name comes before
        pieces = pieces[:-1]
    if len(pieces) < 2:
        return []
    piece = _VERBS.sub("", pieces[-1].strip().rstrip(":"))
    return [piece] if piece and " " not in piece and not piece.isdigit() else []


def _hosts(line: str, words: tuple[str, ...], error: int) -> list[Clue]:
    urls = urls_of(" ".join((line, *words)))
    found = [match for pattern in _HOSTS if (match := pattern.search(line))]
    if found:
        host, port = found[0][1], found[0][2] if found[0].re.groups > 1 else None
        known = next((number for name, number in urls if name == host), 0)
        return [Clue("connect", f"{host}:{port or known or _usual(line)}", error)]
    return [Clue("connect", f"{host}:{port}", error) for host, port in urls[:1]]


def _usual(line: str) -> int:
    return 22 if line.startswith(("ssh:", "scp:", "sftp:", "rsync:")) else 443


def urls_of(text: str) -> list[tuple[str, int]]:
    """(host, port) of every address in a text."""
    return [
        (host.strip("[]"), int(port) if port else _PORTS.get(scheme.lower(), 443))
        for scheme, host, port in _URL.findall(text)
        if scheme.lower() not in ("unix", "file")
    ]
