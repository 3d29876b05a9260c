"""Builtins that change how the shell goes on, and whom it ends."""

import re

from .patterns import lazy
from .reach import Walk
from .state import Field, Shell
from .syntax import Word

_EVERYBODY = lazy(r"(?:-?0*1|0+|-0+)\Z")  # init, all there are, or all that belong together


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
    if words and words[0].known and words[0].text == "--":
        words = words[1:]
    if len(words) != len(fields) or words:
        known = not any(field.many for field in words)
        shell.positional = tuple(words) if known and words else None


SETTINGS = frozenset("pipefail errexit nounset xtrace verbose noclobber errtrace monitor".split())
MATCHING = frozenset("nullglob globstar dotglob failglob nocaseglob nocasematch".split())


def options(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    names = {field.text for field in fields}
    if names & {"-s", "-u", "-o", "-so"} or any(not field.known for field in fields):
        shell.odd_words = "shopt was used"
        if not names <= MATCHING | {"-s", "-u", "-q"}:
            walk.doubt("'shopt' changes how the shell reads the line")


def kill(walk: Walk, fields: list[Field], shell: Shell, stdin: Word | None) -> None:
    """Ends what this line has started, or what a number names; not everybody, and not who started it."""
    words = [field for field in fields if field.text != "--"]
    signal = words[:1] if words and words[0].text.startswith("-") else []
    if signal and signal[0].text in ("-s", "-n"):
        signal = words[:2]
    for field in words[len(signal) :]:
        if "PPID" in field.shown or (field.known and _EVERYBODY.match(field.text)):
            walk.doubt(f"it ends {field.shown!r}, which nobody here has started")
