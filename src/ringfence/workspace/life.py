"""The life of a session: started, resumed, ended, and recovered after whatever interrupted it.

The record is written before what it announces, so the next command knows from it what may be half done:

    STARTING  nobody has worked in it: taken away again
    ENDING    the worktree may stand in the trash: put back, and it is ACTIVE
    SAVED     its work is on its branch, and that was verified: what is left of it is removed
"""

import os
from collections.abc import Sequence

import msgspec

from ..model import SESSION_PREFIX, RingfenceError, SessionError, WorkspaceError
from ..model.session import Dependency, Fault, Session, State
from . import dependencies, landing, merging, paths, private, rebuilding, saving, worktrees
from .ledger import Ledger
from .repository import head_branch
from .slugs import branch_of, check_word

replace = msgspec.structs.replace


class Ended(msgspec.Struct, frozen=True):
    """What became of a session's work."""

    session: Session
    commit: str  # where all of it is
    saved: bool  # whether a commit had to be made for it
    ignored: int  # how many ignored files, or whole directories, are in no commit
    deleted: bool = False  # whether the branch is gone too


def start(ledger: Ledger, name: str, revision: str, now: str, wanted: Sequence[Dependency]) -> Session:
    """A new branch and worktree. When it fails, nothing of it is left."""
    branch = branch_of(name)
    base = head_branch(ledger.common) if not revision else ""
    commit = ledger.git.commit_of(check_word(revision, Fault.INVALID_FROM, "--from") if revision else _head(ledger))
    if not commit and revision:
        raise SessionError(Fault.INVALID_FROM, revision, "names no commit", "--from takes a branch, a tag or a commit")
    if not commit:
        what = "the repository has no commit yet"
        raise SessionError(Fault.INVALID_FROM, ledger.repository.top, what, "commit something first")
    if revision and ledger.git.commit_of(f"refs/heads/{revision}"):
        base = revision
    _check_free(ledger, name, branch)
    dependencies.check(ledger, wanted)
    session = Session(
        name,
        branch,
        base,
        commit,
        "",
        ledger.repository.top,
        ledger.repository.common,
        ledger.worktree(name),
        State.STARTING,
        now,
        tuple(wanted),
    )
    return _make(ledger, ledger.write(_prepared(ledger, session)), commit)


def _prepared(ledger: Ledger, session: Session) -> Session:
    """With what its own repository will be made from."""
    return replace(session, config=private.config_for(ledger), seen=private.fingerprint(ledger.repository.common))


def _head(ledger: Ledger) -> str:
    branch = head_branch(ledger.common)
    return f"refs/heads/{branch}" if branch else paths.read_beneath(ledger.common, "HEAD", 4096).decode().strip()


def _check_free(ledger: Ledger, name: str, branch: str) -> None:
    found = ledger.find(name)
    if ledger.git.commit_of(f"refs/heads/{branch}"):
        way = f"ringfence session resume {name}" if found else f"git branch -d {branch}"
        raise SessionError(Fault.EXISTS, name, f"the branch {branch} exists", f"{way}, or another name")
    if found is not None and found.state is not State.ENDED:
        raise SessionError(Fault.EXISTS, name, "a session of this name exists", f"ringfence session resume {name}")
    if ledger.git.call("for-each-ref", "--count=1", f"refs/ringfence/{name}/"):
        what = f"an earlier session of this name left refs/ringfence/{name}/"
        raise SessionError(Fault.EXISTS, name, what, "another name, or look at them and delete them")
    if ledger.git.commit_of(f"refs/heads/{branch.partition('/')[0]}"):
        what = "there is a branch `ringfence`, so git cannot make one below it"
        raise SessionError(Fault.INVALID_BRANCH, branch, what, "rename that branch")
    _check_place(ledger, name)


def _check_place(ledger: Ledger, name: str) -> None:
    common = ledger.repository.common
    for root, path, shown in (
        (ledger.home, f"worktrees/{name}", ledger.worktree(name)),
        (ledger.common, f"worktrees/{SESSION_PREFIX}{name}", f"{common}/worktrees/{SESSION_PREFIX}{name}"),
    ):
        if paths.exists_beneath(root, path):
            raise SessionError(Fault.PATH_EXISTS, shown, "something stands there already", "ringfence session prune")


