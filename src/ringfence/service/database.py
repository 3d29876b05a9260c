"""What a service remembers: accounts, keys, visits and runs, in SQLite by default, in PostgreSQL by a URL.

One connection in one thread of its own, so that a slow disk or server holds up nobody but who asks it. A connection
that is lost is made again by the next question; statements are such that doing one twice does no harm.
"""

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .trouble import Trouble

# Words that both understand.
SCHEMA = (
    "create table if not exists accounts (name text primary key, hash text not null, workspaces text not null)",
    "create table if not exists keys (kid text primary key, body text not null)",
    "create table if not exists visits (id text primary key, account text not null, ends bigint not null)",
    """create table if not exists runs (id text primary key, tenant text not null, host text not null,
    argv text not null, begun double precision not null, ended text not null)""",
    "create index if not exists runs_of_tenant on runs (tenant, begun)",
    "create table if not exists refusals (id text primary key, denials text not null)",
)
URLS = ("postgresql://", "postgres://")
PATIENCE = 5  # seconds
LONGEST = 4 * PATIENCE  # for two tries, each of which may connect first; then whoever waits is told

Rows = list[tuple[Any, ...]]


class Database:
    """A connection, by the path of a file or by a URL."""

    def __init__(self, where: str) -> None:
        self._where, self._is_server = where, where.startswith(URLS)
        self._link: Any = None
        self._thread = ThreadPoolExecutor(1, "database")
        self._lock = threading.Lock()
        # Whatever it says no to: one that may only be read for a while, or that was put back without our tables, too.
        self._failed: type[Exception] = sqlite3.Error
        if self._is_server:
            import psycopg

            self._failed = psycopg.Error

    def ask(self, sql: str, *values: object) -> Rows:
        """The rows of one statement, whose values stand where it has question marks."""
        with self._lock:
            for last in (False, True):
                try:
                    if self._link is None:
                        self._connect()
                    cursor = self._link.execute(sql.replace("?", "%s") if self._is_server else sql, values)
                    return cursor.fetchall() if cursor.description else []
                except self._failed:
                    self._drop()
                    if last:
                        raise Trouble("unavailable", "the database does not answer") from None
        raise AssertionError  # the loop ends in one of two ways

    async def run(self, sql: str, *values: object) -> Rows:
        """The same, for those who must not wait. A server that is frozen, or beyond a network that is cut, says nothing
        at all, and its own limit of time does not hold then."""
        try:
            async with asyncio.timeout(LONGEST):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self.ask, sql, *values)
        except TimeoutError:
            raise Trouble("unavailable", "the database does not answer") from None

    def _connect(self) -> None:
        link: Any
        if self._is_server:
            import psycopg

            try:
                link = self._link = psycopg.connect(self._where, autocommit=True, connect_timeout=PATIENCE)
            except psycopg.ProgrammingError:  # which says what it did not understand: a piece of the password, maybe
                raise Trouble("unavailable", "the URL of the database is not understood") from None
            link.execute(f"set statement_timeout = '{PATIENCE}s'")
            # Two hosts that begin at once would both make the tables.
            link.execute("select pg_advisory_lock(7236473)")
        else:
            link = self._link = _file(self._where)
        for statement in SCHEMA:
            link.execute(statement)
        if self._is_server:
            link.execute("select pg_advisory_unlock(7236473)")

    def close(self) -> None:
        """Let go of it, after what was asked."""
        self._thread.shutdown()
        self._drop()

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None


def _file(path: str) -> sqlite3.Connection:
    """It holds keys: its directory is ours alone."""
    directory = os.path.dirname(path)
    os.makedirs(directory, 0o700, exist_ok=True)
    facts = os.stat(directory)
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
        raise Trouble("unavailable", f"{directory} must belong to the service's user alone, with mode 700")
    mask = os.umask(0o077)
    try:
        link = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE, check_same_thread=False)
    finally:
        os.umask(mask)
    link.execute("pragma journal_mode = wal")
    link.execute("pragma synchronous = full")  # an account or a key that was answered for is there after a crash
    return link
