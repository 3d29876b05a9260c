"""An index of the audit log, to find events without reading all of it.

It says where an event stands and is never asked what it says: the log is the truth. It is brought up to date whenever
somebody asks, and made anew when it does not fit the log.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator

from ..model.event import AnyEvent
from .chain import lines, numbers, opened
from .log import hash_of, number_of
from .wanted import Wanted, event_of, is_denied, is_wanted

VERSION = 1
_SCHEMA = """
CREATE TABLE events (number INTEGER, at TEXT, kind TEXT, run TEXT, session TEXT, workspace TEXT, denied INTEGER,
                     file INTEGER, start INTEGER, length INTEGER, PRIMARY KEY (file, start)) WITHOUT ROWID;
CREATE INDEX by_time ON events (at);
CREATE INDEX by_session ON events (session, at);
CREATE INDEX by_denial ON events (denied, at);
"""


def find(directory: str, wanted: Wanted) -> Iterator[tuple[AnyEvent, bytes]]:
    """The events asked for, in order, each with its line."""
    if not numbers(directory):
        return
    try:
        found = _places(directory, wanted)
    except sqlite3.Error:  # a full disk, for example; then without an index
        found = (
            (number, start, len(line)) for number in numbers(directory) for start, line in lines(directory, number)
        )
    for number, start, length in found:
        with opened(directory, number) as file:
            file.seek(start)
            line = file.read(length)
        event = event_of(line)
        if event is not None and is_wanted(event, wanted):  # the log may have been changed since
            yield event, line


def _places(directory: str, wanted: Wanted) -> Iterable[tuple[int, int, int]]:
    """Where the events stand, by the index."""
    clauses, values = ["at >= ?"], [wanted.since]
    for column, value in (("session", wanted.session), ("run", wanted.run)):
        if value:
            clauses.append(f"{column} = ?")
            values.append(value)
    if wanted.denied:
        clauses.append("denied = 1")
    query = f"SELECT file, start, length FROM events WHERE {' AND '.join(clauses)} ORDER BY file, start"
    link = _index(directory)
    try:
        _catch_up(link, directory)
        return link.execute(query, values).fetchall()
    finally:
        link.close()


def _index(directory: str) -> sqlite3.Connection:
    path = f"{directory}/index.sqlite"
    link = _connected(path)
    try:
        if link.execute("PRAGMA user_version").fetchone()[0] == VERSION and _fits(link, directory):
            return link
    except sqlite3.DatabaseError:
        pass  # damaged: it is only an index
    link.close()
    for suffix in ("", "-journal"):
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)
    link = _connected(path)
    link.executescript(_SCHEMA + f"PRAGMA user_version = {VERSION};")
    return link


def _connected(path: str) -> sqlite3.Connection:
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    return sqlite3.connect(path, timeout=30)


def _last(link: sqlite3.Connection) -> tuple[int, int, int, int] | None:
    query = "SELECT file, start, length, number FROM events ORDER BY file DESC, start DESC LIMIT 1"
    found: tuple[int, int, int, int] | None = link.execute(query).fetchone()
    return found


def _fits(link: sqlite3.Connection, directory: str) -> bool:
    """Whether the last event that it knows stands where it says."""
    last = _last(link)
    if last is None:
        return True
    try:
        with opened(directory, last[0]) as file:
            file.seek(last[1])
            line = file.read(last[2])
    except FileNotFoundError:
        return False
    return number_of(line) == last[3] and bool(hash_of(line))


def _catch_up(link: sqlite3.Connection, directory: str) -> None:
    last = _last(link)
    for number in numbers(directory):
        if last and number < last[0]:
            continue
        start = last[1] + last[2] if last and number == last[0] else 0
        rows = []
        for offset, line in lines(directory, number, start):
            event = event_of(line) if line.endswith(b"\n") else None
            if event is not None:
                kind = event.__struct_config__.tag
                said = (event.at, kind, event.run, event.session, event.workspace, int(is_denied(event)))
                rows.append((number_of(line), *said, number, offset, len(line)))
        link.executemany("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        link.commit()
