"""Accounts: a name, a password's argon2 hash, and the workspaces that are theirs. In SQLite, outside every sandbox."""

import asyncio
import json
import os
import sqlite3

import argon2

from .trouble import Trouble

SCHEMA = """
create table if not exists accounts (name text primary key, hash text not null, workspaces text not null) strict;
"""
MOST_PASSWORD = 1024
AT_ONCE = 2  # of these, each takes tens of megabytes
_hasher = argon2.PasswordHasher()


class Accounts:
    """The accounts of a service."""

    def __init__(self, path: str) -> None:
        mask = os.umask(0o077)
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=10)
        finally:
            os.umask(mask)
        self._database.execute("pragma journal_mode = wal")
        self._database.executescript(SCHEMA)
        self._nobody = _hasher.hash("nobody has this password")
        self._busy = asyncio.Semaphore(AT_ONCE)

    def put(self, name: str, password: str, workspaces: tuple[str, ...]) -> None:
        """A new account, or a new password and workspaces for an old one."""
        if not name or len(name) > 64 or not name.isprintable() or not 8 <= len(password) <= MOST_PASSWORD:
            raise Trouble("bad_request", "an account has a name of at most 64 letters, and a password of at least 8")
        row = (name, _hasher.hash(password), json.dumps(workspaces))
        self._database.execute("insert or replace into accounts values (?, ?, ?)", row)

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        return self._database.execute("delete from accounts where name = ?", (name,)).rowcount == 1

    def workspaces(self, name: str) -> tuple[str, ...]:
        """What an account opens now, whatever a token said once."""
        row = self._database.execute("select workspaces from accounts where name = ?", (name,)).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    async def log_in(self, name: str, password: str) -> tuple[str, ...]:
        """The workspaces of an account. A wrong name takes as long as a wrong password."""
        row = self._database.execute("select hash, workspaces from accounts where name = ?", (name,)).fetchone()
        stored, workspaces = row or (self._nobody, "[]")
        async with self._busy:
            right = await asyncio.to_thread(_matches, stored, password[:MOST_PASSWORD])
        if not right or row is None:
            raise Trouble("login_failed", "no account has this name and this password")
        return tuple(json.loads(workspaces))


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except argon2.exceptions.VerificationError:
        return False
