"""The memory of approvals: one SQLite file for each user, outside every sandbox.

Several processes write it (WAL, one writer at a time); what is in it is checked again whenever it is read. A file that
is not ours, or is damaged, is refused and left as it is: it may be all that somebody has of their approvals.
"""

import contextlib
import fcntl
import os
import sqlite3
import stat
import time
from collections.abc import Iterator

import msgspec

from ..model import PolicyError
from ..model.grant import Grant

FILE = "approvals.db"
OURS = 0x52464131  # PRAGMA application_id: "RFA1"
VERSION = 1
WAIT = 20.0
MOST = 4096
_TABLE = """
CREATE TABLE grants (
    id TEXT PRIMARY KEY, operation TEXT NOT NULL, target TEXT NOT NULL, answer TEXT NOT NULL, workspace TEXT NOT NULL,
    made INTEGER NOT NULL, until INTEGER NOT NULL, boot TEXT NOT NULL, reason TEXT NOT NULL,
    UNIQUE (operation, target, workspace)
) STRICT
"""
_COLUMNS = "id, operation, target, answer, workspace, made, until, boot, reason"
KEPT = "it is left as it is; look at it, then move it away"


def is_read_only(path: str) -> bool:
    """Whether it lies where nobody can write."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


class Store:
    """The approvals of one user."""

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{FILE}"

    def grants(self) -> list[Grant]:
        """All there are, the oldest first; none where nobody approved anything, or there was no room for the first."""
        if not self._holds(""):
            return []
        with self._opened(reads=True) as db:
            return [self._grant(row) for row in db.execute(f"SELECT {_COLUMNS} FROM grants ORDER BY made, id")]

    def add(self, grants: list[Grant]) -> None:
        """Remember grants, all or none; one for the same target and place is replaced."""
        with self._opened() as db, self._writing(db):
            for grant in grants:
                row = (grant.operation.value, grant.target, grant.workspace)
                db.execute("DELETE FROM grants WHERE operation = ? AND target = ? AND workspace = ?", row)
                db.execute(f"INSERT INTO grants ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(grant))
            (count,) = db.execute("SELECT count(*) FROM grants").fetchone()
            if count > MOST:
                raise PolicyError(self.path, f"would hold {count} approvals", f"at most {MOST}; revoke some")

    def remove(self, ids: list[str]) -> list[Grant]:
        """Forget grants by their ids; those that were there."""
        if not os.path.lexists(self.path):
            return []
        with self._opened() as db, self._writing(db):
            gone = []
            for one in ids:
                rows = db.execute(f"DELETE FROM grants WHERE id = ? RETURNING {_COLUMNS}", (one,)).fetchall()
                gone += [self._grant(row) for row in rows]
            return gone

    # ---- The file ----

    @contextlib.contextmanager
    def _opened(self, reads: bool = False) -> Iterator[sqlite3.Connection]:
        self._check_directory()
        try:
            with self._locked(), contextlib.closing(self._connected(reads)) as db:
                self._prepare(db)
                yield db
        except sqlite3.OperationalError as error:
            hint = "its file system is read-only" if is_read_only(self.path) else "try again, and see who holds it"
            if not os.statvfs(os.path.dirname(self.path)).f_bavail:
                hint = "its file system is full"
            raise PolicyError(self.path, f"cannot be used now: {error}", hint) from None
        except sqlite3.DatabaseError as error:
            raise PolicyError(self.path, f"is damaged, or no store of approvals: {error}", KEPT) from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One of us at a time: SQLite waits for another writer, but not while the log beside the file comes or goes."""
        fd = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        until = time.monotonic() + WAIT
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise PolicyError(self.path, f"has been in use for {WAIT:g} s", "see who holds it") from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(fd)

    def _connected(self, reads: bool) -> sqlite3.Connection:
        self._check_files()
        if not os.path.lexists(self.path):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # SQLite wants to make files beside one with a log, also to read it; a disk may be full. Whatever a log holds, a
        # revocation maybe, is not passed over.
        if (reads or is_read_only(self.path)) and not (self._holds("-wal") or self._holds("-journal")):
            from urllib.parse import quote

            return sqlite3.connect(f"file:{quote(self.path)}?immutable=1", uri=True, isolation_level=None)
        return sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)

    def _holds(self, end: str) -> bool:
        """Whether there is something in the file, or in one beside it; what is odd there is looked at later."""
        try:
            facts = os.lstat(self.path + end)
        except FileNotFoundError:
            return False
        return facts.st_size > 0 or not _is_ours(facts)

    def _check_directory(self) -> None:
        """Refuse a place that others can change."""
        directory = os.path.dirname(self.path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        facts = os.lstat(directory)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise PolicyError(directory, "others can change it", f"chmod 700 {directory}")

    def _check_files(self) -> None:
        """Refuse what is not a plain file of ours; under the lock, for those beside it come and go."""
        for path in (self.path, *(f"{self.path}-{end}" for end in ("wal", "shm", "journal"))):
            if not os.path.lexists(path):
                continue
            if not _is_ours(os.lstat(path)):
                raise PolicyError(path, "is not a plain file that only you can write", KEPT)

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make a new file ours, or see that it is."""
        db.execute("PRAGMA trusted_schema = OFF")
        if self._mark(db) == (OURS, VERSION):
            return
        db.execute("BEGIN IMMEDIATE")  # another may be making it at this moment
        try:
            mark = self._mark(db)
            if mark == (0, 0) and not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                db.execute(_TABLE)
                db.execute(f"PRAGMA application_id = {OURS}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            elif mark != (OURS, VERSION):
                raise PolicyError(self.path, "is a database of somebody else, or of another version", KEPT)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")

    def _mark(self, db: sqlite3.Connection) -> tuple[int, int]:
        return db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0]

    @contextlib.contextmanager
    def _writing(self, db: sqlite3.Connection) -> Iterator[None]:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _grant(self, row: tuple[object, ...]) -> Grant:
        names = [name.strip() for name in _COLUMNS.split(",")]
        try:
            return msgspec.convert(dict(zip(names, row, strict=True)), Grant)
        except msgspec.ValidationError as error:
            raise PolicyError(self.path, f"holds what is no approval: {error}", KEPT) from None


def _is_ours(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _row(grant: Grant) -> tuple[object, ...]:
    words = grant.operation.value, grant.target, grant.answer.value, grant.workspace
    return (grant.id, *words, grant.made, grant.until, grant.boot, grant.reason)