def _make(ledger: Ledger, session: Session, commit: str) -> Session:
    """From a record that says STARTING to a session that is whole, or back."""
    try:
        worktrees.make(ledger, session, commit)
        if not session.tip:
            ledger.git.move_branch(session.branch, commit, "", f"session {session.name} started")
        dependencies.bring(ledger, session)
        return ledger.write(replace(session, state=State.ACTIVE, tip=commit))
    except BaseException:
        roll_back(ledger, session)
        raise


def roll_back(ledger: Ledger, session: Session) -> None:
    """Take a half-made session away; nobody has worked in it. Its branch goes if it was made with it."""
    ledger.remove("worktrees", session.name)
    ledger.remove_own(session)
    if session.tip:  # it was being resumed
        ledger.write(replace(session, state=State.ENDED))
        return
    if ledger.git.commit_of(f"refs/heads/{session.branch}") == session.start:
        ledger.git.move_branch(session.branch, "", session.start, "")
    ledger.forget(session.name)


def resume(ledger: Ledger, name: str) -> Session:
    """A session to work in again; of one that has ended the worktree is made anew from its branch."""
    session = ledger.settled(name)
    if session.state is not State.ENDED:
        worktrees.check_listed(ledger, session)
        return session
    commit = ledger.git.commit_of(f"refs/heads/{session.branch}")
    if not commit:
        raise SessionError(Fault.BRANCH_UNKNOWN, name, f"its branch {session.branch} is gone", "session start")
    _check_place(ledger, name)
    session = _prepared(ledger, replace(session, state=State.STARTING, tip=commit))
    return _make(ledger, ledger.write(session), commit)


def show_refs(ledger: Ledger, session: Session) -> Session:
    """Show a session the project's refs as they are now, if its own git is not at work on them."""
    seen = private.fingerprint(ledger.repository.common)
    if session.state is not State.ACTIVE or seen == session.seen or not private.refresh(ledger, session):
        return session
    return ledger.write(replace(session, seen=seen))


def head_of(ledger: Ledger, session: Session) -> str:
    """The commit that a session stands at; empty: at none yet."""
    head = private.head_of(ledger, session)
    if head and not ledger.git.commit_of(head, landing.scratch(ledger, session)):
        raise SessionError(Fault.UNSAFE, f"{session.own}/HEAD", "names no commit")
    return head


def land(ledger: Ledger, session: Session) -> Session:
    """Bring what a session committed into the project, and its branch there, if nobody else moved that."""
    head = head_of(ledger, session)
    tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
    landing.bring(ledger, session, [head] if head else [])
    if not head or not tip or head == tip or not _is_ours(ledger, session, tip, head):
        return session
    ledger.git.move_branch(session.branch, head, tip, f"session {session.name}")
    return ledger.write(replace(session, tip=head))


def _bring_all(ledger: Ledger, session: Session) -> str:
    """Bring everything that a session committed, tagged and stashed, on whatever branch; the commit it stands at."""
    head = head_of(ledger, session)
    kept = landing.others(ledger, session, head)
    landing.bring(ledger, session, [one for one in (head, *kept.values()) if one])
    landing.keep_others(ledger, session, kept)
    return head


def _is_ours(ledger: Ledger, session: Session, tip: str, new: str) -> bool:
    """Whether a branch may go from its tip to a new commit: it adds to it, or the tip is where we left it ourselves, so
    that it is the agent's own commit that is amended or rebased. The branch's log keeps what it was."""
    return tip == session.tip or ledger.git.is_ancestor(tip, new)


def is_dirty(ledger: Ledger, session: Session) -> bool:
    """Whether a worktree holds something that is not in its commit."""
    head = head_of(ledger, session)
    saving.check_savable(ledger, session)
    told = landing.scratch(ledger, session)
    return not head or saving.tree_of_files(ledger, session, head, False, told) != ledger.git.tree_of(head, told)


