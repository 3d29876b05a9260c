"""A policy from what a run used: the fewest lines that give it, each with its reason.

Pure: what was used and the judge are handed in, and so is what a directory holds. Nothing is granted that the judge did
not allow the run, no line opens a store of secrets or a file that looks like one, and files are folded into their
directory only where that opens none either.
"""

import fnmatch
from collections.abc import Callable

import msgspec

from ..model import BUILT_IN, Access, Decision, Verdict
from .defaults import is_inside
from .glob import escape
from .stores import SECRETS, SYSTEM_SECRETS

FOLDED = 3  # so many of one directory become the directory
_CONTAINERS = (".config", ".local", ".local/share", ".local/state", ".cache", "Library")  # of everybody's things
_LOOKS_SECRET = (
    ".env .env.* *.pem *.key *.p12 *.pfx *.kdbx *.keystore *.jks id_rsa* id_dsa* id_ecdsa* id_ed25519* *credential* "
    "*secret* *token* *passw* .netrc .pgpass .htpasswd"
).split()

Judge = Callable[[Access, str], Decision]
Listing = Callable[[str], list[str] | None]  # the names in a directory; None when it is none, or has too many


class Use(msgspec.Struct, frozen=True):
    """What was done to a canonical path, and by which program. Made and removed is a name in its directory."""

    access: str  # read, write or make
    path: str
    program: str


class Line(msgspec.Struct, frozen=True):
    """One entry of a policy."""

    text: str
    reason: str


class Learnt(msgspec.Struct, frozen=True):
    """What was learnt; `withheld` was used and is not granted."""

    reads: tuple[Line, ...] = ()
    writes: tuple[Line, ...] = ()
    hosts: tuple[Line, ...] = ()
    sockets: tuple[Line, ...] = ()
    variables: tuple[Line, ...] = ()
    withheld: tuple[Line, ...] = ()


def secret(path: str, home: str) -> str:
    """What a path is, when it is a secret or looks like one; "" otherwise."""
    stores = [(f"{home}/{name}", why) for name, why in SECRETS] + list(SYSTEM_SECRETS)
    for store, why in stores:
        if is_inside(path, (store,)):
            return why
    name = path.rpartition("/")[2].lower()
    return "it looks like a secret" if any(fnmatch.fnmatchcase(name, shape) for shape in _LOOKS_SECRET) else ""


def holds_secrets(directory: str, home: str, names: list[str] | None) -> bool:
    """Whether a directory has a store of secrets in it, or a file that looks like one, or nobody can tell."""
    inside = directory.rstrip("/") + "/"
    if names is None or any(f"{home}/{name}".startswith(inside) for name, _ in SECRETS):
        return True
    return any(path.startswith(inside) for path, _ in SYSTEM_SECRETS) or any(
        secret(inside + name, home) for name in names
    )


def is_wide(directory: str, home: str) -> bool:
    """Whether a directory is somebody's whole home, or a place of many things."""
    if home.startswith(directory.rstrip("/") + "/") or directory == home:
        return True
    if directory.startswith(f"{home}/"):
        return directory[len(home) + 1 :] in _CONTAINERS
    return directory.count("/") < 2


class _Fold:
    """Grants of one access, by path: who used what below them."""

    def __init__(self, access: Access, judge: Judge, home: str, listing: Listing) -> None:
        self.access, self.judge, self.home, self.listing = access, judge, home, listing
        self.used: dict[str, set[str]] = {}
        self.count: dict[str, int] = {}

    def add(self, path: str, program: str) -> None:
        self.used.setdefault(path, set()).add(program)
        self.count.setdefault(path, 1)

    def has(self, path: str) -> bool:
        """Whether a grant gives this path."""
        return is_inside(path, self.used)

    def may_be(self, directory: str) -> bool:
        """Whether a directory may stand for what is in it: no wider than the run had it, and no secret in it."""
        if is_wide(directory, self.home) or holds_secrets(directory, self.home, self.listing(directory)):
            return False
        return self.judge(self.access, directory).verdict is Verdict.ALLOW

    def fold(self) -> None:
        """Whatever has enough neighbours becomes its directory, as far up as that goes."""
        while True:
            by_directory: dict[str, list[str]] = {}
            for path in self.used:
                by_directory.setdefault(path.rpartition("/")[0] or "/", []).append(path)
            folded = [(above, paths) for above, paths in by_directory.items() if len(paths) >= FOLDED]
            folded = [(above, paths) for above, paths in folded if above not in self.used and self.may_be(above)]
            if not folded:
                return
            for above, paths in folded:
                self.used[above] = set().union(*(self.used.pop(path) for path in paths))
                self.count[above] = sum(self.count.pop(path) for path in paths)

    def lines(self, verb: str) -> tuple[Line, ...]:
        self.fold()
        kept: dict[str, set[str]] = {}
        for path in sorted(self.used):
            above = next((one for one in kept if path.startswith(one.rstrip("/") + "/")), None)
            if above is None:
                kept[path] = self.used[path]
            else:
                kept[above] |= self.used[path]
                self.count[above] += self.count[path]
        return tuple(
            Line(spelled(path, self.home), f"{verb} by {', '.join(sorted(programs))}{_times(self.count[path])}")
            for path, programs in kept.items()
        )


