"""What is left in a git directory that makes a later git, outside, run programs, or read and write elsewhere, although
its configuration and its hooks are as they were: work that was begun, and the index.

Git believes its own files. It restores what an index names wherever that lies (`../.bashrc`, `.git/hooks/x`), copies
what MERGE_RR names into its store of resolutions at the next commit, and gives what it kept of a rebase, of patches and
of a bisection to its commands as words. Whole files are read here, in a time that grows with the index alone: git
itself, which wrote it, took longer. One that git did not write is told of where reading it would take longer than that.
"""

import os
import re
import stat
import struct
from collections.abc import Callable, Collection, Iterator

from ..model import PlanError
from .gitfiles import as_written, facts_of, is_new, object_format, whole, work_tree

_BEGUN = ("rebase-merge", "sequencer", "rebase-apply")
_MOST_INDEX = 1 << 28
_STRATEGY = rb"(?:ort|recursive|resolve|octopus|ours|subtree)"  # another one is a program, by a path even
# What `--continue` and its kin go by, and how what is in a file of it runs a program, or writes somewhere.
_RUNS = {
    "git-rebase-todo": re.compile(rb"^[^\S\n]*(?:exec|x)\s", re.MULTILINE),
    "strategy": re.compile(rb"\A(?!" + _STRATEGY + rb"?\s*\Z)"),
    "opts": re.compile(
        rb"(?im)^(?![^\S\n]*(?:strategy = " + _STRATEGY + rb"|strategy-option = [\w=%-]+)[^\S\n]*$).*strategy",
    ),
    # Of a strategy that is a script `git read-tree` has them, which writes an index where one of them says.
    "strategy_opts": re.compile(
        rb"(?s)\A(?!(?:\s*'?--(?:ours|theirs|patience|histogram|minimal|(?:no-)?renormalize|no-renames|ignore-[a-z-]+"
        rb"|(?:diff-algorithm|find-renames|rename-threshold|subtree)(?:=[\w./%-]*)?)'?)*\s*\Z)"
    ),
    "apply-opt": re.compile(rb"--b"),  # build-fake-ancestor=, the one that names a file to write
    # How far it is, and of what branch: git's own prompt for shells shows both as they are. The shell expands the one,
    # and the terminal obeys what is no letter in the other. Of two bytes those that begin more than a line: a branch
    # may have the rest.
    **dict.fromkeys(_COUNTS := ("msgnum", "end", "next", "last"), re.compile(rb"[^\d\s]")),
    "head-name": (_CONTROLS := re.compile(rb"[\0-\x09\x0b-\x1f\x7f]|\xc2[\x90\x98\x9b\x9d-\x9f]")),
}
_SHOWN = (*_COUNTS, "head-name")
# An extension of an index, and nothing of what follows: a name that ends like one may stand before it.
_TABLE = re.compile(rb"(?s)IEOT(?=.{4}\0\0\0\x01)")
_SHARED, _MOST_SHARED = re.compile(r"sharedindex\.((?:[0-9a-f]{20}){2}|[0-9a-f]{64})"), 256
_MODES = frozenset(struct.pack(">I", mode) for mode in (0o100644, 0o100755, 0o120000, 0o160000, 0o040000))
# Git takes no such name from a tree or a person; on a disk of Windows the last is the git directory, too.
_ODD = re.compile(rb"(?i)(?:\A|\0)/|(?:\A|[/\0])(?:\.\.|\.git|git~[0-9]+)(?:[/\0]|\Z)")


def left(git: str, since: int) -> list[str]:
    """What in a git directory would run programs or lead git elsewhere, changed since a time in nanoseconds."""
    odd = [place for name in _BEGUN if _runs_on(place := f"{git}/{name}", since)]
    odd += filter(_is_odd_head, [f"{git}/HEAD"])
    odd += [f"{git}/index"] if _has_odd_index(git, since) else []
    odd += [f"{git}/MERGE_RR"] if _copies_strangers(git, since) else []
    start = f"{git}/BISECT_START"  # a word of `git checkout`
    return odd + ([start] if is_new(start, since) and (whole(start) or b"-").startswith(b"-") else [])


def _runs_on(place: str, since: int) -> bool:
    facts = facts_of(place)
    if facts is None or not stat.S_ISDIR(facts.st_mode):
        return facts is not None and facts.st_ctime_ns >= since
    if facts.st_ctime_ns >= since:
        if not os.access(place, os.R_OK | os.X_OK):
            return True  # closed to us: what is in it can be opened again
        since = 0  # it may have come here just now, by another name, with files that are older
    # What prompts show nobody has otherwise, and it may be as old as a git directory that was closed to us until now.
    return any((name in _SHOWN or is_new(f"{place}/{name}", since)) and _says_so(place, name) for name in _RUNS)


def _says_so(place: str, name: str) -> bool:
    text = whole(f"{place}/{name}")
    return text is None or _RUNS[name].search(text) is not None


def run_by_prompts(found: Collection[str]) -> tuple[str, ...]:
    """What the next prompt of a shell may run, or have the terminal do, before anybody has read that it is there: such
    work itself, or in a git directory, and its HEAD; and versions by a path, which `taken` tells of."""
    places = [place for path in found for place in (path, *(f"{path}/{name}" for name in _BEGUN))]
    begun = [place for place in places if any(_says_so(place, name) for name in _SHOWN)]
    heads = (place if os.path.basename(place) == "HEAD" else f"{place}/HEAD" for place in found)
    versions = (place for place in found if place.endswith(("-version", "-versions", "/.nvmrc")))
    return (*begun, *filter(_is_odd_head, heads), *filter(os.path.isfile, versions))


