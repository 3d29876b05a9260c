"""The repository of a session's own: HEAD, index, refs, stash, logs and the objects that it adds.

Of the project's it reads the objects, the hooks and the configuration, and writes nothing. So nothing that one session
commits, stashes or breaks is there for another, until a person ends or merges it (`landing`):

    <ledger>/git/<name>/                        config, hooks/, info/: nobody writes them
                       /refs/, logs/, packed/   packed-refs is a link to the last: git makes its lock beside where that
                                                leads, and not beside the configuration
                       /objects/                its own; info/alternates names the project's
                       /worktrees/ringfence@…/  HEAD and index of the worktree: a linked worktree, as git makes them
    <project>/.git/worktrees/ringfence@…/       tells the project's git that there is a worktree; we alone write it

Its commands write most of it. We read texts from it without following a link, and objects only through git.
"""

import os

from ..model import SessionError, WorkspaceError
from ..model.session import Fault, Session
from . import paths, refs
from .git import put_new, render_settings
from .ledger import Ledger
from .repository import make_directories

_FORMAT = ("core.repositoryformatversion", "extensions.objectformat", "extensions.compatobjectformat")
# Nobody may write the configuration, so git is not to try: to collect garbage it needs a lock beside it.
_LAST = (("core.bare", "false"), ("branch.autosetupmerge", "false"), ("gc.auto", "0"), ("maintenance.auto", "false"))
_OURS = ("core.filemode", "core.ignorecase", "core.symlinks", "core.sparsecheckout", "core.sparsecheckoutcone")


def config_for(ledger: Ledger) -> str:
    """The configuration of a new one: the project's as it will be, around what git reads without includes. Its hooks
    are the project's, if that has not put them elsewhere itself."""
    common = ledger.repository.common
    format_ = [(key, value) for key, value in ledger.git.settings if key in (*_FORMAT, *_OURS)]
    first = [*format_, ("core.hookspath", f"{common}/hooks"), ("core.logallrefupdates", "true")]
    if paths.exists_beneath(ledger.common, "lfs"):
        first.append(("lfs.storage", f"{common}/lfs"))
    last = [("include.path", f"{common}/config"), *_LAST]
    return render_settings([*first, *last])


def make(ledger: Ledger, session: Session, commit: str) -> None:
    """A repository in which nobody has worked yet: on the session's branch, with the project's refs."""
    home = make_directories(ledger.home, f"git/{session.name}", 0o755)
    try:
        for name in ("hooks", "info", "logs", "packed", "refs/heads", "refs/tags", "objects/info", "objects/pack"):
            os.close(make_directories(home, name, 0o777))
        put_new(home, "config", session.config.encode("utf-8", "surrogateescape"))
        put_new(home, "HEAD", b"ref: refs/heads/ringfence/@\n")  # a branch nobody has: here is no worktree
        put_new(home, "objects/info/alternates", os.fsencode(f"{session.common}/objects\n"))
        for name in ("info/exclude", "info/attributes", "shallow"):
            if paths.exists_beneath(ledger.common, name):
                put_new(home, name, paths.read_beneath(ledger.common, name))
        _give_refs(ledger, session, home, commit)
        _make_own(ledger, session, home)
    finally:
        os.close(home)


def _make_own(ledger: Ledger, session: Session, home: int) -> None:
    own = make_directories(home, f"worktrees/{session.id}", 0o777)
    try:
        put_new(own, "HEAD", f"ref: refs/heads/{session.branch}\n".encode())
        put_new(own, "commondir", b"../..\n")
        put_new(own, "gitdir", os.fsencode(f"{session.worktree}/.git\n"))
        if paths.exists_beneath(ledger.common, "info/sparse-checkout"):
            os.mkdir("info", 0o777, dir_fd=own)
            put_new(own, "info/sparse-checkout", paths.read_beneath(ledger.common, "info/sparse-checkout"))
    finally:
        os.close(own)


# ---- The project's refs, and what is kept of the session's ----


def project_refs(ledger: Ledger) -> tuple[refs.Refs, refs.Refs]:
    """What a session is given: refs with their values, and those that stand for another, with that."""
    words = ("--format=%(objectname) %(refname) %(symref)", *(top.rstrip("/") for top in refs.GIVEN))
    plain, symbolic = {}, {}
    for value, name, target in _rows(ledger, *words):
        if target:
            symbolic[name] = target
        elif not name.startswith(refs.APART):
            plain[name] = value
    return plain, symbolic


def _rows(ledger: Ledger, *words: str) -> list[list[str]]:
    """Refs as git lists them. A name may hold letters at which Python ends a line and git does not."""
    return [os.fsdecode(line).split(" ") for line in ledger.git.call("for-each-ref", *words).split(b"\n")[:-1]]


def _give_refs(ledger: Ledger, session: Session, home: int, commit: str) -> None:
    given, symbolic = project_refs(ledger)
    ledger.replace("given", session.name, refs.render(given))
    put_new(home, refs.PACKED, refs.render(given))
    os.symlink(refs.PACKED, "packed-refs", dir_fd=home)
    kept = kept_refs(ledger, session)
    stash = [value for name, value in sorted(kept.items()) if name.startswith(f"{refs.STASH}/")]
    main = f"refs/heads/{session.branch}"
    loose = {name: value for name, value in kept.items() if refs.is_kept(name)}
    loose = refs.fitting(loose, (main, *symbolic)) | {main: commit}
    for name, text in (*loose.items(), *((name, f"ref: {target}") for name, target in symbolic.items())):
        _write(home, name, f"{text}\n")
    if stash:
        _write(home, refs.STASH, f"{stash[-1]}\n")
        _write(home, f"logs/{refs.STASH}", _stash_log(ledger, stash))