def _times(count: int) -> str:
    return f", {count} paths" if count > 1 else ""


def spelled(path: str, home: str) -> str:
    """A path as a policy has it."""
    text = f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path
    return escape(text)


def learn(uses: list[Use], judge: Judge, home: str, listing: Listing) -> Learnt:
    """The lines for what a run used beyond the built-in policy."""
    reads, writes = _Fold(Access.READ, judge, home, listing), _Fold(Access.WRITE, judge, home, listing)
    withheld: dict[str, Line] = {}
    made = {use.path for use in uses if use.access == "make"}
    for use in uses:
        access = Access.READ if use.access == "read" else Access.WRITE
        decision = judge(access, use.path)
        if decision.verdict is not Verdict.ALLOW or decision.rule is None or decision.rule.origin == BUILT_IN:
            continue  # the built-in policy gives it, or it is the run's own
        path = use.path
        if use.access != "read":
            while path in made:  # what the run makes itself cannot be granted before it is there
                path = path.rpartition("/")[0] or "/"
        why = secret(path, home) or secret(use.path, home)
        names = listing(path)
        if not why and (is_wide(path, home) or (names is not None and holds_secrets(path, home, names))):
            why = "everything below it would be open"
        if why:
            text = spelled(path, home)
            withheld.setdefault(text, Line(text, f"{why}; {use.access} by {use.program}"))
        else:
            (reads if access is Access.READ else writes).add(path, use.program)
    written = writes.lines("written")
    for path in [path for path in reads.used if writes.has(path)]:  # what may be written may be read
        del reads.used[path]
    return Learnt(reads.lines("read"), written, withheld=tuple(withheld.values()))


def rendered(learnt: Learnt, remarks: list[str]) -> str:
    """The policy as TOML, a reason on every line."""
    out = [f"# {remark}" for remark in remarks]
    for table, keys in (
        ("filesystem", (("allowRead", learnt.reads), ("allowWrite", learnt.writes))),
        ("network", (("allowedDomains", learnt.hosts), ("allowUnixSockets", learnt.sockets))),
        ("environment", (("allow", learnt.variables),)),
    ):
        if any(lines for _, lines in keys):
            out += ["", f"[{table}]"]
        for key, lines in keys:
            if lines:
                out += [f"{key} = [", *(f"  {_quoted(line.text)},  # {_plain(line.reason)}" for line in lines), "]"]
    if not any(msgspec.structs.astuple(learnt)):
        out += ["# It used nothing beyond the built-in policy."]
    if learnt.withheld:
        out += ["", "# Used, and not granted here; add it yourself if it must be:"]
        out += [f"#   {_plain(line.text)}: {_plain(line.reason)}" for line in learnt.withheld]
    return "\n".join(out) + "\n"


def _plain(text: str) -> str:
    """A hostile name ends no comment."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _quoted(text: str) -> str:
    """A string of TOML."""
    plain = {'"': '\\"', "\\": "\\\\"}
    text = text.encode("utf-8", "replace").decode()  # a name that is not UTF-8 cannot stand in a policy
    return '"' + "".join(plain.get(char) or (char if char.isprintable() else _escaped(char)) for char in text) + '"'


def _escaped(char: str) -> str:
    return f"\\U{ord(char):08x}"
