"""Sessions: the rooms joined. A worktree and a branch from `workspace`, commands in it by `run`.

    with Session("~/project", name="feature-x") as session:
        session.run(["make", "test"])

Leaving the block ends the session: all work is on its branch, and the worktree is gone, or an error says where it is.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from .model import Exited, Outcome, SessionError, WorkspaceError
from .model.session import Dependency, Fault, State
from .model.session import Session as Record
from .policy import Flags
from .policy.trust import at_home, directory_of, home_of
from .run import run
from .workspace import landing, life, merging, paths, private, repository, saving, slugs, worktrees
from .workspace import ledger as ledgers
from .workspace.ledger import Ledger, use
from .workspace.life import Ended
from .workspace.merging import Merged

replace = msgspec.structs.replace


class Opened(msgspec.Struct, frozen=True):
    """A ledger in use, and what had to be recovered first."""

    ledger: Ledger
    recovered: tuple[str, ...]


@contextlib.contextmanager
def opened(where: str, environ: Mapping[str, str] | None = None, wait: float = ledgers.WAIT) -> Iterator[Opened]:
    """The sessions of the repository around a directory, locked; what was interrupted before is put right first."""
    environ = os.environ if environ is None else environ
    state = directory_of(environ, "XDG_STATE_HOME", ".local/state")
    if not state:
        raise WorkspaceError("sessions", "there is no home directory to keep them in", "set HOME or XDG_STATE_HOME")
    with ledgers.opened(repository.find(at_home(where, home_of(environ))), state, environ, wait) as ledger:
        yield Opened(ledger, tuple(life.recover(ledger)))


class Session:
    """An agent's own worktree and branch. As a context manager it starts, and ends with all work on its branch."""

    def __init__(
        self,
        where: str = ".",
        name: str | None = None,
        *,
        revision: str = "",
        link: Sequence[str] = (),
        copy: Sequence[str] = (),
        setup: str = "",
        flags: Flags | None = None,
        as_root: bool = False,
        with_ignored: bool = False,
        wait: float = ledgers.WAIT,
    ) -> None:
        self._where = os.path.abspath(paths.absolute(at_home(where, home_of(os.environ))))
        self._name = name
        self._revision = revision
        self._wanted = (*(Dependency(path, False) for path in link), *(Dependency(path, True) for path in copy))
        self._setup = setup
        self._flags = flags
        self._as_root = as_root
        self._with_ignored = with_ignored
        self._wait = wait
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        """What the journal has of it."""
        if self._record is None:
            raise SessionError(Fault.NOT_FOUND, "session", "has not been started", "use it as a context manager")
        return self._record

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def branch(self) -> str:
        return self.record.branch

    @property
    def path(self) -> str:
        """Where its worktree is."""
        return self.record.worktree

    def start(self) -> "Session":
        """Make the branch and the worktree, and run the set-up command once."""
        with self._opened() as ledger:
            now = time.gmtime()
            if self._name is None:
                name = slugs.default_slug(time.strftime("%Y%m%d-%H%M", now), frozenset(ledger.names()))
            else:
                name = slugs.slug_of(self._name)
            made = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
            self._record = life.start(ledger, name, self._revision, made, self._wanted)
        if self._setup:
            self._set_up()
        return self

    def resume(self) -> "Session":
        """Take up a session that is there, or whose branch is."""
        if self._name is None:
            raise SessionError(Fault.NOT_FOUND, "session", "needs a name", "ringfence session list")
        with self._opened() as ledger:
            self._record = life.resume(ledger, slugs.slug_of(self._name))
        return self

    def _set_up(self) -> None:
        outcome = self.run(["sh", "-c", self._setup])
        if outcome.ending != Exited(0):
            what = f"`{self._setup}` {outcome.ending}"
            raise SessionError(Fault.SETUP_FAILED, self.name, what, f"the session stays: {self.path}")

    def run(self, argv: Sequence[str], *, below: str = "", **options: Any) -> Outcome:
        """Run a command in the worktree, or in a directory below it; options as for `ringfence.run`."""
        options.setdefault("as_root", self._as_root)
        with self.used(below, options.pop("flags", None)) as (cwd, flags):
            return run(argv, workspace=self.path, cwd=cwd, flags=flags, **options)

    @contextlib.contextmanager
    def used(self, below: str = "", flags: Flags | None = None) -> Iterator[tuple[str, Flags]]:
        """Where a command runs in it, and with which flags; while it does, nobody ends it."""
        self._check()
        cwd = os.path.join(self.path, *paths.names_below(below)) if below else self.path
        flags = flags or self._flags or Flags(cwd=cwd)
        linked = (f"{self.record.repository}/{one.path}" for one in self.record.dependencies if not one.copied)
        with self._used():
            try:
                yield cwd, replace(flags, allow_read=(*flags.allow_read, *linked))
            finally:
                private.check_pointers(self.record)

    def _check(self) -> None:
        """What must be so before every command; without git, for there are hundreds."""
        private.check_pointers(self.record)
        if private.fingerprint(self.record.common) != self.record.seen:
            with self._opened() as ledger:
                self._record = life.show_refs(ledger, ledger.settled(self.name))

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        """While a command runs in it, nobody ends it."""
        home = paths.open_directory(os.path.dirname(os.path.dirname(self.path)))
        try:
            fd = use(home, self.name)
        finally:
            os.close(home)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise SessionError(Fault.LOCKED, self.name, "is being ended", "ringfence session list") from None
        finally:
            os.close(fd)

    def diff(self) -> bytes:
        """What is different from where it began, committed or not, as a patch."""
        with self._opened() as ledger:
            return diff(ledger, ledger.settled(self.name))

    def merge(self, into: str = "") -> Merged:
        """Merge what is committed into the branch it began from, or change nothing."""
        with self._opened() as ledger:
            return merge(ledger, self.name, into)

    def end(self, *, with_ignored: bool | None = None, delete_branch: bool = False) -> Ended:
        """Put all work on the branch, and take the worktree away."""
        ignored = self._with_ignored if with_ignored is None else with_ignored
        with self._opened() as ledger:
            ended = life.end(ledger, self.name, ignored, delete_branch)
        self._record = ended.session
        return ended

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Ledger]:
        with opened(self._where, None, self._wait) as found:
            yield found.ledger

    def __enter__(self) -> "Session":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._record is not None and self._record.state is not State.ENDED:
            self.end()


