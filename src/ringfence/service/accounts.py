"""Accounts: a name, a password's argon2 hash, and the workspaces that are theirs; and visits, by which a browser is
one of them. In the database, outside every sandbox."""

import asyncio
import hashlib
import json
import secrets
import time

import argon2

from .database import Database
from .tokens import MOST_WORKSPACES
from .trouble import Trouble

MOST_PASSWORD = 1024
AT_ONCE = 2  # of these, each takes tens of megabytes
MOST_WAITING = 64
VISIT = 12 * 3600
_hasher = argon2.PasswordHasher()
PUT = """insert into accounts values (?, ?, ?)
on conflict (name) do update set hash = excluded.hash, workspaces = excluded.workspaces"""


class Accounts:
    """The accounts of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._nobody = _hasher.hash("nobody has this password")
        self._busy, self._waiting = asyncio.Semaphore(AT_ONCE), 0

    def put(self, name: str, password: str, workspaces: tuple[str, ...]) -> None:
        """A new account, or a new password and workspaces for an old one."""
        if not name or len(name) > 64 or not name.isprintable() or not 8 <= len(password) <= MOST_PASSWORD:
            raise Trouble("bad_request", "an account has a name of at most 64 letters, and a password of at least 8")
        if len(workspaces) > MOST_WORKSPACES:  # it would get tokens that open nothing
            raise Trouble("bad_request", f"an account opens at most {MOST_WORKSPACES} workspaces")
        self._database.ask("delete from visits where account = ?", name)
        self._database.ask(PUT, name, _hasher.hash(password), json.dumps(workspaces))

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        self._database.ask("delete from visits where account = ?", name)
        return bool(self._database.ask("delete from accounts where name = ? returning name", name))

    def forget(self, workspace: str) -> None:
        """Of a workspace that is gone: no account opens it, and nothing is left of what ran there. Its name may be
        another's next."""
        for name, kept in self._database.ask("select name, workspaces from accounts"):
            left = [one for one in json.loads(kept) if one != workspace]
            put = "update accounts set workspaces = ? where name = ? and workspaces = ?"  # or it was changed meanwhile
            self._database.ask(put, json.dumps(left), name, kept)
        self._database.ask("delete from refusals where id in (select id from runs where tenant = ?)", workspace)
        self._database.ask("delete from runs where tenant = ?", workspace)

    async def opened(self, name: str) -> tuple[tuple[str, ...], str]:
        """What an account opens now, whatever a token said once, and the stamp of its password."""
        rows = await self._database.run("select hash, workspaces from accounts where name = ?", name)
        return (tuple(json.loads(rows[0][1])), _digest(rows[0][0])) if rows else ((), "")

    async def log_in(self, name: str, password: str) -> tuple[tuple[str, ...], str]:
        """The workspaces of an account, and the stamp of its password. A wrong name takes as long as a wrong
        password; so many at once wait for their turn."""
        if "\0" in name:  # no account has one, and PostgreSQL takes none
            name = ""
        rows = await self._database.run("select hash, workspaces from accounts where name = ?", name)
        stored, workspaces = rows[0] if rows else (self._nobody, "[]")
        if self._waiting >= MOST_WAITING:
            raise Trouble("too_many", "too many log in; wait a moment")
        self._waiting += 1
        try:
            async with self._busy:
                right = await asyncio.to_thread(_matches, stored, password[:MOST_PASSWORD])
        finally:
            self._waiting -= 1
        if not right or not rows:
            raise Trouble("login_failed", "no account has this name and this password")
        return tuple(json.loads(workspaces)), _digest(stored)

    async def visit(self, name: str, stamp: str) -> str:
        """What a browser says from now on to be this account: random, and kept as a digest; with the stamp of the
        password that was right, which may be another's by now."""
        now, word = int(time.time()), f"{secrets.token_urlsafe(32)}.{stamp}"
        await self._database.run("delete from visits where ends < ?", now)
        add = "insert into visits values (?, ?, ?) on conflict do nothing"  # asked again where an answer was lost
        await self._database.run(add, _digest(word), name, now + VISIT)
        return word

    async def visitor(self, word: str) -> str:
        """Whose visit it is."""
        query = "select account, hash from visits join accounts on name = account where id = ? and ends > ?"
        rows = await self._database.run(query, _digest(word), int(time.time()))
        if not rows or _digest(rows[0][1]) != word.rpartition(".")[2]:
            raise Trouble("token_missing", "log in first")
        return str(rows[0][0])

    async def leave(self, word: str) -> None:
        """A visit ends."""
        await self._database.run("delete from visits where id = ?", _digest(word))


def _digest(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "surrogatepass")).hexdigest()


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except argon2.exceptions.VerificationError:
        return False
