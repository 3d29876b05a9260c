"""A session: an agent's own worktree and branch of a repository, as it is remembered, and what can be wrong with it."""

import enum
import posixpath

import msgspec

from .names import SESSION_PREFIX


class Fault(enum.Enum):
    """Why a session cannot do what was asked; `WORKTREE_` and the name is the error's code."""

    INVALID_SLUG = "the name is not a slug, or is reserved"
    INVALID_BRANCH = "git does not take this as the name of a branch"
    INVALID_FROM = "this names no commit to start from"
    BASE_INVALID = "this is not the top of a repository that sessions can be made in"
    BRANCH_UNKNOWN = "there is no branch to act on"
    NOT_FOUND = "there is no such session"
    NOT_GIT = "there is no git repository here"
    EXISTS = "a session or branch of this name exists already"
    PATH_EXISTS = "something stands where the worktree would be"
    BRANCH_IN_USE = "the branch is checked out in another worktree"
    LOCKED = "somebody else is at work here"
    DIRTY = "there is work that is not committed"
    DELETE_BRANCH_BLOCKED = "this branch is not a session's own to delete"
    GIT_FAILED = "git could not do it"
    UNSAFE = "the repository is not what it must be, and somebody may have prepared it"
    UNSAVED = "work could not be saved, so the worktree stays"
    SETUP_FAILED = "the set-up command failed; the session stays"
    CONFLICT = "the branches change the same lines"


class State(enum.Enum):
    """How far a session is; the journal is written before what it announces is done."""

    STARTING = "starting"  # may be half made: nobody has worked in it, so it is rolled back
    ACTIVE = "active"
    ENDING = "ending"  # its worktree may stand in the trash, unverified: it is put back
    SAVED = "saved"  # all work is on its branch, and that was verified: the rest is removed
    MERGING = "merging"  # the base's files may have changed and its branch not: they are put back
    ENDED = "ended"  # only the branch is left


class Dependency(msgspec.Struct, frozen=True):
    """A directory of the project that a new worktree gets too: by a link, or as a copy."""

    path: str
    copied: bool


class Session(msgspec.Struct, frozen=True):
    """What the journal has of one session."""

    name: str
    branch: str
    base: str  # the branch it started from, or "" when none was checked out
    start: str  # the commit it started at
    tip: str  # where we last left its branch
    repository: str  # the top of the project
    common: str  # the repository's git directory
    worktree: str
    state: State
    made: str  # UTC
    dependencies: tuple[Dependency, ...] = ()
    config: str = ""  # the configuration of its own repository, as we wrote it
    seen: str = ""  # a fingerprint of the project's refs, as it was last shown them
    merging: tuple[str, ...] = ()  # branch, old and new commit, and the state to return to
    version: int = 2

    @property
    def id(self) -> str:
        """The name of its own git directory among those of all worktrees; the planner knows a session by it."""
        return SESSION_PREFIX + self.name

    @property
    def git(self) -> str:
        """The repository of its own."""
        return f"{posixpath.dirname(posixpath.dirname(self.worktree))}/git/{self.name}"

    @property
    def own(self) -> str:
        """The git directory of its worktree, in that."""
        return f"{self.git}/worktrees/{self.id}"
