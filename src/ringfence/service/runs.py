"""Runs that the service has started: what they said, for whoever asks now or asks again, and how they ended.

That a run was begun and how it ended is in the database. What it said is held here, as much as is of use to somebody
who watches; a service that was killed has ended its runs, and says of them that they were lost.
"""

import asyncio
import collections
import itertools
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import msgspec

from ..model.event import few
from .buckets import Buckets
from .database import Database
from .shapes import checked
from .stewards import Spawning, Steward
from .trouble import Trouble

MOST_HELD = 1 << 18  # bytes of output kept for those who come late
MOST_KEPT = 200  # ended ones kept with what they said
MOST_LISTED = 100
MOST_REMEMBERED = 1000  # of each tenant, and the denials of those that are listed; the audit log has all
MOST_WORDS = 4096  # letters of a command that are remembered when it is over; the audit log has all
MOST_QUESTIONS = 100  # of one run, or shown of one tenant, and as many bytes as of output; what is beyond is refused
OVERHEAD = 512  # bytes of ours for each thing said: a command that says one letter at a time must not cost more
AT_ONCE = 32  # for each tenant
QUIET = 5.0  # seconds of a stream in which nothing is said: whoever watches may not be let any more, or be there
SMALL = 8192
# A tenant can begin ten runs a second for years, and the database is for all.
OLDER = "tenant = ? and begun < (select begun from runs where tenant = ? order by begun desc limit 1 offset ?)"
DROP_RUNS = f"delete from runs where {OLDER} and ended <> ''"
DROP_REFUSALS = f"delete from refusals where id in (select id from runs where {OLDER})"
OPENS = "select name from accounts where workspaces like ? limit 1"
DROP_ORPHAN = "delete from refusals where id = ? and not exists (select id from runs where id = ?)"
LOST: dict[str, object] = {"error": {"code": "unavailable", "message": "the run was lost with the service"}}


class Event(msgspec.Struct, frozen=True):
    """One thing that a run said, by its number."""

    number: int
    data: dict[str, object]
    size: int


class Run:
    """One run."""

    def __init__(self, tenant: str, argv: tuple[str, ...]) -> None:
        self.id, self.tenant, self.argv = secrets.token_hex(16), tenant, argv
        self.begun = time.time()
        self.ended: dict[str, object] | None = None
        self.steward: Steward | None = None
        self.is_cancelled = False
        self.questions: dict[str, dict[str, object]] = {}
        self.asked: dict[str, int] = {}  # the size of each
        self._events: list[Event] = []
        self._held, self._next = 0, 0
        self._changed = asyncio.Event()

    def add(self, data: dict[str, object]) -> None:
        """What it said; the oldest goes when there is too much."""
        size = len(str(data.get("data") or data)) + OVERHEAD
        self._events.append(Event(self._next, data, size))
        self._next += 1
        self._held += size
        while self._held > MOST_HELD and len(self._events) > 1:
            self._held -= self._events.pop(0).size
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, after: int = -1) -> AsyncIterator[list[Event]]:
        """Everything after a number that is still held, then what comes, up to the end; all that is there at once, and
        nothing where it is quiet."""
        while True:
            changed = self._changed
            if events := [event for event in self._events if event.number > after]:
                after = events[-1].number
                yield events
                continue
            if self.ended is not None and after >= self._next - 1:
                return
            try:
                async with asyncio.timeout(QUIET):
                    await changed.wait()
            except TimeoutError:
                yield []

    def said(self) -> list[dict[str, object]]:
        """What is held of it."""
        return [event.data for event in self._events]

    @property
    def last(self) -> int:
        """The number of what it said last."""
        return self._next - 1

    def document(self) -> dict[str, object]:
        """What is said of it."""
        return {"run": self.id, "workspace": self.tenant, "argv": self.argv, "begun": self.begun, "ended": self.ended}


