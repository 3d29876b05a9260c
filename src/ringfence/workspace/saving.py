"""Nothing is lost: what a worktree holds becomes a commit, and the commit is compared with the files, byte by byte.

The worktree and its git directory are the command's to write, so neither its index nor its git directory is used here:
the index is our own and new, which also leaves a lock behind that somebody forgot, and a file marked as unchanged that
is not.
"""

import os
from collections.abc import Mapping

from ..model import SessionError, WorkspaceError
from ..model.session import Fault, Session
from . import paths
from .git import DURABLE, DURABLE_LOOSE
from .ledger import Ledger

MESSAGE = "WIP: saved by ringfence at the end of session {name}\n"
_READ_BY_GIT = (".gitignore", ".gitattributes", ".gitmodules")


def unsaved(place: object, what: str, session: Session) -> SessionError:
    return SessionError(Fault.UNSAVED, place, what, f"all of it stays in {session.worktree}")


def check_savable(ledger: Ledger, session: Session, with_ignored: bool = False) -> None:
    """Refuse what a commit cannot hold, or what git would wait for."""
    fd = paths.open_directory(f"worktrees/{session.name}", ledger.home)
    try:
        for entry, _ in paths.walk(fd, frozenset({".git"})):
            above, _, name = entry.path.rpartition("/")
            if above and name.lower() == ".git" and (with_ignored or not _is_ignored(ledger, session, above)):
                what = "is a repository of its own inside the worktree, and a commit would not hold its content"
                raise unsaved(f"{session.worktree}/{above}", what, session)
            if name in _READ_BY_GIT and not (entry.is_regular or entry.is_link):
                raise unsaved(
                    f"{session.worktree}/{entry.path}", "is not a regular file, and git would read it", session
                )
    except OSError as error:
        raise unsaved(session.worktree, f"cannot be looked through: {error}", session) from None
    finally:
        os.close(fd)


def _is_ignored(ledger: Ledger, session: Session, path: str) -> bool:
    """Whether a directory is ignored whole, as a dependency's own repository in node_modules is."""
    words = ("check-ignore", "--no-index", "-q", "--", f"./{path}")  # it takes no literal paths, so no magic word first
    told = {"GIT_LITERAL_PATHSPECS": "0"}
    done = ledger.git.done(*words, worktree=session.worktree, good=(0, 1, 128), environ=told)
    return done.returncode == 0


def tree_of_files(
    ledger: Ledger, session: Session, head: str, with_ignored: bool, environ: Mapping[str, str] = DURABLE_LOOSE
) -> str:
    """The files of a worktree as a tree, in an index of our own. `environ` says where git puts the objects."""

    def call(*words: str, data: bytes = b"") -> bytes:
        index = f"{ledger.place}/mirror/saving"
        return ledger.git.call(*words, data=data, worktree=session.worktree, index=index, environ=environ)

    if head:
        call("read-tree", "-m", head)
    is_sparse = any(key == "core.sparsecheckout" for key, _ in ledger.git.settings)
    call("add", "--update" if is_sparse else "--all", *(["--force"] if with_ignored else []), "--", ".")
    if is_sparse:  # then git adds nothing outside the patterns; what is there counts, and what is not there stays
        words = ("ls-files", "-z", "--modified", "--others", *(() if with_ignored else ("--exclude-standard",)))
        found = (path for path in call(*words).split(b"\0")[:-1] if _is_there(session, path))
        call("update-index", "--add", "--replace", "-z", "--stdin", data=b"".join(path + b"\0" for path in found))
    links = [one.path for one in session.dependencies if not one.copied and _is_our_link(ledger, session, one.path)]
    if links:
        call("update-index", "--force-remove", "--", *links)
    return call("write-tree").decode().strip()


def _is_there(session: Session, path: bytes) -> bool:
    return os.path.lexists(os.path.join(os.fsencode(session.worktree), path))


def _is_our_link(ledger: Ledger, session: Session, path: str) -> bool:
    place = f"{session.worktree}/{path}"
    return os.path.islink(place) and os.readlink(place) == f"{ledger.repository.top}/{path}"


