"""Making a worktree, and asking git which there are.

Made by hand, name by name, because `git worktree add` would run in the repository's own configuration; what comes out
is what git makes. Its HEAD is no branch: the session's branch lies in a directory that all sessions share, so none may
write there, and we move the branch after its HEAD (docs/sessions.md).
"""

import os

import msgspec

from ..model import SessionError, WorkspaceError
from ..model.session import Fault, Session
from . import paths
from .git import write_new
from .ledger import Ledger
from .repository import make_directories

_SPARSE = ("core.sparsecheckout", "core.sparsecheckoutcone")


class Listed(msgspec.Struct, frozen=True):
    """One worktree, as git lists it."""

    path: str
    head: str = ""
    branch: str = ""
    locked: bool = False
    prunable: bool = False


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
            flags = ("locked" in fields, "prunable" in fields)
            found.append(Listed(fields["worktree"], fields.get("HEAD", ""), branch, *flags))
    return found


def listed(ledger: Ledger) -> list[Listed]:
    """Every linked worktree that git knows; the first of git's list is the main one."""
    return parse_list(ledger.git.call("worktree", "list", "--porcelain", "-z"))[1:]


def make(ledger: Ledger, session: Session, commit: str) -> None:
    """The worktree's git directory, the worktree, and its files. Nothing of it may be there yet."""
    own = f"{ledger.repository.common}/worktrees/{session.id}"
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
            ("HEAD", f"{commit}\n"),
            ("commondir", "../..\n"),
            ("gitdir", f"{session.worktree}/.git\n"),
            ("config.worktree", _sparse_settings(ledger)),
        ):
            write_new(fd, name, os.fsencode(text), 0o666)
        _copy_sparse(ledger, fd)
        place = make_directories(ledger.home, f"worktrees/{session.name}", 0o755)
        try:
            write_new(place, ".git", os.fsencode(f"gitdir: {own}\n"), 0o666)
        finally:
            os.close(place)
        index = f"{own}/index"
        ledger.git.call("read-tree", "-m", "-u", commit, own=own, worktree=session.worktree, index=index)
        os.unlink("locked", dir_fd=fd)
    finally:
        os.close(fd)


def _sparse_settings(ledger: Ledger) -> str:
    """Whether the project is checked out in part. The file is made in any case: what exists can be protected."""
    rows = [f"    {key.partition('.')[2]} = {value}\n" for key, value in ledger.git.settings if key in _SPARSE]
    return "[core]\n" + "".join(rows) if rows else ""


def _copy_sparse(ledger: Ledger, own: int) -> None:
    """The pattern of a partial checkout."""
    if paths.exists_beneath(ledger.common, "info/sparse-checkout"):
        content = paths.read_beneath(ledger.common, "info/sparse-checkout")
        os.mkdir("info", 0o777, dir_fd=own)
        write_new(own, "info/sparse-checkout", content, 0o666)


def read_at(path: str) -> str:
    """The text of a small regular file by an absolute path without any link in it."""
    above, _, name = path.rpartition("/")
    fd = paths.open_directory(above)
    try:
        return os.fsdecode(paths.read_beneath(fd, name, 8192)).strip()
    finally:
        os.close(fd)


def check_pointers(session: Session) -> None:
    """Refuse a worktree whose ties lead elsewhere: a command in it may have turned them, where there is no view."""
    own = f"{session.common}/worktrees/{session.id}"
    for path, wanted in (
        (f"{own}/commondir", "../.."),
        (f"{own}/gitdir", f"{session.worktree}/.git"),
        (f"{session.worktree}/.git", f"gitdir: {own}"),
    ):
        try:
            said = read_at(path)
        except WorkspaceError as error:
            raise SessionError(Fault.UNSAFE, path, error.what, f"it must say: {wanted}") from None
        if said != wanted:
            raise SessionError(Fault.UNSAFE, path, f"leads elsewhere: {said[:200]!r}", f"it must say: {wanted}")
    if alternates(session.common) != session.alternates:
        path = f"{session.common}/objects/info/alternates"
        raise SessionError(Fault.UNSAFE, path, "names other repositories than before", "look who wrote it")


def alternates(common: str) -> str:
    """The repositories whose objects count as this one's, as git's file names them."""
    path = f"{common}/objects/info/alternates"
    return read_at(path) if os.path.lexists(path) else ""


def has_moved(session: Session) -> bool:
    """Whether a worktree stands elsewhere than its branch, as we last left it."""
    return read_at(f"{session.common}/worktrees/{session.id}/HEAD") != session.tip


def check_listed(ledger: Ledger, session: Session) -> None:
    """A session's worktree stands where it must, and git knows it."""
    if not ledger.has("worktrees", session.name):
        hint = f"`ringfence session end {session.name}` keeps its branch"
        raise SessionError(Fault.NOT_FOUND, session.worktree, "the worktree is gone", hint)
    if not paths.exists_beneath(ledger.common, f"worktrees/{session.id}"):
        what = "git does not know this worktree any more"
        raise SessionError(Fault.NOT_FOUND, session.worktree, what, "copy what you need, then `session end`")
    check_pointers(session)
    if session.worktree not in {one.path for one in listed(ledger)}:
        raise SessionError(Fault.NOT_FOUND, session.worktree, "git does not list this worktree")


def head_of(ledger: Ledger, session: Session) -> str:
    """The commit a worktree stands at, read by us: its git directory is the command's to write. Empty: at none yet."""
    path = f"worktrees/{session.id}/HEAD"
    text = os.fsdecode(paths.read_beneath(ledger.common, path, 4096)).strip()
    name = text.removeprefix("ref: ")
    if name != text and not name.startswith("refs/"):
        raise SessionError(Fault.UNSAFE, f"{ledger.repository.common}/{path}", f"says {text[:80]!r}")
    if name == text and not (len(text) in (40, 64) and set(text) <= set("0123456789abcdef")):
        raise SessionError(Fault.UNSAFE, f"{ledger.repository.common}/{path}", f"says {text[:80]!r}")
    commit = ledger.git.commit_of(name)
    if not commit and name == text:
        raise SessionError(Fault.UNSAFE, f"{ledger.repository.common}/{path}", "names no commit")
    return commit