def diff(ledger: Ledger, session: Record) -> bytes:
    """A patch from where a session's branch left its base to what its files are now."""
    git, told = ledger.git, {}
    if session.state is State.ENDED:
        tree = head = git.commit_of(f"refs/heads/{session.branch}")
        if not head:
            raise SessionError(Fault.BRANCH_UNKNOWN, session.name, f"its branch {session.branch} is gone")
    else:
        worktrees.check_listed(ledger, session)
        head = life.head_of(ledger, session) or session.tip
        told = landing.named_anew(ledger, session, head)
        saving.check_savable(ledger, session)
        tree = saving.tree_of_files(ledger, session, head, False, told)
    base = git.commit_of(f"refs/heads/{session.base}") if session.base else ""
    met = git.done("merge-base", base, head, good=(0, 1), environ=told).stdout.decode().split() if base else []
    words = ("diff-tree", "-r", "-p", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")
    return git.call(*words, met[0] if met else session.start, tree, environ=told)


def merge(ledger: Ledger, name: str, into: str = "") -> Merged:
    """Merge a session; refused while it holds work that is not committed."""
    session = ledger.settled(name)
    if session.state is State.ACTIVE:
        worktrees.check_listed(ledger, session)
        if life.is_dirty(ledger, session):
            hint = f"commit it in the session, or `ringfence session end {name}` and merge then"
            raise SessionError(Fault.DIRTY, name, "holds work that is not committed", hint)
        session = life.land(ledger, session)
    return merging.merge(ledger, session, into)
