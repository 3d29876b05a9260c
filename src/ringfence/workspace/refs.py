"""Refs as text: what a session is given of the project's, what it changed of them, and what of that is kept.

Pure but for reading the files of a session's own repository, which its commands may write: no link is followed there,
and what git would not take for a ref is none.
"""

import itertools
import os
import re
from collections.abc import Iterable

from ..model import WorkspaceError
from . import paths

Refs = dict[str, str]  # full name → object

GIVEN = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")  # of the project's, but for sessions' branches
UNKEPT = ("refs/remotes/", "refs/stash/", "refs/ringfence/")  # fetched again; kept entry by entry; the project's own
APART = "refs/heads/ringfence/"
STASH = "refs/stash"
PACKED = "packed/packed-refs"
ASIDE = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")
MOST = 1 << 28
# Compiled where they are first wanted: who only lists sessions does not.
_OBJECT = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_BAD = r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$"  # git-check-ref-format(1)


def is_name(ref: str) -> bool:
    """Whether git takes a full name for that of a ref: bytes of any language, or of none."""
    return ref.startswith("refs/") and not re.search(_BAD, ref)


def is_object(text: str) -> bool:
    return re.fullmatch(_OBJECT, text) is not None


def render(refs: Refs) -> bytes:
    """Refs as git packs them."""
    rows = sorted((os.fsencode(name), value.encode()) for name, value in refs.items())
    return b"# pack-refs with: sorted \n" + b"".join(b"%s %s\n" % (value, name) for name, value in rows)


def parse(packed: bytes) -> Refs:
    """Refs from git's packed file; peeled values and what is no ref are left out."""
    found = {}
    for line in packed.splitlines():
        value, _, name = os.fsdecode(line).partition(" ")
        if is_object(value) and is_name(name):
            found[name] = value
    return found


def refreshed(now: Refs, given: Refs, new: Refs) -> Refs:
    """Packed refs of a session when the project's have changed: what the session changed itself stays so."""
    own = {name: value for name, value in now.items() if given.get(name) != value}
    kept = {name: value for name, value in new.items() if name in now or name not in given}
    return kept | own


def changed(now: Refs, given: Refs) -> Refs:
    """The branches, tags, notes and other refs of a session that the project does not have so."""
    return {name: value for name, value in now.items() if is_kept(name) and given.get(name) != value}


def fitting(found: Refs, others: Iterable[str]) -> Refs:
    """Those refs that can stand in files beside one another and beside the others: git makes none whose name is the
    directory of another's, and a command can write one into the packed file."""
    below = tuple(f"{name}/" for name in others)
    order = sorted((*found, *below, *GIVEN), key=lambda name: name.split("/"))  # what is below one follows it at once
    taken = {first for first, second in itertools.pairwise(order) if second.startswith(f"{first}/")}
    return {name: value for name, value in found.items() if name not in taken and not name.startswith(below)}


def is_kept(ref: str) -> bool:
    """Whether a ref of a session is kept under its own name when the session ends."""
    return not f"{ref}/".startswith(UNKEPT)


def parse_stash(log: bytes) -> list[str]:
    """The entries of a stash, the oldest first: git keeps them as the log of one ref."""
    rows = (os.fsdecode(line).partition("\t")[0].split(" ") for line in log.splitlines())
    return [row[1] for row in rows if len(row) > 2 and is_object(row[1])]


def read(repository: int) -> Refs:
    """The refs to be kept that a session's repository has: in files of their own, and then in the packed one."""
    found = {name: value for name, value in parse(_content(repository, PACKED)).items() if is_kept(name)}
    if not paths.exists_beneath(repository, "refs"):
        return found
    fd = paths.open_directory("refs", repository)
    try:
        for entry, _ in paths.walk(fd, frozenset(("remotes", "stash", "ringfence"))):
            name = f"refs/{entry.path}"
            is_odd = entry.is_link or (f"{name}/" in GIVEN and not entry.is_directory)
            if is_odd and "/" not in entry.path and is_kept(name):  # git would go there, and we do not
                raise WorkspaceError(name, "is a link, or not a directory")
            value = read_one(repository, name) if entry.is_regular and is_kept(name) else ""
            if value:
                found[name] = value
    finally:
        os.close(fd)
    return found


def read_one(repository: int, ref: str) -> str:
    """The value of a ref in a file of its own; empty where there is none."""
    if not is_name(ref) or not paths.exists_beneath(repository, ref):
        return ""
    text = os.fsdecode(paths.read_beneath(repository, ref, 4096)).strip()
    return text if is_object(text) else ""


def read_stash(repository: int, own: str) -> list[str]:
    """The entries of a repository's stash, the oldest first, and what an unfinished rebase or merge of its worktree has
    put aside: git keeps that in a file in the worktree's own directory."""
    entries = parse_stash(_content(repository, f"logs/{STASH}"))
    others = [read_one(repository, STASH)]
    others += [os.fsdecode(_content(repository, f"{own}/{name}")).strip() for name in ASIDE]
    return list(dict.fromkeys((*entries, *filter(is_object, others))))


def _content(repository: int, path: str) -> bytes:
    return paths.read_beneath(repository, path, MOST) if paths.exists_beneath(repository, path) else b""
