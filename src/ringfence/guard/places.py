"""Directories that a shell or a program enters, and what else changes how a shell goes on."""

import posixpath
import re

from ..model import Access, Verdict
from .bounds import Bounds
from .patterns import lazy
from .reach import Walk
from .state import Field, Shell
from .syntax import Word

_EVERYBODY = lazy(r"\s*[-+]?0*[01]?\s*\Z")  # init, all there are, or all that belong together


def enter(walk: Walk, field: Field, shell: Shell, how: str, physical: bool = False) -> frozenset[str]:
    """The places that a shell may stand in after entering a directory; nothing when it may not."""
    if not field.known or not field.plain:
        walk.refuse(f"{how} {field.shown!r}: a target that expands is refused")
        return frozenset()
    if not shell.places and not field.text.startswith("/"):
        walk.doubt(f"{how} {field.shown!r}, and from where cannot be known")
        return frozenset()
    found = set()
    for place in sorted(shell.places) or ("/",):
        logical = posixpath.normpath("/" + posixpath.join(place, field.text).lstrip("/"))
        direct = posixpath.join(walk.stand(place), field.text)
        if walk.links and ".." in field.text:
            walk.doubt(f"{how} {field.shown!r}: '..' may lead through a link that this line makes")
        for path in (direct, logical):
            real = walk.stand(path)
            if not inside(walk.bounds, real):
                walk.find(
                    Verdict.DENY,
                    f"{how} {field.shown!r}, which is outside the worktree "
                    f"({walk.bounds.root}); a command may not leave it",
                    "enter",
                    real,
                )
            elif walk.is_loose(real):
                walk.doubt(f"{how} {field.shown!r}, where this line may have put a link")
        found.add(walk.stand(direct) if physical else logical)
    return frozenset(found)


def inside(bounds: Bounds, real: str) -> bool:
    """Whether a directory may be stood in: the worktree, and what may be written as a whole."""
    return bounds.has(real) or bounds.decide(Access.WRITE, real).verdict is Verdict.ALLOW


def moved(shell: Shell, places: frozenset[str], walk: Walk | None = None) -> tuple[Shell, Shell]:
    """The shell that has moved, and the one that could not; there is no such one where the directory surely stands."""
    entered = shell.copy()
    entered.places = places
    if walk is not None and places and all(walk.surely_stands(walk.stand(place)) for place in places):
        stayed = shell.copy()
        stayed.dead = True
        return entered, stayed
    return entered, shell


def numbered(walk: Walk, field: Field) -> Field:
    """`cd +1`: to bash a directory of that name."""
    if re.fullmatch(r"[-+]\d+", field.text) and not walk.bounds.held:
        walk.doubt(f"zsh takes {field.shown!r} for a place on its stack")
    return field


def stack(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """`dirs`: to zsh a directory that it is told is one to which popd leads."""
    if not walk.bounds.held and any(not re.fullmatch(r"[-+]\w+", field.text) for field in fields):
        walk.doubt("zsh keeps what dirs is told, and goes there later")


def settings(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    words = list(fields)
    while words and words[0].known and re.match(r"[-+].", words[0].text) and words[0].text != "--":
        option = words.pop(0).text
        if option[-1] == "o":
            option = option[:-1]
            if words and words.pop(0).text not in SETTINGS:
                walk.doubt("it changes how the shell reads the line")
        if not re.fullmatch(r"[-+][euxvECmb]*", option):
            walk.doubt(f"'set {option}' changes how the shell reads the line")
    if words and words[0].known and words[0].text in ("--", "-", "+"):
        words = words[1:]
    elif words and not words[0].known and words[0].may_be_option:
        walk.doubt(f"'set {words[0].shown}' may change how the shell reads the line")
    if len(words) != len(fields) or words:
        known = not any(field.many for field in words)
        shell.positional = tuple(words) if known and words else None


SETTINGS = frozenset("pipefail errexit nounset xtrace verbose noclobber errtrace monitor".split())
MATCHING = frozenset("nullglob globstar dotglob failglob nocaseglob nocasematch".split())


def options(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    names = {field.text for field in fields}
    if any(re.match(r"-\w*[suo]", name) for name in names) or any(not field.known for field in fields):
        shell.odd_words = "shopt was used"
        if not names <= MATCHING | {"-s", "-u", "-q"}:
            walk.doubt("'shopt' changes how the shell reads the line")


def kill(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """Ends what this line has started, or what a number names; not everybody, and not who started it."""
    signal = fields[:1] if fields and fields[0].text.startswith("-") and fields[0].text != "--" else []
    words = [field for field in fields if field.text != "--"]
    if signal and signal[0].text in ("-s", "-n"):
        signal = words[:2]
    for field in words[len(signal) :]:
        if walk.bounds.held and field.text == "0":
            continue  # this line, and all that it has started
        counted = "$((" in field.shown or "-$$" in field.shown
        if counted or "PPID" in field.shown.upper() or (field.known and _EVERYBODY.match(field.text)):
            walk.doubt(f"it ends {field.shown!r}, which nobody here has started")
        elif not field.known and walk.sought:
            walk.doubt(f"it ends {field.shown!r}, and has asked for {walk.sought!r}")


def limits(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """`ulimit`: where few files may be open no stream can be led elsewhere, and what should have been is not run."""
    walk.limited = walk.limited or any(not re.match("-", field.text) for field in fields)
