"""From a session's own repository to the project: the objects of its work, then its refs.

The objects come as a pack that git makes of the session's store and that a second git reads into the project's, naming
each object by its content again: what is wrong with the store stays there. Only when everything that a commit needs is
in the project itself is a ref moved to it.
"""

import os
from collections.abc import Iterable, Mapping

from ..model import SessionError
from ..model.session import Fault, Session
from . import paths, private, refs
from .git import DURABLE, write_new
from .ledger import Ledger
from .repository import make_directories


def scratch(ledger: Ledger, session: Session) -> dict[str, str]:
    """Variables by which git reads the objects of the project and of a session, and writes to neither. A store may hold
    one object under the name of another: what is shown or kept is read by `named_anew`."""
    private.check_lender(session)
    if not paths.exists_beneath(ledger.home, f"mirror/scratch/{session.name}"):
        private.check_objects(ledger, session)
    return _borrowing(ledger, f"mirror/scratch/{session.name}", session.common, session.git)


def _borrowing(ledger: Ledger, place: str, *lenders: str) -> dict[str, str]:
    """Variables by which git reads the objects of others, and writes to a place of ours."""
    if not paths.exists_beneath(ledger.home, place):
        made = make_directories(ledger.home, f"{place}/info")
        try:
            write_new(made, "alternates", os.fsencode("".join(f"{lender}/objects\n" for lender in lenders)))
        finally:
            os.close(made)
    return {"GIT_OBJECT_DIRECTORY": f"{ledger.place}/{place}"}


def named_anew(ledger: Ledger, session: Session, head: str) -> dict[str, str]:
    """Variables by which git reads the objects of the project, and what of a session's belongs to a commit, each named
    by its content: what a person reads of it is what would come to the project."""
    told = _borrowing(ledger, f"mirror/named/{session.name}", session.common)
    if head and _missing(ledger, [head], told):
        _carry(ledger, session, [head], told)
        _check(session, _missing(ledger, [head], told))
    return told


def bring(ledger: Ledger, session: Session, objects: Iterable[str]) -> None:
    """Bring commits or tags of a session, with everything that belongs to them, into the project."""
    wanted = sorted(set(objects))
    if wanted and _missing(ledger, wanted):
        _carry(ledger, session, wanted, DURABLE)
    check_whole(ledger, session, wanted)


def _carry(ledger: Ledger, session: Session, wanted: list[str], into: Mapping[str, str]) -> None:
    words = ("pack-objects", "--revs", "--quiet", "--delta-base-offset", f"{ledger.place}/mirror/landing")
    told = scratch(ledger, session)
    name = ledger.git.call(*words, data=_beyond(ledger, wanted), environ=told).decode().strip()
    mirror = paths.open_directory("mirror", ledger.home)
    try:
        pack = paths.open_beneath(mirror, f"landing-{name}.pack")
    finally:
        os.close(mirror)
    try:
        ledger.git.call("index-pack", "--stdin", data=pack, environ=into)
    finally:
        os.close(pack)


def check_whole(ledger: Ledger, session: Session, wanted: list[str]) -> None:
    """Refuse a commit for which the project itself has not everything: a ref must not break it. What is there already
    is read, too: git writes nothing where a file has the object's name, also one that a loss of power left empty."""
    if wanted:
        _check(session, _missing(ledger, wanted, verified=True))


def _check(session: Session, said: str) -> None:
    if said:
        what = f"objects of its commits are missing: {said}"
        raise SessionError(Fault.UNSAVED, session.name, what, f"all of it stays in {session.worktree}")


def _missing(
    ledger: Ledger, wanted: list[str], environ: Mapping[str, str] | None = None, verified: bool = False
) -> str:
    """What git says is missing, in the project itself or by these variables, of all that belongs to some commits or
    tags; or, where that is verified, is not what it is called."""
    words = ("rev-list", "--verify-objects" if verified else "--objects", "--quiet", "--stdin")
    done = ledger.git.done(*words, data=_beyond(ledger, wanted), good=(0, 1, 128), environ=environ)
    said = done.stderr.decode("utf-8", "replace").strip()
    return said[-400:] or "?" if done.returncode or (verified and "error: " in said) else ""


def _beyond(ledger: Ledger, wanted: list[str]) -> bytes:
    """What belongs to some commits or tags and to no ref of the project, as git reads it."""
    held = ledger.git.call("for-each-ref", "--format=^%(objectname)")
    return b"".join(f"{one}\n".encode() for one in wanted) + b"".join(sorted(set(held.splitlines(keepends=True))))


def others(ledger: Ledger, session: Session, head: str) -> refs.Refs:
    """What a session has besides its HEAD: other refs of its own, and its stash, entry by entry."""
    home = paths.open_directory(f"git/{session.name}", ledger.home)
    try:
        kept = refs.changed(refs.read(home), private.given_refs(ledger, session))
        stash = refs.read_stash(home, f"worktrees/{session.id}")
    finally:
        os.close(home)
    main = f"refs/heads/{session.branch}"
    own = {name: value for name, value in kept.items() if name == main}
    if own and head and _is_ancestor(ledger, session, own[main], head):
        own = {}
    kept = refs.fitting(kept, [main]) | own
    kept |= {f"{refs.STASH}/{number:04}": value for number, value in enumerate(stash)}
    there = _there(ledger, session, kept.values())
    return {name: value for name, value in kept.items() if value in there}  # git takes no other for a ref


def _there(ledger: Ledger, session: Session, objects: Iterable[str]) -> set[str]:
    """Those objects that are in the project or in the session's own store."""
    wanted = "".join(f"{one}\n" for one in sorted(set(objects))).encode()
    if not wanted:
        return set()
    told = ledger.git.call("cat-file", "--batch-check=%(objectname)", data=wanted, environ=scratch(ledger, session))
    return {line for line in told.decode().splitlines() if not line.endswith(" missing")}


def _is_ancestor(ledger: Ledger, session: Session, older: str, newer: str) -> bool:
    words = ("merge-base", "--is-ancestor", older, newer)
    return ledger.git.done(*words, good=(0, 1, 128), environ=scratch(ledger, session)).returncode == 0


def keep_others(ledger: Ledger, session: Session, kept: refs.Refs) -> None:
    """Make the project's list of a session's other refs what the session has; their objects have been brought."""
    place = private.kept_place(session)
    before = private.kept_refs(ledger, session)
    gone = [name for name in before if name not in kept]
    new = [name for name in kept if before.get(name) != kept[name]]
    for rows in (  # first those that may stand in the way of others
        [f"delete {place}{name.removeprefix('refs/')}\n" for name in gone],
        [f"update {place}{name.removeprefix('refs/')} {kept[name]}\n" for name in new],
    ):
        if rows:
            ledger.git.call("update-ref", "--no-deref", "--stdin", data=os.fsencode("".join(rows)), environ=DURABLE)
