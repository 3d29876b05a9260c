"""Merging a session into the branch it started from: in objects alone first, so that a conflict changes nothing.

Only when there is a merge is it put in place: the files of the main working tree, if they show that branch, by git's
own two-way merge, which refuses to touch what is not committed; then the branch.
"""

import errno
import os

import msgspec

from ..model import SessionError, WorkspaceError
from ..model.session import Fault, Session, State
from . import paths, saving, worktrees
from .git import check_branch, put_new
from .ledger import Ledger
from .repository import head_branch

replace = msgspec.structs.replace


class Merged(msgspec.Struct, frozen=True):
    """What a merge did."""

    into: str
    before: str
    after: str


def merge(ledger: Ledger, session: Session, into: str) -> Merged:
    """Merge a session's branch, or change nothing."""
    into = check_branch(ledger.git, into) if into else session.base
    if not into:
        what = "it started from no branch"
        raise SessionError(Fault.BRANCH_UNKNOWN, session.name, what, "name one with --into")
    tip = ledger.git.commit_of(f"refs/heads/{session.branch}")
    old = ledger.git.commit_of(f"refs/heads/{into}")
    if not tip or not old:
        raise SessionError(Fault.BRANCH_UNKNOWN, into if tip else session.branch, "there is no such branch")
    if into in {one.branch for one in worktrees.listed(ledger)}:
        raise SessionError(Fault.BRANCH_IN_USE, into, "is checked out in another worktree", "merge it there")
    new = _merged(ledger, session, old, tip, into)
    if new != old:
        _put_in_place(ledger, session, into, old, new)
    return Merged(into, old, new)


def _merged(ledger: Ledger, session: Session, old: str, tip: str, into: str) -> str:
    """The commit that has both: one of the two where that is enough."""
    if ledger.git.is_ancestor(tip, old):
        return old
    if ledger.git.is_ancestor(old, tip):
        return tip
    done = ledger.git.done("merge-tree", "--write-tree", "--name-only", "-z", old, tip, good=(0, 1))
    tree, *rest = done.stdout.split(b"\0")
    if done.returncode:
        names = [os.fsdecode(name) for name in rest[: rest.index(b"")]] if b"" in rest else []
        what = f"conflicts with {into} in {', '.join(dict.fromkeys(names)) or 'several files'}"
        hint = f"rebase or merge {into} in the session, and try again; nothing was changed"
        raise SessionError(Fault.CONFLICT, session.branch, what, hint)
    message = f"Merge session {session.name} into {into}\n"
    return saving.commit_tree(ledger, session, tree.decode().strip(), (old, tip), message)


def _put_in_place(ledger: Ledger, session: Session, into: str, old: str, new: str) -> None:
    shown = not ledger.repository.is_bare and head_branch(ledger.common) == into
    before = session
    if shown:
        # The record keeps from where to where, so that files which changed before the branch did are put back.
        session = ledger.write(replace(session, state=State.MERGING, merging=(into, old, new, before.state.value)))
        try:
            update_files(ledger, old, new)
        except BaseException:
            undo(ledger, session)
            raise
    try:
        ledger.git.move_branch(into, new, old, f"session {session.name} merged")
    except BaseException:
        if shown:
            undo(ledger, session)
        raise
    if shown:
        ledger.write(before)


def update_files(ledger: Ledger, old: str, new: str) -> None:
    """Bring the main working tree from one commit to another, keeping what is not committed, or change nothing.

    The index is git's own file in a directory that commands in the main tree may write: it is copied, and the new one
    put in its place under git's own lock, so that no link planted there is followed.
    """
    _lock_index(ledger)
    try:
        index = f"{ledger.place}/mirror/main"
        if paths.exists_beneath(ledger.common, "index"):
            _copy_index(ledger, index)
        top = ledger.repository.top
        ledger.git.call("update-index", "-q", "--refresh", worktree=top, index=index, good=(0, 1))
        ledger.git.call("read-tree", "-m", "-u", old, new, worktree=top, index=index)
        with open(index, "rb") as made:
            _replace_index(ledger, made.read(), os.fstat(made.fileno()).st_mtime_ns)
    except SessionError as error:
        what = f"the main working tree cannot take it: {error.what}"
        raise SessionError(Fault.DIRTY, ledger.repository.top, what, "commit or stash there first") from error
    finally:
        _unlock_index(ledger)


_LOCKED_BY_US = b"ringfence\n"  # what our lock says, so that we know it after an interruption
_NEW_INDEX = "index.ringfence"
AT_ONCE = 100  # paths on a line of git's, of 4 KiB at most each


def _lock_index(ledger: Ledger) -> None:
    """Git's own lock. It says at once that it is ours: an empty one, as a full disk or our death would leave it between
    its making and its writing, nobody would take away."""
    try:
        _put_whole(ledger, "index.lock", _LOCKED_BY_US)
    except (FileExistsError, WorkspaceError):
        place = f"{ledger.repository.common}/index.lock"
        hint = "another git is at work in the main tree; remove the file if none is"
        raise SessionError(Fault.LOCKED, place, "exists", hint) from None


def _put_whole(ledger: Ledger, name: str, content: bytes) -> None:
    _remove_new(ledger)
    try:
        put_new(ledger.common, _NEW_INDEX, content)
        os.link(_NEW_INDEX, name, src_dir_fd=ledger.common, dst_dir_fd=ledger.common, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):  # as file systems say it that have no links
            raise
        put_new(ledger.common, name, content)
    finally:
        _remove_new(ledger)