def commit_tree(ledger: Ledger, session: Session, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A commit by our user, without hooks and signatures."""
    name, email = (ledger.git.identity.get(f"user.{key}", "") for key in ("name", "email"))
    if not name or not email:
        what = "git does not know who you are, and a commit needs a name and an address"
        hint = f"git config --global user.name …, and user.email; all work stays in {session.worktree}"
        raise SessionError(Fault.UNSAVED, "user.name and user.email", what, hint)
    who = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", name), ("EMAIL", email))
    }
    words = [word for parent in parents for word in ("-p", parent)]
    told = ledger.git.call("commit-tree", tree, *words, data=message.encode(), environ=who | DURABLE)
    return told.decode().strip()


# ---- Verification ----


def verify(ledger: Ledger, session: Session, commit: str, with_ignored: bool) -> int:
    """Compare every file of a session in the trash with the commit; how many ignored ones are not in it."""
    place = f"{ledger.place}/trash/{session.name}"
    held = _entries(ledger, commit)
    left_out = set() if with_ignored else _ignored(ledger, place)
    links = {one.path for one in session.dependencies if not one.copied}
    left_out |= {path for path in links if os.path.islink(f"{place}/{path}")}
    doubtful = []
    fd = paths.open_directory(f"trash/{session.name}", ledger.home)
    try:
        for entry, parent in paths.walk(fd, frozenset({".git", *left_out})):
            if entry.path == ".git" or entry.path in left_out or not (entry.is_regular or entry.is_link):
                continue
            mode, wanted = held.get(entry.path, ("", ""))
            if not wanted or _digest(entry, parent, len(wanted)) != wanted:
                doubtful.append((entry.path, wanted))
            elif entry.is_link != (mode == "120000"):
                raise unsaved(f"{place}/{entry.path}", "is of another kind than in the commit", session)
    finally:
        os.close(fd)
    for path, wanted in doubtful:
        if not wanted or not _comes_back(ledger, place, path, wanted):
            raise unsaved(f"{session.worktree}/{path}", "is not in the commit as it is on the disk", session)
    return len(left_out)


def _entries(ledger: Ledger, commit: str) -> dict[str, tuple[str, str]]:
    """Every file of a commit: its mode and its object."""
    found = {}
    for row in ledger.git.call("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        facts, _, path = row.partition(b"\t")
        mode, kind, name = facts.decode().split(" ")
        if kind == "blob":
            found[os.fsdecode(path)] = (mode, name)
    return found


def _ignored(ledger: Ledger, place: str) -> set[str]:
    """What is ignored and in no commit; a directory of which that is true of everything, by its name alone."""
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    rows = ledger.git.call(*words, worktree=place, index=f"{ledger.place}/mirror/saving")
    return {os.fsdecode(path).rstrip("/") for path in rows.split(b"\0")[:-1]}


def _digest(entry: paths.Entry, parent: int, length: int) -> str:
    """The name git would give to the bytes of a file as they are."""
    import hashlib

    name = entry.path.rpartition("/")[2]
    made = hashlib.sha256() if length == 64 else hashlib.sha1(usedforsecurity=False)
    if entry.is_link:
        content = os.fsencode(os.readlink(name, dir_fd=parent))
        made.update(b"blob %d\0" % len(content) + content)
        return made.hexdigest()
    fd = os.open(name, os.O_RDONLY | paths.CAREFUL, dir_fd=parent)
    try:
        made.update(b"blob %d\0" % os.fstat(fd).st_size)
        while piece := os.read(fd, 1 << 20):
            made.update(piece)
        return made.hexdigest()
    finally:
        os.close(fd)


def _comes_back(ledger: Ledger, place: str, path: str, wanted: str) -> bool:
    """Whether checking the file out again gives the bytes on the disk, where line ends are converted."""
    fd = paths.open_directory(place)
    try:
        now = paths.read_beneath(fd, path, 1 << 30)
    except WorkspaceError:
        return False
    finally:
        os.close(fd)
    back = ledger.git.call("cat-file", "--filters", f"--path={path}", wanted, worktree=place)
    return back == now