# ---- The end ----


def end(ledger: Ledger, name: str, with_ignored: bool = False, delete_branch: bool = False) -> Ended:
    """Put all work on the branch, see that it is there, then take the worktree away. If not, everything stays."""
    session = ledger.settled(name)
    if delete_branch:
        _check_deletable(ledger, session)
    claimed = ledger.claim(name)
    try:
        if session.state is State.ENDED:
            tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
            ended = Ended(session, tip, False, 0)
        elif not ledger.has("worktrees", name):
            ended = _bury(ledger, session)
        else:
            ended = _save_and_remove(ledger, session, with_ignored)
        return _without_branch(ledger, ended) if delete_branch else ended
    finally:
        os.close(claimed)


def _check_deletable(ledger: Ledger, session: Session) -> None:
    branch = session.branch
    if not ledger.git.commit_of(f"refs/heads/{branch}"):
        raise SessionError(Fault.BRANCH_UNKNOWN, session.name, f"there is no branch {branch} to delete")
    elsewhere = {one.branch for one in worktrees.listed(ledger) if one.path != session.worktree}
    used = elsewhere | {head_branch(ledger.common), session.base}
    if branch in used or branch == session.base:
        what = f"{branch} is checked out, or is the branch it started from"
        raise SessionError(Fault.DELETE_BRANCH_BLOCKED, session.name, what, "end it without --delete-branch")


def _bury(ledger: Ledger, session: Session) -> Ended:
    """The end of a session whose worktree somebody removed: what it had committed is kept."""
    if ledger.has("git", session.name):
        head = _bring_all(ledger, session)
        session = _moved(ledger, session, head) if head else session
    ledger.remove_own(session)
    tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
    return Ended(ledger.write(replace(session, state=State.ENDED, tip=tip or session.tip)), tip, False, 0)


def _save_and_remove(ledger: Ledger, session: Session, with_ignored: bool) -> Ended:
    try:
        session = ledger.write(replace(session, state=State.ENDING))
        session, commit, made = _save(ledger, session, with_ignored)
        ledger.move(session.name, "worktrees", "trash")  # nobody finds it by its path while it is compared
        ignored = saving.verify(ledger, session, commit, with_ignored)
        ledger.write(replace(session, state=State.SAVED, tip=commit))
    except (SessionError, WorkspaceError, OSError) as error:
        put_back(ledger, session)
        if isinstance(error, SessionError) and error.fault is not Fault.GIT_FAILED:
            raise
        raise saving.unsaved(session.name, f"its work could not be saved: {error}", session) from error
    except BaseException:
        put_back(ledger, session)
        raise
    return Ended(bury_saved(ledger, replace(session, tip=commit)), commit, made, ignored)


def _save(ledger: Ledger, session: Session, with_ignored: bool) -> tuple[Session, str, bool]:
    """The work of a session as a commit on its branch."""
    saving.check_savable(ledger, session, with_ignored)
    head = _bring_all(ledger, session) or ledger.git.commit_of(f"refs/heads/{session.branch}")
    tree = saving.tree_of_files(ledger, session, head, with_ignored)
    commit, made = head, not head or tree != ledger.git.tree_of(head)
    if made:
        message = saving.MESSAGE.format(name=session.name)
        commit = saving.commit_tree(ledger, session, tree, (head,) if head else (), message)
    landing.check_whole(ledger, session, [commit])
    return _moved(ledger, session, commit), commit, made


def _moved(ledger: Ledger, session: Session, commit: str) -> Session:
    """Put a session's last commit on its branch; on another one if somebody moved the branch elsewhere."""
    tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
    if tip and not _is_ours(ledger, session, tip, commit):
        session = replace(session, branch=_free_branch(ledger, session.branch))
        tip = ""
    if commit != tip:
        ledger.git.move_branch(session.branch, commit, tip, f"session {session.name} ended")
    return session