def _is_odd_head(head: str) -> bool:
    facts = facts_of(head)
    if facts is not None and stat.S_ISFIFO(facts.st_mode):  # the prompt would wait for good
        return True
    text = whole(head) if facts is not None and stat.S_ISREG(facts.st_mode) else b""
    return text is None or _CONTROLS.search(text) is not None


def _copies_strangers(git: str, since: int) -> bool:
    """Whether git would copy something else than a file of the worktree: it follows links here, which may be newer."""
    text = whole(f"{git}/MERGE_RR")
    if text is None:
        return is_new(f"{git}/MERGE_RR", since)
    names = [row.partition(b"\t")[2] for row in text.split(b"\0") if row]
    if _ODD.search(b"\0".join(names)):
        return True
    try:
        top = os.fsencode(work_tree(git)) if names else b""
    except PlanError:  # its configuration is larger than we read
        return True
    return any(_has_link(top, name) for name in names)


def _has_link(top: bytes, name: bytes) -> bool:
    while name:
        if os.path.islink(os.path.join(top, name)):
            return True
        name = os.path.dirname(name)
    return False


def _has_odd_index(git: str, since: int) -> bool:
    """Whether an index names what lies elsewhere; also one that cannot be read to its end, as git would read it. Its
    shared part may be new where it is not."""
    parts = {name for name in os.listdir(git) if name == "index" or name.startswith("sharedindex.")}
    if not any(is_new(f"{git}/{name}", since) for name in parts):
        return False
    try:
        size = 32 if object_format(git).lower() == "sha256" else 20
        data = as_written(f"{git}/index")
        names = names_in(data, size)
        names += names_in(shared_part(git, data), size)
    except (IndexError, PlanError, ValueError, struct.error):
        return True
    return _ODD.search(b"\0".join(names)) is not None


def shared_part(git: str, data: bytes) -> bytes:
    """What an index says to be the rest of it. Only the one that is an extension names a file."""
    there = [_SHARED.fullmatch(name) for name in os.listdir(git)]
    sums = [re.escape(bytes.fromhex(name[1])) for name in there if name]
    if not sums:
        return b""
    if len(sums) > _MOST_SHARED:
        raise ValueError("more than git leaves")
    named = {found[1].hex() for found in re.finditer(rb"(?s)link(?=.{4}(" + b"|".join(sums) + rb"))", data)}
    if len(named) > 1:
        raise ValueError("more than there is")
    return as_written(f"{git}/sharedindex.{named.pop()}") if named else b""


def names_in(data: bytes, size: int, mode: bytes = b"", goes_on: Callable[[], bool] | None = None) -> list[bytes]:
    """The paths in an index with object names of a size, of entries with a mode. What git writes has more bytes than
    its names, read twice, and not a few for many long ones: each as the one before it, but for its end, or the same
    again by the table."""
    names, left_over = list[bytes](), min(8 * len(data), _MOST_INDEX)
    for number, (name, place) in enumerate(_entries(data, size)):
        left_over -= len(name)
        if left_over < 0 or (goes_on is not None and number % 10_000 == 0 and not goes_on()):
            raise ValueError("a few bytes each, and long")
        found = data[place + 24 : place + 28]
        if found not in _MODES:
            raise ValueError("git writes no such mode, and looks at some bits of it alone")
        if not mode or found == mode:
            names.append(name)
    return names


def _entries(data: bytes, size: int) -> Iterator[tuple[bytes, int]]:
    """The path of each entry, and where it stands, from the beginning and from where a table says that others may begin
    to read: git does so with many."""
    if not data:
        return
    version, count = struct.unpack_from(">II", data, 4)
    yield from _read(data, 12, count, version, size)
    view, told = memoryview(data), 0
    for found in _TABLE.finditer(data):
        (length,) = struct.unpack_from(">I", data, found.end())
        for place, number in struct.iter_unpack(">II", view[found.end() + 8 : found.end() + 4 + length]):
            told += number  # by all tables, of which git writes one
            if not number or told > count:
                raise ValueError("more than there are")
            yield from _read(data, place, number, version, size)


def _read(data: bytes, place: int, count: int, version: int, size: int) -> Iterator[tuple[bytes, int]]:
    name, flagged = b"", 40 + size
    for number in range(count):
        at = place + flagged
        length = (data[at] << 8 | data[at + 1]) & 0xFFF
        start, same = at + (4 if data[at] & 0x40 else 2), 0  # a second word of flags
        if version > 3:  # as the last one, but for its end
            gone, start = _number(data, start)
            same = len(name) - gone if number else 0  # where a block begins git knows of none before it
            if same < 0:
                raise ValueError("shorter than nothing")
        end = data.index(0, start) if length == 0xFFF else start + length - same
        name = name[:same] + data[start:end]
        yield name, place
        place = end + 1 if version > 3 else place + ((end - place + 8) & ~7)


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number as git writes it where it is mostly small, and where it ends."""
    byte = data[place]
    found = byte & 0x7F
    while byte & 0x80:
        if found > _MOST_INDEX:
            raise ValueError("longer than any name")
        place += 1
        byte = data[place]
        found = ((found + 1) << 7) | (byte & 0x7F)
    return found, place + 1
