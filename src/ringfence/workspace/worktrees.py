"""Making a worktree, and asking git which there are.

Made by hand, name by name, because `git worktree add` would run in the repository's own configuration. The project's
git lists it as it lists any other; the worktree itself leads to a repository of the session's own.
"""

import os

import msgspec

from ..model import SessionError
from ..model.session import Fault, Session
from . import paths, private
from .git import put_new
from .ledger import Ledger
from .repository import make_directories


class Listed(msgspec.Struct, frozen=True):
    """One worktree, as git lists it."""

    path: str
    head: str = ""
    branch: str = ""


def parse_list(listing: bytes) -> list[Listed]:
    """`git worktree list --porcelain -z`: fields end in NUL, worktrees in an empty field; a path may hold newlines."""
    found = []
    for block in listing.split(b"\0\0"):
        fields: dict[str, str] = {}
        for field in block.split(b"\0"):
            word, _, rest = field.partition(b" ")
            fields.setdefault(os.fsdecode(word), os.fsdecode(rest))
        if "worktree" in fields:
            branch = fields.get("branch", "").removeprefix("refs/heads/")
            found.append(Listed(fields["worktree"], fields.get("HEAD", ""), branch))
    return found


def listed(ledger: Ledger) -> list[Listed]:
    """Every linked worktree that git knows; the first of git's list is the main one."""
    return parse_list(ledger.git.call("worktree", "list", "--porcelain", "-z"))[1:]


def make(ledger: Ledger, session: Session, commit: str) -> None:
    """The worktree with its files, its own repository, and what tells the project's git of it."""
    worktrees = paths.open_directory("worktrees", ledger.common)
    try:
        os.mkdir(session.id, 0o777, dir_fd=worktrees)
        fd = paths.open_directory(session.id, worktrees)
    finally:
        os.close(worktrees)
    try:
        # Locked while it is half made, as git itself does it: nobody prunes it meanwhile.
        for name, text in (
            ("locked", "initializing\n"),
            ("HEAD", f"ref: refs/heads/{session.branch}\n"),
            ("commondir", "../..\n"),
            ("gitdir", f"{session.worktree}/.git\n"),
        ):
            put_new(fd, name, os.fsencode(text))
        private.make(ledger, session, commit)
        place = make_directories(ledger.home, f"worktrees/{session.name}", 0o755)
        try:
            put_new(place, ".git", os.fsencode(f"gitdir: {session.own}\n"))
        finally:
            os.close(place)
        index = f"{session.own}/index"
        ledger.git.call("read-tree", "-m", "-u", commit, own=session.own, worktree=session.worktree, index=index)
        os.unlink("locked", dir_fd=fd)
    finally:
        os.close(fd)


def check_listed(ledger: Ledger, session: Session) -> None:
    """A session's worktree stands where it must, and git knows it."""
    if not ledger.has("worktrees", session.name):
        hint = f"`ringfence session end {session.name}` keeps its branch"
        raise SessionError(Fault.NOT_FOUND, session.worktree, "the worktree is gone", hint)
    if not paths.exists_beneath(ledger.common, f"worktrees/{session.id}"):
        what = "git does not know this worktree any more"
        raise SessionError(Fault.NOT_FOUND, session.worktree, what, "copy what you need, then `session end`")
    private.check_pointers(session)
    if session.worktree not in {one.path for one in listed(ledger)}:
        raise SessionError(Fault.NOT_FOUND, session.worktree, "git does not list this worktree")
