"""Code in another language that a line itself holds: `python -c`, `node -e`, a here-document for either.

Where the sandbox holds the line it runs as a script of the workspace does, which another line could have written. What
it does nobody reads; but where it names what lies outside, or is not known as a whole, it is asked about.
"""

import posixpath
import re

from ..model import Access, Verdict
from .arguments import Call, nothing_elsewhere, told_by_the_line
from .patterns import lazy
from .programs import row
from .reach import Walk
from .state import Field, Shell

MOST_NAMES = 500
# The option whose value is code, and those that may stand before it and change nothing of what matters here.
_OPTIONS = {
    "python": ("-[uBEsSOvqIb]*c", ""),
    "node": ("-e|-p|-pe|--eval|--print", r"--input-type=[\w-]+|--no-warnings|--experimental-[\w-]+"),
    "ruby": ("-[lanpsw]*e", r"-[lanpsw]+|-[lanpsw]*i(?:\.\w+)?|-r(?:json|yaml|set|date|time|csv|erb)|-I\w+"),
    "perl": ("-[0-9lanpsw]*[eE]", r"-[0-9lanpsw]+|-[0-9lanpsw]*i(?:\.\w+)?|-M[\w:=,]+"),
    "php": ("-r", ""),
    "lua": ("-e", ""),
    "Rscript": ("-e", ""),
    "tsx": ("-e|-p", ""),
    "ts-node": ("-e|-p|-pe", "-T|--transpile-only|--esm"),
    "deno": ("eval", ""),
}
# A place as code names one: from the root, the home, or upwards. Not what stands behind a name or a host.
_PLACE = lazy(r"(?<![\w.~/)\]}:!*+-])(?:~|(?:\.\./)*\.\.)?/[\w.@+-][\w.@+/~-]*")


def runs_code(walk: Walk, call: Call, words: list[Field]) -> bool:
    """Whether this is code that the line holds, all of it known, in a sandbox; then it is looked at."""
    language = re.sub(r"^(?:python|pypy)[23]?$", "python", call.name)
    if not walk.bounds.held or language not in _OPTIONS:
        return False
    rest = list(words)
    option, others = _OPTIONS[language]
    while rest and rest[0].known and re.fullmatch(others, rest[0].text):
        rest.pop(0)
    text: str | None = None
    if len(rest) > 1 and rest[0].known and re.fullmatch(option, rest[0].text):
        text, rest = rest[1].text if rest[1].known else None, rest[2:]
    elif call.stdin is not None and (not rest or rest[0].text == "-"):
        text, rest = walk.expander(call.shell).text(call.stdin), rest[1:]
    if text is None:
        return False
    look(walk, call.name, text, call.shell)
    arguments = Call(language, row("ninja"), [], [], call.shell, None)  # of the code, and none of them is an option
    told_by_the_line(walk, arguments, rest)
    nothing_elsewhere(walk, arguments, rest)
    walk.notes.append(f"{call.name} runs code of this line, which may do what the sandbox lets it")
    return True


def look(walk: Walk, name: str, text: str, shell: Shell) -> None:
    """Places that code names, where a directory of that name is: `/users/1` may be anything."""
    found = dict.fromkeys(_PLACE.findall(text))
    if len(found) > MOST_NAMES:
        walk.doubt(f"{name} runs code that names more places than are looked at")
        return
    for named in found:
        path = posixpath.join(walk.bounds.home or "/", named[2:]) if named[0] == "~" else named
        if path[0] == "/" and not walk.bounds.is_directory("/" + path.split("/")[1]):
            continue
        reals = [
            walk.bounds.resolve(posixpath.join(walk.stand(place), path)) for place in sorted(shell.places) or ("/",)
        ]
        allowed = [walk.bounds.decide(access, real).verdict for access in (Access.READ, Access.WRITE) for real in reals]
        if max(allowed) is not Verdict.ALLOW:
            walk.doubt(f"{name} runs code that names {named!r}, which points out of the worktree")
            return
