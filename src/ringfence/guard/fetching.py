"""What comes from elsewhere: files that are fetched, unpacked or patched, under names that nobody may know beforehand.

They are written like any other. And a tool of the project that the same line starts would run what nobody has seen.
"""

import posixpath
import re
from collections.abc import Callable

from .acts import plants, unpacked
from .arguments import RULES, Call
from .bounds import runs_later
from .patterns import lazy
from .reach import Walk
from .state import Field
from .syntax import Word

_CODE = lazy(
    r"(?i).*\.(?:[cm]?[jt]sx?|py|sh|bash|rb|php|pl|lua|go|rs|c|cc|cpp|h|hpp|java|kts?|scala|clj|exs?|jar|so|whl|cs|swift|vue)\Z"
)
_PATCH = lazy(r"(?i).*\.(?:patch|diff)\Z")
_PATCHED = lazy(r"(?m)^(?:\+\+\+|---|rename to|copy to) ([^\t\n]+)")
_QUOTED = lazy(
    r"(?m)^(?>[^\w\n]*?(?:\+\+\+|---|\*\*\*|(?:rename|copy) to|Index:|diff --git) ).*\""
)  # a name, in letters of its own


def fetched(walk: Walk, call: Call, name: str, place: Field) -> None:
    """One file, under the name that its address has."""
    whole = Field(posixpath.join(place.text, name), place.known, raw=name)
    walk.writes(whole, call.shell)
    if RULES.search("/" + name) or _CODE.match(name):
        walk.strewn = name


def scattered(walk: Walk, call: Call, place: Field, what: str) -> None:
    """Files whose names are the server's business."""
    unpacked(walk, call, [place])
    walk.strewn = what


def last_name(address: str) -> str:
    """What a program calls the file that it fetches from there."""
    path = re.sub(r"\A[A-Za-z][A-Za-z0-9+.-]*://", "", address).partition("#")[0]
    return posixpath.basename(path.partition("?")[0]) if "/" in path else ""


_MANY = frozenset(
    "-r --recursive -m --mirror -x --force-directories -i --input-file --content-disposition --trust-server-names "
    "-E --adjust-extension --page-requisites".split()
)


_OF_HERE = lazy(r"(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:[/?]|\Z)")  # which the run has of its own


def brings(walk: Walk, addresses: list[Field]) -> None:
    walk.brought = walk.brought or not all(field.known and _OF_HERE.match(field.text) for field in addresses)


def wget(walk: Walk, call: Call) -> None:
    brings(walk, call.operands)
    words = {field.text for field in call.words}
    if call.has("-b", "--background") and not call.has("-o", "-a", "--output-file", "--append-output"):
        walk.writes(Field("wget-log", raw="wget-log"), call.shell)
    if call.has("-O", "--output-document", "--spider"):
        for value in call.values("-O", "--output-document"):
            walk.strewn = value.text if _CODE.match(value.text) else walk.strewn
        return
    place = next(iter(call.values("-P", "--directory-prefix")), Field(".", raw="."))
    if call.has(*_MANY) or "-p" in words or not all(field.known for field in call.operands):
        scattered(walk, call, place, "what wget fetches")
        return
    for field in call.operands:
        fetched(walk, call, last_name(field.text) or "index.html", place)


def curl(walk: Walk, call: Call) -> None:
    addresses = [*call.operands, *call.values("--url")]
    brings(walk, addresses)
    if any(option.startswith("--expand-") for option, _ in call.options):
        walk.doubt("curl is told an option that expands")
    for value in call.values("-o", "--output", "--output-dir"):
        if re.search(r"#\d", value.text):
            walk.doubt("curl puts a piece of the address into the name of its file")
        walk.strewn = value.text if _CODE.match(value.text) else walk.strewn
    if call.has("-T", "--upload-file") and not all(re.match(r"https?://", field.text) for field in addresses):
        walk.doubt("curl uploads to what may be a file")
    if not call.has("-O", "--remote-name", "--remote-name-all"):
        return
    place = next(iter(call.values("--output-dir")), Field(".", raw="."))
    if call.has("-J", "--remote-header-name") or any(
        not field.known or re.search(r"[\[{]", field.text) for field in addresses
    ):
        scattered(walk, call, place, "what curl fetches")
        return
    for name in filter(None, (last_name(field.text) for field in addresses)):
        fetched(walk, call, name, place)


def taken_apart(walk: Walk, call: Call, archives: list[Field]) -> None:
    """An archive that this line has made or fetched, or that another command hands on."""
    if not archives or any(
        not one.known or one.text == "-" or walk.has_written(one.text, call.shell) for one in archives
    ):
        walk.strewn = f"what {call.name} unpacks"


def patched(walk: Walk, call: Call, files: list[Field], stdin: Word | None, trial: bool) -> None:
    """A patch that is part of this line, in full or as a file; on `trial` it writes no file whose name it says."""
    text = walk.expander(call.shell).text(stdin) if stdin is not None else ""
    rules = [name for name in _PATCHED.findall(text or "") if RULES.search("/" + name.strip())]
    made = [one.path for one in walk.findings.values() if one.access == "write" and _PATCH.match(one.path)]
    made += [field.text for field in files if field.known and walk.has_written(field.text, call.shell)]
    unseen = walk.piped and stdin is None and not files
    if text and not walk.bounds.held:
        later = (
            ["a name in quotes"] if _QUOTED.search(text) else [word for word in text.split() if runs_later("/" + word)]
        )
        if later:
            walk.doubt(f"{call.name} may write {later[0]!r}, by which git, an agent or a shell runs something")
    shown = text and all(field.known and field.text == "-" for field in files)
    for place in () if shown or trial or walk.bounds.held else call.shell.places:
        plants(walk, call, walk.stand(place))
    if text is None or rules or made or unseen:
        walk.strewn = (rules or made or ["a patch that is not known"])[0]


HANDLERS: dict[str, Callable[[Walk, Call], None]] = {"wget": wget, "curl": curl}
RAW: dict[str, Callable[[Walk, Call], None]] = {}