def _remove_new(ledger: Ledger) -> None:
    if paths.exists_beneath(ledger.common, _NEW_INDEX):  # left by an interruption
        os.unlink(_NEW_INDEX, dir_fd=ledger.common)


def _unlock_index(ledger: Ledger) -> None:
    """Remove our lock, and no other."""
    there = paths.exists_beneath(ledger.common, "index.lock")
    if there and paths.read_beneath(ledger.common, "index.lock", 1 << 30) == _LOCKED_BY_US:
        os.unlink("index.lock", dir_fd=ledger.common)


def _copy_index(ledger: Ledger, target: str) -> None:
    """The main index, with its time: git takes a file for unchanged that is older than the index it is in, and one that
    was changed within the same second as that would be overwritten."""
    content = paths.read_beneath(ledger.common, "index", 1 << 30)
    changed = os.stat("index", dir_fd=ledger.common, follow_symlinks=False).st_mtime_ns
    with open(target, "wb") as copy:
        copy.write(content)
    os.utime(target, ns=(changed, changed))


def _replace_index(ledger: Ledger, content: bytes, changed: int) -> None:
    _remove_new(ledger)
    fd = paths.open_beneath(ledger.common, _NEW_INDEX, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _write_all(fd, content)
        os.utime(fd, ns=(changed, changed))
    finally:
        os.close(fd)
    os.rename(_NEW_INDEX, "index", src_dir_fd=ledger.common, dst_dir_fd=ledger.common)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def undo(ledger: Ledger, session: Session) -> None:
    """After an interruption: files that went ahead of the branch go back. What somebody else changed stays."""
    into, old, new, state = session.merging
    if ledger.git.commit_of(f"refs/heads/{into}") == old and head_branch(ledger.common) == into:
        _unlock_index(ledger)
        changed = _changes(ledger, old, new)
        if _has_index_of(ledger, changed):
            update_files(ledger, new, old)
        else:
            _restore(ledger, old, changed)
    ledger.write(replace(session, state=State(state), merging=()))


Change = tuple[str, str, str]  # path, old object, new object; an object that is not there is empty


def _changes(ledger: Ledger, old: str, new: str) -> list[Change]:
    """What differs between two commits."""
    fields = ledger.git.call("diff-tree", "-r", "-z", "--no-renames", old, new).split(b"\0")
    found = []
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        _, _, before, after, _ = facts.decode().split(" ")
        objects = ["" if set(one) == {"0"} else one for one in (before, after)]
        found.append((os.fsdecode(path), *objects))
    return [(path, before, after) for path, before, after in found]


def _has_index_of(ledger: Ledger, changed: list[Change]) -> bool:
    """Whether the main index has the new state of all that changed already."""
    index = f"{ledger.place}/mirror/look"
    _copy_index(ledger, index)
    rows = ledger.git.call("ls-files", "--stage", "-z", worktree=ledger.repository.top, index=index).split(b"\0")[:-1]
    held = {os.fsdecode(row.partition(b"\t")[2]): row.split(b" ")[1].decode() for row in rows}
    return all(held.get(path, "") == after for path, _, after in changed)


def _objects_of(ledger: Ledger, changed: list[str]) -> dict[str, str]:
    """The objects that git would make of what stands at paths of the main working tree, of a link as it is written,
    wherever it leads; "?" is what git makes none of."""
    top = ledger.repository.top
    found = {path: "?" for path in changed if os.path.lexists(f"{top}/{path}")}
    links = [path for path in found if os.path.islink(f"{top}/{path}")]
    for path in links:
        said = os.fsencode(os.readlink(f"{top}/{path}"))
        found[path] = ledger.git.call("hash-object", "--stdin", data=said, worktree=top).decode().strip()
    files = [path for path in found if path not in links and os.path.isfile(f"{top}/{path}")]
    for start in range(0, len(files), AT_ONCE):
        some = files[start : start + AT_ONCE]
        told = ledger.git.call("hash-object", "--", *some, worktree=top).decode().split()
        found |= dict(zip(some, told, strict=True))
    return found


def _restore(ledger: Ledger, old: str, changed: list[Change]) -> None:
    """Give back the old content to each file that has the new one, or that git took away and did not write yet."""
    top, index = ledger.repository.top, f"{ledger.place}/mirror/restore"
    now = _objects_of(ledger, [path for path, _, _ in changed])
    for path, before, after in changed:
        if before != after and now.get(path, "") == after != "":
            _remove(top, path)
    # What had the place of a directory, or of a file, is gone now; what somebody else put there stays.
    back = [path for path, before, after in changed if before and before != after and _is_free(top, path)]
    ledger.git.call("read-tree", old, worktree=top, index=index)
    kept = b"".join(os.fsencode(path) + b"\0" for path in back)
    ledger.git.call("checkout-index", "-z", "--stdin", data=kept, worktree=top, index=index)


def _remove(top: str, path: str) -> None:
    """Remove a file, and with it the directories that nothing else is in, as git does."""
    *above, name = paths.names_below(path)
    fd = paths.open_directory("/".join((top, *above)))
    try:
        os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    while above:
        fd = paths.open_directory("/".join((top, *above[:-1])))
        try:
            os.rmdir(above.pop(), dir_fd=fd)
        except OSError:  # something is in it
            return
        finally:
            os.close(fd)


def _is_free(top: str, path: str) -> bool:
    """Whether nothing stands at a path, and nothing but directories on the way to it."""
    names = paths.names_below(path)
    for count in range(1, len(names)):
        place = "/".join((top, *names[:count]))
        if not os.path.lexists(place):
            return True
        if os.path.islink(place) or not os.path.isdir(place):
            return False
    return not os.path.lexists(f"{top}/{path}")
