"""The ledger of one repository's sessions: locked, with its records, and git as it may be used.

It stands in a directory of ours outside the project, which no sandboxed command can write:

    <state>/sessions/<project>-<digest>/records/<name>.json   what is known of a session, replaced as a whole
                                       /worktrees/<name>/     where it works
                                       /git/<name>/           the repository of its own (see `private`)
                                       /given/<name>          the project's refs, as it was last shown them
                                       /trash/<name>/         a worktree on its way out
                                       /use/<name>            locked by whoever runs a command in it
                                       /mirror/               what git is shown; rebuilt each time
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Mapping

import msgspec

from ..model import SessionError, WorkspaceError
from ..model.session import Fault, Session, State
from . import paths
from .git import Git, find_git
from .repository import Repository, lock, make_directories

WAIT = 60.0
VERSION = 2


class Ledger:
    """Everything one command needs to act on a repository's sessions, while it has the lock."""

    def __init__(self, repository: Repository, place: str, common: int, home: int, git: Git) -> None:
        self.repository = repository
        self.place = place
        self.common = common  # descriptors, held open
        self.home = home
        self.git = git

    # ---- Records ----

    def names(self) -> list[str]:
        """Every session there is a record of."""
        with _opened(self.home, "records") as fd:
            return sorted(name.removesuffix(".json") for name in os.listdir(fd) if name.endswith(".json"))

    def sessions(self) -> list[Session]:
        """All of them whose record can be read; `life.recover` has told of the others."""
        found = []
        for name in self.names():
            with contextlib.suppress(SessionError):
                found.append(self.get(name))
        return found

    def find(self, name: str) -> Session | None:
        """The record of a session, if there is one."""
        path = f"records/{name}.json"
        if not paths.exists_beneath(self.home, path):
            return None
        try:
            found = msgspec.json.decode(paths.read_beneath(self.home, path), type=Session)
        except msgspec.MsgspecError as error:
            hint = "look at it; the branch and the worktree are as they were"
            raise SessionError(Fault.UNSAFE, f"{self.place}/{path}", f"is damaged: {error}", hint) from None
        if found.version != VERSION or found.name != name or found.worktree != self.worktree(name):
            raise SessionError(Fault.UNSAFE, f"{self.place}/{path}", "is not this session's", "look who wrote it")
        return found

    def get(self, name: str) -> Session:
        """The record of a session that must be there."""
        found = self.find(name)
        if found is None:
            raise SessionError(Fault.NOT_FOUND, name, "there is no such session", "ringfence session list")
        return found

    def settled(self, name: str) -> Session:
        """The record of a session that can be acted on: nothing about it is half done."""
        found = self.get(name)
        if found.state not in (State.ACTIVE, State.ENDED):
            what = f"was interrupted ({found.state.value}), and could not be put right"
            raise SessionError(Fault.LOCKED, name, what, "`ringfence session list` says why")
        return found

    def write(self, session: Session) -> Session:
        """Put a record on the disk, so that it survives what comes next."""
        self.replace("records", f"{session.name}.json", msgspec.json.encode(session))
        return session

    def replace(self, kind: str, name: str, content: bytes) -> None:
        """Put a file of ours on the disk, whole or not at all, also when the power fails."""
        with _opened(self.home, kind) as fd:
            new = f"{name}.new"
            if paths.exists_beneath(fd, new):  # left by somebody who died
                os.unlink(new, dir_fd=fd)
            made = paths.open_beneath(fd, new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(made, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(made)
            os.rename(new, name, src_dir_fd=fd, dst_dir_fd=fd)
            os.fsync(fd)

    def forget(self, name: str) -> None:
        """Remove a record; its work is elsewhere, or was never begun."""
        for path in (f"given/{name}", f"use/{name}", f"records/{name}.json"):
            above, _, last = path.partition("/")
            with _opened(self.home, above) as fd:
                if paths.exists_beneath(fd, last):
                    os.unlink(last, dir_fd=fd)
                os.fsync(fd)

    # ---- Places ----

    def worktree(self, name: str) -> str:
        return f"{self.place}/worktrees/{name}"

    def has(self, kind: str, name: str) -> bool:
        """Whether something stands in a place of the ledger."""
        return paths.exists_beneath(self.home, f"{kind}/{name}")

    def move(self, name: str, source: str, target: str) -> None:
        """Move a worktree between its place and the trash."""
        with _opened(self.home, source) as old, _opened(self.home, target) as new:
            if paths.exists_beneath(new, name):
                raise SessionError(Fault.PATH_EXISTS, f"{self.place}/{target}/{name}", "something stands there already")
            os.rename(name, name, src_dir_fd=old, dst_dir_fd=new)
            os.fsync(old)
            os.fsync(new)

    def remove(self, kind: str, name: str) -> None:
        """Remove a tree of the ledger, if it is there."""
        with _opened(self.home, kind) as fd:
            if paths.exists_beneath(fd, name):
                paths.remove_tree(fd, name)

    def remove_mirror(self) -> None:
        """Remove what git was shown."""
        if paths.exists_beneath(self.home, "mirror"):
            paths.remove_tree(self.home, "mirror")

    def remove_own(self, session: Session) -> None:
        """Remove a session's own repository, and what the project's git knows of its worktree."""
        if paths.exists_beneath(self.common, f"worktrees/{session.id}"):
            with _opened(self.common, "worktrees") as fd:
                paths.remove_tree(fd, session.id)
        self.remove("git", session.name)

    def claim(self, name: str) -> int:
        """A session for us alone, until it is closed; refused while somebody runs a command in it."""
        fd = use(self.home, name)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise SessionError(Fault.LOCKED, name, "a command is running in it", "wait for it, or end it") from None
        return fd


def use(home: int, name: str) -> int:
    """The file by which users of a session know of each other."""
    return paths.open_or_make(home, f"use/{name}")


@contextlib.contextmanager
def _opened(parent: int, name: str) -> Iterator[int]:
    fd = paths.open_directory(name, parent)
    try:
        yield fd
    finally:
        os.close(fd)


def key_of(repository: Repository) -> str:
    """A name for a repository that people can read and no other one has."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(repository.common)).hexdigest()[:16]
    readable = "".join(char if char.isascii() and char.isalnum() else "-" for char in os.path.basename(repository.top))
    return f"{readable[:40] or 'repository'}-{digest}"


def _place_for(repository: Repository, state: str) -> str:
    """Where the ledger stands; outside the project, so that no command that runs there can write it."""
    place = f"{paths.canonical(state)}/sessions/{key_of(repository)}"
    if not place.isprintable():
        raise SessionError(Fault.BASE_INVALID, repr(place), "has a name that is not plain text", "set XDG_STATE_HOME")
    if paths.is_within(place, repository.top):
        what = "lies inside the project, where the project's own commands could write it"
        raise SessionError(Fault.BASE_INVALID, place, what, "set XDG_STATE_HOME to a directory outside")
    return place


@contextlib.contextmanager
def opened(repository: Repository, state: str, environ: Mapping[str, str], wait: float) -> Iterator[Ledger]:
    """The ledger of a repository, locked until the end of the block."""
    place = _place_for(repository, state)
    with contextlib.ExitStack() as stack:
        common = paths.open_directory(repository.common)
        stack.callback(os.close, common)
        locked = lock(common, repository.common, wait)
        stack.callback(os.close, locked)
        home = make_directories_of(place)
        stack.callback(os.close, home)
        git = Git(find_git(environ, (repository.top, place)), repository.common, f"{place}/mirror", environ)
        git.lock, git.places = locked, tuple(dict.fromkeys((repository.top, repository.common, place)))
        ledger = Ledger(repository, place, common, home, git)
        stack.enter_context(_room(place))
        _rebuild(ledger)
        stack.callback(ledger.remove_mirror)
        yield ledger


@contextlib.contextmanager
def _room(place: str) -> Iterator[None]:
    """Where there is none left, say where: what is written has no name in the system's own error."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        hint = "make room; the next session command puts right what was begun"
        raise WorkspaceError(place, os.strerror(error.errno), hint) from error


def make_directories_of(place: str) -> int:
    """The ledger's own directories, held open."""
    deepest = place
    while not os.path.isdir(deepest):
        deepest = os.path.dirname(deepest)
    fd = paths.open_directory(deepest)
    if deepest != place:
        try:
            below = make_directories(fd, os.path.relpath(place, deepest))
        except OSError as error:  # which names one name on the way alone
            raise OSError(error.errno, error.strerror, place) from error
        finally:
            os.close(fd)
        fd = below
    facts = os.fstat(fd)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        os.close(fd)
        raise SessionError(Fault.UNSAFE, place, "others can change it", f"chmod 700 {place}")
    for name in ("records", "worktrees", "trash", "use", "git", "given"):
        os.close(make_directories(fd, name))
    return fd


def _rebuild(ledger: Ledger) -> None:
    """What git is shown, and the directories that we rely on in the project's git directory."""
    for name in ("logs", "info", "worktrees"):
        os.close(make_directories(ledger.common, name, 0o777))
    ledger.remove_mirror()
    mirror = make_directories(ledger.home, "mirror")
    try:
        ledger.git.prepare(ledger.common, mirror)
    finally:
        os.close(mirror)