def _free_branch(ledger: Ledger, branch: str) -> str:
    number = 1
    while ledger.git.commit_of(f"refs/heads/{branch}-saved-{number}"):
        number += 1
    return f"{branch}-saved-{number}"


def put_back(ledger: Ledger, session: Session) -> None:
    """Undo an end that was not finished: the worktree stands where it stood."""
    if ledger.has("trash", session.name) and not ledger.has("worktrees", session.name):
        ledger.move(session.name, "trash", "worktrees")
    ledger.write(replace(session, state=State.ACTIVE))


def bury_saved(ledger: Ledger, session: Session) -> Session:
    """Remove what is left of a session whose work is on its branch."""
    ledger.remove_own(session)
    ledger.remove("trash", session.name)
    return ledger.write(replace(session, state=State.ENDED))


def _without_branch(ledger: Ledger, ended: Ended) -> Ended:
    tip = ledger.git.commit_of(f"refs/heads/{ended.session.branch}")
    if tip:
        ledger.git.move_branch(ended.session.branch, "", tip, "")
    landing.keep_others(ledger, ended.session, {})
    ledger.forget(ended.session.name)
    return replace(ended, commit=tip or ended.commit, deleted=True)


# ---- Recovery ----


def recover(ledger: Ledger) -> list[str]:
    """Finish or undo what was interrupted; what was done, as sentences. One that cannot be helped stops no other."""
    said: list[str] = []
    for name in ledger.names():
        try:
            said += _recovered(ledger, _read(ledger, name, said))
        except (RingfenceError, OSError) as error:
            said.append(f"{name}: could not be put right: {error}")
    return said


def _read(ledger: Ledger, name: str, said: list[str]) -> Session:
    try:
        return ledger.get(name)
    except SessionError as error:
        if not rebuilding.is_damaged(error):
            raise
        said.append(rebuilding.rebuild(ledger, name, error))
        return ledger.get(name)


def _recovered(ledger: Ledger, session: Session) -> list[str]:
    name = session.name
    if session.state is State.STARTING:
        roll_back(ledger, session)
        return [f"{name}: was not fully started, and is taken away"]
    if session.state is State.ENDING:
        put_back(ledger, session)
        return [f"{name}: its end was interrupted; all of it is in {session.worktree}"]
    if session.state is State.SAVED:
        bury_saved(ledger, session)
        return [f"{name}: had ended; its work is on {session.branch}"]
    if session.state is State.MERGING:
        merging.undo(ledger, session)
        return [f"{name}: its merge was interrupted, and is undone"]
    return []


def prune(ledger: Ledger) -> list[str]:
    """Forget ended sessions whose branch is gone or merged, and what is left of worktrees that were removed by hand."""
    said = []
    for session in ledger.sessions():
        name = session.name
        tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
        if session.state is State.ACTIVE and not ledger.has("worktrees", name):
            _bury(ledger, session)
            said.append(f"{name}: its worktree was removed by hand; {session.branch} is kept")
        elif session.state is State.ENDED and (not tip or _is_merged(ledger, session, tip)):
            ledger.forget(name)
            said.append(f"{name}: forgotten" + (f"; {session.branch} is kept, and merged" if tip else ""))
    known = {f"{SESSION_PREFIX}{name}" for name in ledger.names()}
    fd = paths.open_directory("worktrees", ledger.common)
    try:
        for phantom in sorted(one for one in os.listdir(fd) if one.startswith(SESSION_PREFIX) and one not in known):
            if not ledger.has("worktrees", phantom.removeprefix(SESSION_PREFIX)):
                paths.remove_tree(fd, phantom)
                said.append(f"{phantom}: a worktree that nobody knows, and that is not there; removed")
    finally:
        os.close(fd)
    return said


def _is_merged(ledger: Ledger, session: Session, tip: str) -> bool:
    """Whether its base has all that a session left; a stash is never in it."""
    base = ledger.git.commit_of(f"refs/heads/{session.base}") if session.base else ""
    left = (tip, *private.kept_refs(ledger, session).values())
    return bool(base) and all(ledger.git.is_ancestor(one, base) for one in left)
