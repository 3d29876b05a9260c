"""The steward's runs: a command's output as lines, its questions and their answers, until it ends or nobody hears."""

import asyncio
import base64
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import msgspec

from .model import Asking, UsageError
from .model.event import few
from .policy import Flags
from .start import start
from .steward import LIFELINE, MOST_LINE, Ask, Wrong, act, answering, below, is_run, room, say

if sys.platform != "linux":
    raise UsageError("tenants", "are kept apart on Linux only")

MOST_QUESTION = 1 << 17
LOOK = 1.0  # seconds between two looks at how much there is
PAUSE, LONGEST = 0.1, 0.4  # seconds between two lines of what a run says
MUCH = 1 << 16  # bytes that are not held for that
SMALLEST, SLACK = 4096, 1 << 20  # bytes of a file, and of all, for a run that begins where there is no room


class Answered(msgspec.Struct, forbid_unknown_fields=True):
    """What a person said to a question of the run that goes on; docs/asking.md has the line."""

    do: Literal["answer"]
    said: dict[str, object]


@contextlib.contextmanager
def placed(root: str, ask: Ask) -> Iterator[tuple[str, str, Flags | None]]:
    """The workspace of a run, where in it the run is, and with which flags."""
    if not ask.worktree:
        yield root, os.path.normpath(os.path.join(root, below(root, ask.cwd))), None
        return
    from .session import Session

    session = Session(root, ask.worktree).resume()
    where = below(session.path, ask.cwd)
    with session.used("" if where == "." else where) as (cwd, flags):
        yield session.path, cwd, flags


class Saying:
    """What a run says, as lines: at once when it has been quiet, then ten times a second, of one that goes on and on
    less often; or when there is much. Each line wakes the service, which is for all; a command may say a letter at a
    time."""

    def __init__(self) -> None:
        self._held: list[tuple[str, bytearray]] = []
        self._size, self._last, self._pause = 0, -PAUSE, PAUSE
        self._timer: asyncio.TimerHandle | None = None
        self._failed: OSError | None = None

    def add(self, stream: str, data: bytes) -> None:
        """A piece of what it wrote."""
        if self._held and self._held[-1][0] == stream:
            self._held[-1][1].extend(data)
        else:
            self._held.append((stream, bytearray(data)))
        self._size += len(data)
        left = self._last + self._pause - time.monotonic()
        if left <= 0:  # it has been quiet
            self._pause = PAUSE
        if left <= 0 or self._size >= MUCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left, self._tick)

    def _tick(self) -> None:
        self._pause = min(self._pause * 2, LONGEST)
        try:
            self.flush()
        except OSError as error:  # nobody hears us: whoever says the next thing is told
            self._failed = error

    def flush(self) -> None:
        """All of it, now."""
        if self._failed is not None:
            raise self._failed
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held, self._size = self._held, [], 0
        for stream, data in held:
            say(stream=stream, data=base64.b64encode(data).decode())
        if held:
            self._last = time.monotonic()


_asker: asyncio.StreamWriter | None = None  # to the one who asks for the run that goes on


@contextlib.asynccontextmanager
async def asking(wanted: bool, saying: Saying) -> AsyncIterator[dict[str, Any]]:
    """Pass on what a run asks, a line each; what a run is given for that."""
    global _asker
    if not wanted:
        yield {}
        return
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours, limit=MOST_QUESTION)
        _asker = writer
        task = asyncio.ensure_future(_pass_on(reader, saying))
        try:
            yield {"ask": Asking(fd=theirs.fileno())}
        finally:
            _asker = None
            task.cancel()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, saying: Saying) -> None:
    while (line := await reader.readline()).endswith(b"\n"):
        saying.flush()  # it was said before
        say(asked=msgspec.Raw(line.strip()))


def answered(line: bytes) -> bool:
    """Whether a line was an answer for the run that goes on, which has it then."""
    try:
        said = msgspec.json.decode(line, type=Answered).said
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    if _asker is not None:
        _asker.write(msgspec.json.encode(said) + b"\n")
    return True


@contextlib.asynccontextmanager
async def within_room(left: int | None) -> AsyncIterator[None]:
    """What goes on in here ends when the tenant has more than it may. Who has too much already may take things away."""
    ours, full = asyncio.current_task(), asyncio.Event()

    async def watch(least: int) -> None:
        cost = 0.0
        while not full.is_set() and ours is not None:
            await asyncio.sleep(LOOK + 10 * cost)  # a tree that takes long to measure is measured less often
            begun = time.monotonic()
            now = await asyncio.to_thread(room)
            if now is not None and now < least:
                full.set()
                ours.cancel()
            cost = time.monotonic() - begun

    if left is None:
        yield
        return
    watching = asyncio.ensure_future(watch(min(0, left - SLACK)))
    try:
        yield
    except asyncio.CancelledError:
        if full.is_set():
            raise Wrong("no_space", "it was ended: the workspace holds more than it may") from None
        raise
    finally:
        watching.cancel()


def tightened(flags: Flags | None, left: int | None) -> Flags | None:
    """Where there is no room, files that are written end soon."""
    if left is None or left > 0:
        return flags
    known = flags or Flags()
    return msgspec.structs.replace(known, limits=(*known.limits, ("fileSize", SMALLEST)))


async def run(root: str, ask: Ask) -> None:
    """A command inside the workspace: its output as it comes, then how it ended."""
    given: dict[str, Any] = {"env": {**os.environ, **ask.env}, "input": ask.input, "timeout": ask.timeout}
    left, saying = room(), Saying()
    with placed(root, ask) as (workspace, cwd, flags):
        async with (
            within_room(left),
            asking(ask.ask, saying) as asked,
            start(ask.argv, workspace=workspace, cwd=cwd, flags=tightened(flags, left), **given, **asked) as running,
        ):
            try:
                async for chunk in running:
                    saying.add(chunk.stream, chunk.data)
            finally:  # when we are told to end, too
                saying.flush()
            outcome = await running.wait()
    gaps = [gap.what for gap in outcome.gaps]
    said = {"exitCode": outcome.exit_code, "seconds": outcome.seconds, **few(outcome.denials), "gaps": gaps}
    say(ended=outcome.ending, **said)


async def answer(root: str, line: bytes) -> None:
    """One request."""
    with answering():
        if is_run(line):
            await run(root, msgspec.json.decode(line, type=Ask))
        else:
            act(root, line)


async def serve(root: str, data: bytes) -> None:
    """What was read already, then what comes, until there are no more requests, or we are told to end."""
    loop, ours = asyncio.get_running_loop(), asyncio.current_task()
    if ours is None:
        return
    loop.add_signal_handler(signal.SIGTERM, ours.cancel)
    loop.add_reader(LIFELINE, ours.cancel)
    reader = asyncio.StreamReader(limit=MOST_LINE)
    reader.feed_data(data)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0))
    coming = asyncio.ensure_future(reader.readline())
    while (line := await coming).endswith(b"\n"):
        coming = asyncio.ensure_future(reader.readline())
        task = asyncio.ensure_future(answer(root, line))
        try:
            while not task.done():
                await asyncio.wait((task, coming), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    continue
                if not coming.result():  # a run ends when nobody is left to hear of it
                    return
                if answered(coming.result()):
                    coming = asyncio.ensure_future(reader.readline())
                else:
                    await task
            await task
        finally:
            task.cancel()
            await asyncio.wait((task,))


def carry(root: str, data: bytes) -> None:
    """Serve from here on."""
    gc.enable()  # which a short process of ours does without, and a run may take days
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(serve(root, data))
        return
    raise SystemExit(124)
