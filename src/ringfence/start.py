"""The asynchronous way to run a command: the same launch and the same supervisor as `run`, waited for by asyncio.

No thread is started but for `siblings`, and nothing blocks but the launch itself and the look after the end, some
milliseconds of work each.
"""

import contextlib
import enum
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from . import plan, policy
from .job import STREAM_NAMES, AnyPath, Job, make_job, rewind
from .keep import environment
from .model import Asking, Outcome, UsageError
from .record import Record
from .run import PAUSES, Living, check_values, check_words, launch, make_request, with_limits

LOOK = 0.005  # seconds of looking for what was left behind, in which nothing else goes on
HELD = 1 << 20  # of output that nobody has asked for yet, and of input that the command has not read yet


class Input(enum.Enum):
    """What the command reads, when it is not bytes."""

    PIPE = "pipe"  # what `write` gives it


class Chunk(msgspec.Struct, frozen=True):
    """A piece of output as it came."""

    stream: str  # "stdout" or "stderr"
    data: bytes


class Running:
    """A living run. Iterate over it for its output as it comes; `wait` for its end, with the output that is left."""

    def __init__(
        self,
        living: Living,
        job: Job,
        timeout: float | None,
        finish: bool,
        record: Record | None,
    ) -> None:
        import asyncio  # 24 ms, which `ringfence run` need not pay

        self._living, self._job, self._record = living, job, record
        self._outcome: Outcome | None = None
        self._chunks: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self._is_collecting = False
        self._error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._registered: dict[int, int] = {}
        self._soon: set[int] = set()  # what epoll does not take: regular files, which are always ready
        self._timer: asyncio.TimerHandle | None = None
        self._supervisor = living.launch.supervise(
            self._keep, job.data or b"", living.timeout(timeout), living.output(), finish
        )
        self._update()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Chunk]:
        while await self._until(lambda: bool(self._chunks) or self._supervisor.is_over) and self._chunks:
            number, data = self._chunks.popleft()
            self._held -= len(data)
            self._update()
            yield Chunk(STREAM_NAMES[number], data)

    async def wait(self) -> Outcome:
        """The outcome, with the output that was not iterated over."""
        self._is_collecting = True
        self._update()
        await self._until(lambda: self._supervisor.is_over)
        if self._outcome is None:
            out, err = (b"".join(data for to, data in self._chunks if to == number) for number in (1, 2))
            kept = (out, err) if self._job.capture else (None, None)
            found = self._living.outcome(self._living.launch.ending(), *kept)
            if self._record is not None:  # else whoever ran it has seen to that
                found = self._record.searched(found, False, *self._living.known())
                found = self._record.keep(found)
            self._outcome = found
        return self._outcome

    async def write(self, data: bytes) -> None:
        """Give the command something to read; returns when it, or the pipe, has taken most of it."""
        check_values(None, None, data, None)
        give = self._supervisor.input
        if give is None:
            raise UsageError("input", "is that of this process", hint="start(…, input=ringfence.Input.PIPE)")
        if give.is_over:
            raise BrokenPipeError("the command reads no more")
        give.add(data)
        self._update()
        await self._until(lambda: give.held <= HELD or give.is_over)

    def close_input(self) -> None:
        """There is no more to read."""
        if self._supervisor.input is not None:
            self._supervisor.input.finish()
            self._update()

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        self._living.launch.signal(number)

    async def is_stale(self) -> bool:
        """Wait until the command runs or cannot; whether it cannot because the disk is not as we saw it."""
        launched = self._living.launch
        await self._until(lambda: launched.is_ready or self._supervisor.is_over)
        return not launched.is_ready and self._living.is_stale(launched.ending())

    async def end(self) -> None:
        """End the tree: SIGTERM, and SIGKILL for what is left after a moment, or when we are cancelled again."""
        self._is_collecting = True
        self._supervisor.end()
        self._update()
        try:
            await self._until(lambda: self._supervisor.is_over)
        finally:
            if not self._supervisor.is_over:
                self._supervisor.kill()
            self._unregister()

    def _keep(self, number: int, data: bytes) -> None:
        self._chunks.append((number, data))
        self._held += len(data)

    async def _until(self, is_true: Callable[[], bool]) -> bool:
        while not is_true():
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()
        return True

    def _happened(self, fd: int, events: int) -> None:
        self._soon.discard(fd)
        try:
            self._supervisor.happened(fd, events)
        except BaseException as error:
            self._fail(error)
            raise
        self._update()

    def _tick(self) -> None:
        self._supervisor.tick()
        self._update()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._supervisor.kill()
        self._update()

    def _update(self) -> None:
        """Wait for what the supervisor wants now."""
        self._supervisor.pause(self._held > HELD and not self._is_collecting)
        self._changed.set()
        if self._supervisor.is_over:
            self._unregister()
            return
        self._register({fd: events for fd, events in self._supervisor.wants().items() if events})
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        until = self._supervisor.deadline()
        if until is not None:
            self._timer = self._loop.call_later(max(0.0, until - time.monotonic()), self._tick)

    def _register(self, wanted: dict[int, int]) -> None:
        loop = self._loop
        for event, add, remove in (
            (select.POLLIN, loop.add_reader, loop.remove_reader),
            (select.POLLOUT, loop.add_writer, loop.remove_writer),
        ):
            before = {fd for fd, events in self._registered.items() if events & event}
            now = {fd for fd, events in wanted.items() if events & event}
            for fd in before - now:
                remove(fd)
            for fd in now - before:
                try:
                    add(fd, self._happened, fd, event)
                except PermissionError:
                    wanted = {**wanted, fd: 0}  # so that it is tried again the next time
                    if fd not in self._soon:
                        self._soon.add(fd)
                        loop.call_soon(self._happened, fd, event)
        self._registered = wanted

    def _unregister(self) -> None:
        self._register({})
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@contextlib.asynccontextmanager
async def start(
    argv: Sequence[str],
    *,
    workspace: AnyPath | None = None,
    cwd: AnyPath | None = None,
    env: Mapping[str, str] | None = None,
    flags: policy.Flags | None = None,
    capture: bool = True,
    input: bytes | Input | None = None,
    timeout: float | None = None,
    limits: Mapping[str, float | str] | None = None,
    as_root: bool = False,
    ask: Asking | None = None,
    siblings: bool = False,
) -> AsyncIterator[Running]:
    """Run a command inside its workspace while other things go on; leaving ends it, and everything it started. `ask`
    and `siblings` are as for `run`.

    >>> async with ringfence.start(["make"]) as running:  # doctest: +SKIP
    ...     async for chunk in running:
    ...         print(chunk.stream, chunk.data)
    ...     outcome = await running.wait()
    """
    check_words(argv)
    data = b"" if isinstance(input, Input) else input
    check_values(env, flags, data, timeout)
    flags = msgspec.structs.replace(flags or policy.Flags(), ask=True) if ask else flags
    request = make_request(workspace, cwd, with_limits(flags, limits), as_root)
    request = msgspec.structs.replace(request, siblings=True) if siblings else request
    job = make_job(argv, request, env, capture, data)
    job = msgspec.structs.replace(job, asking=ask) if ask else job
    finish = not isinstance(input, Input)
    beside = await _ask(job) if plan.SIBLINGS in environment() else None
    if beside is not None:
        with beside:
            running = Running(beside, job, timeout, finish, None)
            try:
                yield running
            finally:
                await running.end()
        return
    with Record(job.request, argv, job.environ) as record:
        record.most = LOOK
        for pause in PAUSES:
            if pause:
                await _sleep(pause)
                rewind(job)
            async with _attempt(job, timeout, finish, record) as running:
                if not await running.is_stale() or pause == PAUSES[-1]:
                    yield running
                    return
                record.begin().tried(running._living.launch.ending())


async def _ask(job: Job) -> Living | None:
    """A run beside the one that we are in, if there can be one: not a Living, but as good as one."""
    import asyncio

    from .within import ask

    asked: Any = ask(job)
    loop = asyncio.get_running_loop()
    if asked is None:
        return None
    if asked.is_put:
        said = asyncio.Event()
        loop.add_reader(asked.link, said.set)
        try:
            await said.wait()
        except BaseException:
            loop.remove_reader(asked.link)
            asked.close()
            raise
        loop.remove_reader(asked.link)
    return cast("Living | None", asked.answered())


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def _attempt(job: Job, timeout: float | None, finish: bool, record: Record) -> AsyncIterator[Running]:
    with launch(job) as living:
        record.has_run = True
        running = Running(living, job, timeout, finish, record)
        try:
            living.renew()
            record.begin()
            yield running
        finally:
            await running.end()
