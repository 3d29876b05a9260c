"""Runs that the service has started: what they said, for whoever asks now or asks again, and how they ended."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import msgspec

from .stewards import Spawning, Steward
from .trouble import Trouble

MOST_HELD = 1 << 18  # bytes of output kept for those who come late
MOST_RUNS = 200  # ended ones kept
AT_ONCE = 32  # for each tenant


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
        self._events: list[Event] = []
        self._held, self._next = 0, 0
        self._changed = asyncio.Event()

    def add(self, data: dict[str, object]) -> None:
        """What it said; the oldest goes when there is too much."""
        size = len(str(data.get("data", "")))
        self._events.append(Event(self._next, data, size))
        self._next += 1
        self._held += size
        while self._held > MOST_HELD and len(self._events) > 1:
            self._held -= self._events.pop(0).size
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, after: int = -1) -> AsyncIterator[Event]:
        """Everything after a number that is still held, then what comes, up to the end."""
        while True:
            changed = self._changed
            for event in [event for event in self._events if event.number > after]:
                after = event.number
                yield event
            if self.ended is not None and after >= self._next - 1:
                return
            await changed.wait()

    def document(self) -> dict[str, object]:
        """What is said of it."""
        return {"run": self.id, "workspace": self.tenant, "argv": self.argv, "begun": self.begun, "ended": self.ended}


class Runs:
    """The runs of a service."""

    def __init__(self, spawning: Spawning) -> None:
        self._spawning = spawning
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, tenant: str) -> list[Run]:
        """A tenant's, the newest first."""
        return [run for run in reversed(self._runs.values()) if run.tenant == tenant]

    def find(self, tenant: str, name: str) -> Run:
        """One of a tenant's."""
        run = self._runs.get(name)
        if run is None or run.tenant != tenant:
            raise Trouble("run_not_found", "this workspace has no such run")
        return run

    def start(self, tenant: str, request: dict[str, object]) -> Run:
        """Begin a run; it goes on whether or not somebody follows it."""
        if sum(run.ended is None for run in self.of(tenant)) >= AT_ONCE:
            raise Trouble("too_many", "this workspace has as many runs as it may have")
        over = [run for run in self._runs.values() if run.ended is not None]
        for old in over[: max(0, len(over) - MOST_RUNS)]:
            del self._runs[old.id]
        run = Run(tenant, tuple(request["argv"]))  # type: ignore[arg-type]
        self._runs[run.id] = run
        task = asyncio.create_task(self._carry(run, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def _carry(self, run: Run, request: dict[str, object]) -> None:
        ended: dict[str, object] = {"error": {"code": "unavailable", "message": "the run was lost"}}
        try:
            async with self._spawning.steward(run.tenant) as steward:
                run.steward = steward
                async for line in steward.ask(do="run", **request):
                    if "stream" in line:
                        run.add(line)
                    else:
                        ended = line
        except Trouble as error:
            ended = {"error": {"code": error.code, "message": str(error)}}
        finally:
            run.steward, run.ended = None, ended
            run.add(ended)

    async def cancel(self, run: Run) -> None:
        """End it; one that has ended stays ended."""
        if run.steward is not None:
            await run.steward.cancel()

    async def close(self) -> None:
        """End them all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