def _write(home: int, path: str, text: str) -> None:
    above = path.rpartition("/")[0]
    os.close(make_directories(home, above, 0o777))
    put_new(home, path, os.fsencode(text))


def _stash_log(ledger: Ledger, stash: list[str]) -> str:
    rows = []
    for old, new in zip(["0" * len(stash[0]), *stash], stash, strict=False):
        about = ledger.git.call("log", "-1", "--no-show-signature", "--format=%cn <%ce> %ct +0000%x09%s", new)
        rows.append(f"{old} {new} {os.fsdecode(about).strip()}\n")
    return "".join(rows)


def kept_place(session: Session) -> str:
    """Where the project keeps the other refs of a session."""
    return f"refs/ringfence/{session.name}/"


def kept_refs(ledger: Ledger, session: Session) -> refs.Refs:
    """The refs and stash entries that an earlier end kept, by the name they have in the session."""
    place = kept_place(session)
    rows = _rows(ledger, "--format=%(objectname) %(refname)", place)
    return {f"refs/{name.removeprefix(place)}": value for value, name in rows}


def given_refs(ledger: Ledger, session: Session) -> refs.Refs:
    """What a session was last given; nothing where that is lost, and then all it has counts as its own."""
    path = f"given/{session.name}"
    if not paths.exists_beneath(ledger.home, path):
        return {}
    return refs.parse(paths.read_beneath(ledger.home, path, refs.MOST))


def fingerprint(common: str) -> str:
    """Changes whenever a ref of the project does: its packed file, and the directories of the others."""
    import hashlib

    made = hashlib.sha256()
    waiting = [f"{common}/packed-refs", *(f"{common}/{top.rstrip('/')}" for top in refs.GIVEN)]
    while waiting:
        path = waiting.pop()
        if path == f"{common}/{refs.APART.rstrip('/')}":
            continue
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        made.update(os.fsencode(f"{path}\0{facts.st_ino} {facts.st_mtime_ns}\n"))
        if path.startswith(f"{common}/refs/"):
            with os.scandir(path) as entries:
                waiting += sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    return made.hexdigest()[:32]


def refresh(ledger: Ledger, session: Session) -> bool:
    """Show a session the project's refs as they are now; whether that was possible: under git's own lock."""
    home = paths.open_directory(f"git/{session.name}", ledger.home)
    try:
        try:
            lock = paths.open_beneath(home, f"{refs.PACKED}.lock", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except WorkspaceError:
            return False
        try:
            given = given_refs(ledger, session)
            new, _ = project_refs(ledger)
            now = refs.parse(paths.read_beneath(home, refs.PACKED, refs.MOST))
            with open(lock, "wb") as file:
                file.write(refs.render(refs.refreshed(now, given, new)))
            ledger.replace("given", session.name, refs.render(new))
            os.rename(f"{refs.PACKED}.lock", refs.PACKED, src_dir_fd=home, dst_dir_fd=home)
        except BaseException:
            os.unlink(f"{refs.PACKED}.lock", dir_fd=home)
            raise
    finally:
        os.close(home)
    return True


# ---- Where it stands ----


def head_of(ledger: Ledger, session: Session) -> str:
    """The object that a worktree's HEAD names, whether it is there or not; empty: none yet."""
    path = f"{session.own}/HEAD"
    home = paths.open_directory(f"git/{session.name}", ledger.home)
    try:
        text = os.fsdecode(paths.read_beneath(home, f"worktrees/{session.id}/HEAD", 4096)).strip()
        name = text.removeprefix("ref: ")
        if name == text and refs.is_object(text):
            return text
        if name == text or not refs.is_name(name):
            raise SessionError(Fault.UNSAFE, path, f"says {text[:80]!r}")
        return refs.read_one(home, name) or refs.read(home).get(name, "")
    finally:
        os.close(home)


def read_at(path: str) -> str:
    """The text of a small regular file by an absolute path without any link in it."""
    above, _, name = path.rpartition("/")
    fd = paths.open_directory(above)
    try:
        return os.fsdecode(paths.read_beneath(fd, name, 1 << 16)).strip()
    finally:
        os.close(fd)


def check_pointers(session: Session) -> None:
    """Refuse a session whose ties lead elsewhere: a command in it may have turned them, where there is no view."""
    for path, wanted in (
        (f"{session.own}/commondir", "../.."),
        (f"{session.own}/gitdir", f"{session.worktree}/.git"),
        (f"{session.worktree}/.git", f"gitdir: {session.own}"),
        (f"{session.git}/config", session.config.strip()),
    ):
        _check_text(path, wanted)
    check_lender(session)


def check_lender(session: Session) -> None:
    """Refuse a session whose store of objects takes those of a stranger for its own."""
    _check_text(f"{session.git}/objects/info/alternates", f"{session.common}/objects")


def _check_text(path: str, wanted: str) -> None:
    try:
        said = read_at(path)
    except WorkspaceError as error:
        raise SessionError(Fault.UNSAFE, path, error.what, f"it must say: {wanted}") from None
    if said != wanted:
        raise SessionError(Fault.UNSAFE, path, f"leads elsewhere: {said[:200]!r}", f"it must say: {wanted}")


def check_objects(ledger: Ledger, session: Session) -> None:
    """Refuse a store of objects in which git could be made to wait, or to read something else."""
    fd = paths.open_directory(f"git/{session.name}/objects", ledger.home)
    try:
        for entry, _ in paths.walk(fd):
            if not (entry.is_regular or entry.is_directory):
                what = "is neither a file nor a directory, and git would follow it"
                raise SessionError(Fault.UNSAFE, f"{session.git}/objects/{entry.path}", what, "look who made it")
    finally:
        os.close(fd)