class Runs:
    """The runs of a service."""

    def __init__(self, spawning: Spawning, database: Database) -> None:
        self._spawning, self._database, self._host = spawning, database, os.uname().nodename
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._news: dict[str, asyncio.Event] = {}
        self._output = Buckets(4000, 1000)  # pieces of what a tenant's runs say, each of at most SMALL bytes

    async def begin(self) -> None:
        """Runs of this host that have no end were lost when the service was killed."""
        query = "update runs set ended = ? where ended = '' and host = ?"
        await self._database.run(query, msgspec.json.encode(LOST).decode(), self._host)

    async def of(self, tenant: str) -> list[dict[str, object]]:
        """A tenant's, the newest first; what each was refused is counted, and shown with it alone."""
        query = "select id, argv, begun, ended from runs where tenant = ? order by begun desc limit ?"
        rows = await self._database.run(query, tenant, MOST_LISTED)
        return [_document(tenant, *row) for row in rows]

    async def show(self, tenant: str, name: str) -> dict[str, object]:
        """One of a tenant's."""
        if name in self._runs:
            return self.find(tenant, name).document()
        query = "select id, argv, begun, ended from runs where tenant = ? and id = ?"
        rows = await self._database.run(query, tenant, name) if name.isalnum() else []
        if not rows:
            raise Trouble("run_not_found", "this workspace has no such run")
        found = _document(tenant, *rows[0])
        if isinstance(found["ended"], dict) and found["ended"].get("denied"):
            refused = await self._database.run("select denials from refusals where id = ?", name)
            found["ended"]["denials"] = json.loads(refused[0][0]) if refused else []
        return found

    def find(self, tenant: str, name: str) -> Run:
        """One of a tenant's of which it is held what it said."""
        run = self._runs.get(name)
        if run is None or run.tenant != tenant:
            raise Trouble("run_not_found", "this workspace has no such run, or it is forgotten what it said")
        return run

    def alive(self, tenant: str) -> list[Run]:
        """A tenant's that have not ended, the newest first."""
        return [run for run in reversed(self._runs.values()) if run.tenant == tenant and run.ended is None]

    async def start(self, tenant: str, request: dict[str, object]) -> Run:
        """Begin a run; it goes on whether or not somebody follows it."""
        if len(self.alive(tenant)) >= AT_ONCE:
            raise Trouble("too_many", "this workspace has as many runs as it may have")
        self._forget()
        run = Run(tenant, tuple(request["argv"]))  # type: ignore[arg-type]
        self._runs[run.id] = run
        words = json.dumps(_cut(run.argv))
        add = "insert into runs values (?, ?, ?, ?, ?, '') on conflict do nothing"
        try:
            await self._database.run(add, run.id, tenant, self._host, words, run.begun)
            if not await self._database.run(OPENS, f'%"{tenant}"%'):  # it was forgotten while we wrote that
                await self._database.run("delete from runs where id = ?", run.id)
                raise Trouble("workspace_forbidden", "this workspace is not open to you")
        except BaseException:
            del self._runs[run.id]
            self._keep(self._take_back(run))
            raise
        self._keep(self._carry(run, request))
        return run

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_back(self, run: Run) -> None:
        """It does not begin; a database that did not answer may have written that it did, or will when it goes on."""
        await self._surely([("delete from runs where id = ?", run.id)])

    def _forget(self) -> None:
        """Too much is held of what runs said: the oldest goes of the tenant that has most of it."""
        over = [run for run in self._runs.values() if run.ended is not None]
        while len(over) > MOST_KEPT:
            most = collections.Counter(run.tenant for run in over).most_common(1)[0][0]
            old = next(run for run in over if run.tenant == most)
            over.remove(old)
            del self._runs[old.id]

    async def _carry(self, run: Run, request: dict[str, object]) -> None:
        ended = LOST
        self._tell(run.tenant)
        try:
            ended = await self._follow(run, request)
        except Trouble as error:  # who was told to end it is gone without a word, and that is no trouble of ours
            code, message = ("cancelled", "it was cancelled") if run.is_cancelled else (error.code, str(error))
            ended = {"error": {"code": code, "message": message}}
        finally:
            run.steward, run.ended = None, ended
            run.questions.clear()
            run.add(ended)
            self._tell(run.tenant)
            await self._end(run)

    async def _follow(self, run: Run, request: dict[str, object]) -> dict[str, object]:
        steward = await self._hire(run.tenant)
        try:
            if run.is_cancelled:
                raise Trouble("cancelled", "it was cancelled before it began")
            run.steward = steward
            async for said in steward.work({"do": "run", **request}):
                line = checked(said)
                if "ended" in line:
                    return {**line, **few(line["denials"])}
                if "asked" in line and (beyond := self._asked(run, line["asked"])):
                    await steward.say({"do": "answer", "said": {"query_id": beyond, "action": "deny"}})
                else:
                    run.add(line)
                size = len(str(line.get("data") or line))
                if pause := self._output.spend(run.tenant, 1 + size / SMALL):
                    await asyncio.sleep(pause)  # it waits, for others have something to say too
        finally:
            steward.close()
        return LOST

    async def _hire(self, tenant: str) -> Steward:
        """Somebody to carry a run. Where a tenant has as many as it may, one may have answered a question just now, and
        wait for the next: that is no run."""
        try:
            return await self._spawning.hire(tenant)
        except Trouble as error:
            waiting = self._spawning.waiting(tenant) if error.code == "tenant_failed" else None
            if waiting is None:
                raise
            return waiting

    def _asked(self, run: Run, line: Any) -> str:
        """A line of docs/asking.md: a question, or what became of one. The name of one that nobody will be shown."""
        if not isinstance(line, dict):
            return ""
        name = str(line.get("query_id", ""))
        if line.get("state") == "query":
            size = len(str(line)) + OVERHEAD
            if len(run.questions) >= MOST_QUESTIONS or sum(run.asked.values()) + size > MOST_HELD:
                return name
            run.asked[name] = size
            run.questions[name] = {**line, "run": run.id, "argv": run.argv}
        elif line.get("state") == "refused" and name in run.questions:
            run.questions[name] = {**run.questions[name], "refused": str(line.get("why", ""))}
        elif line.get("state") in ("answered", "withdrawn"):
            run.questions.pop(name, None)
            run.asked.pop(name, None)
        self._tell(run.tenant)
        return ""

    def questions(self, tenant: str) -> list[dict[str, Any]]:
        """What a tenant's commands wait for."""
        asked = (question for run in self.alive(tenant) for question in run.questions.values())
        return list(itertools.islice(asked, MOST_QUESTIONS))

    async def answer(self, run: Run, name: str, answer: str, target: str = "") -> None:
        """What a person said to a question."""
        if name not in run.questions or run.steward is None:
            raise Trouble("question_not_found", "nobody waits for this answer any more")
        said = {"query_id": name, "action": "deny" if answer == "deny" else "allow"}
        if answer != "deny":
            said |= {"scope": answer} | ({"target": target} if target else {})
        await run.steward.say({"do": "answer", "said": said})

    def said(self, name: str) -> tuple[list[dict[str, object]], int]:
        """What is held of what a run said, and the number of the last."""
        run = self._runs.get(name)
        return ([], -1) if run is None else (run.said(), run.last)

    async def _end(self, run: Run) -> None:
        """Write how it ended, as long as we are there."""
        ended = {**(run.ended or {})}
        denials = ended.pop("denials", None)
        denied = json.dumps(denials if isinstance(denials, list) else [])
        if isinstance(denials, list):
            ended.setdefault("denied", len(denials))
        steps: list[tuple[object, ...]] = []
        if denials:
            steps.append(("insert into refusals values (?, ?) on conflict do nothing", run.id, denied))
        steps.append(("update runs set ended = ? where id = ?", json.dumps(ended), run.id))
        steps.append((DROP_ORPHAN, run.id, run.id))  # of a workspace that was forgotten meanwhile
        newest = ((DROP_REFUSALS, MOST_LISTED), (DROP_RUNS, MOST_REMEMBERED))
        steps += [(drop, run.tenant, run.tenant, kept) for drop, kept in newest]
        await self._surely(steps)

    async def _surely(self, steps: Sequence[tuple[Any, ...]]) -> None:
        """Statements, all of them again where one failed; a database that is away is waited for."""
        while True:
            try:
                for sql, *values in steps:
                    await self._database.run(sql, *values)
                return
            except Trouble:
                await asyncio.sleep(1)

    def _tell(self, tenant: str) -> None:
        self._news.pop(tenant, asyncio.Event()).set()

    async def news(self, tenant: str) -> None:
        """Wait until a run of a tenant's begins, ends, or asks."""
        await self._news.setdefault(tenant, asyncio.Event()).wait()

    async def cancel(self, run: Run) -> None:
        """End it; one that has ended stays ended, and one that has not begun does not begin."""
        run.is_cancelled = True
        if run.steward is not None:
            await run.steward.cancel()

    async def close(self) -> None:
        """End them all."""
        for patience in (5, 1):  # the second time for those who wait for a database that is away
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=patience)


def _cut(argv: tuple[str, ...]) -> list[str]:
    """The words of a command, as many as are remembered."""
    words, left = [], MOST_WORDS
    for word in argv:
        words.append(word if len(word) <= left else word[:left] + "…")
        left -= len(word) + 1
        if left <= 0:
            break
    return words if len(words) == len(argv) else [*words, "…"]


def _document(tenant: str, name: str, argv: str, begun: float, ended: str) -> dict[str, object]:
    document = {"run": name, "workspace": tenant, "argv": json.loads(argv), "begun": begun}
    return {**document, "ended": json.loads(ended) if ended else None}
