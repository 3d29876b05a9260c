"""The asynchronous way in, and streams: as they come, both ways, without a thread and without a deadlock."""

import asyncio
import os
import resource
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.backends import on

import ringfence
from ringfence import enforce, keep
from ringfence.run import make_request

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=["view", "landlock"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, settled: None, unhurried: None) -> Iterator[Path]:
    """A workspace, on each backend, with nothing prepared before or after."""
    place = tmp_path / "ws"
    place.mkdir()
    with on(request.param):
        yield place


def options(workspace: Path) -> dict[str, object]:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    return {"workspace": str(workspace), "flags": flags, "as_root": AS_ROOT, "timeout": 30}


def run(workspace: Path, script: str, **more: object) -> ringfence.Outcome:
    return ringfence.run(["sh", "-c", script], **{**options(workspace), **more})  # type: ignore[arg-type]


def start(workspace: Path, script: str, **more: object) -> AbstractAsyncContextManager[ringfence.Running]:
    return ringfence.start(["sh", "-c", script], **{**options(workspace), **more})  # type: ignore[arg-type]


def is_alive(workspace: Path) -> bool:
    """Whether somebody still writes to `beat`."""
    beat = workspace / "beat"
    before = beat.stat().st_mtime_ns
    time.sleep(0.3)
    return beat.stat().st_mtime_ns != before


async def until_beating(workspace: Path) -> None:
    while not (workspace / "beat").exists():
        await asyncio.sleep(0.02)


BEAT = "for i in $(seq 200); do date +%s%N > beat; sleep 0.05; done"
DEAF = f"trap '' TERM; {BEAT}"


def test_a_callback_is_given_each_stream_as_bytes(workspace: Path) -> None:
    seen: list[tuple[str, bytes]] = []

    outcome = run(workspace, r"printf '\377\0x'; echo oops >&2", on_output=lambda *piece: seen.append(piece))

    assert sorted(seen) == [("stderr", b"oops\n"), ("stdout", b"\xff\0x")]
    assert (outcome.stdout, outcome.stderr) == (None, None)


def test_an_exception_in_the_callback_ends_the_tree(workspace: Path) -> None:
    class Stop(Exception):
        pass

    def stop(_stream: str, _data: bytes) -> None:
        raise Stop

    begin = time.monotonic()
    with pytest.raises(Stop):
        run(workspace, f"echo x; {BEAT.replace('200', '2000')}", on_output=stop)

    assert time.monotonic() - begin < 80  # of a hundred
    assert not is_alive(workspace) if (workspace / "beat").exists() else True


def test_both_pipes_full_and_much_input_is_no_deadlock(workspace: Path) -> None:
    data = os.urandom(3_000_000)
    script = "head -c 2000000 /dev/zero >&2 & cat; head -c 2000000 /dev/zero >&2; wait"

    outcome = run(workspace, script, capture=True, input=data)

    assert outcome.stdout == data
    assert outcome.stderr == bytes(4_000_000)


@pytest.mark.parametrize(("given", "data"), [(ringfence.Input.PIPE, "text"), (None, b"x")], ids=str)
def test_what_cannot_be_written_to_the_command_is_told(workspace: Path, given: Any, data: Any) -> None:
    async def main() -> None:
        async with start(workspace, "exit 0", input=given) as run:
            await run.write(data)

    with pytest.raises(ringfence.UsageError, match=r"^input: is "):
        asyncio.run(main())


def test_chunks_come_as_they_are_written_and_the_rest_with_the_outcome(workspace: Path) -> None:
    async def main() -> tuple[list[ringfence.Chunk], ringfence.Outcome]:
        seen = []
        async with start(
            workspace, "echo one; read x; echo two $x >&2; read y; echo rest", input=ringfence.Input.PIPE
        ) as run:
            async for chunk in run:
                seen.append(chunk)
                await run.write(b"go\n")
                if len(seen) == 2:
                    break
            run.close_input()
            return seen, await run.wait()

    seen, outcome = asyncio.run(main())

    assert seen == [ringfence.Chunk("stdout", b"one\n"), ringfence.Chunk("stderr", b"two go\n")]
    assert (outcome.ending, outcome.stdout, outcome.stderr) == (ringfence.Exited(0), b"rest\n", b"")


def test_iterating_to_the_end_gives_everything(workspace: Path) -> None:
    async def main() -> int:
        total = 0
        async with start(workspace, "head -c 5000000 /dev/zero") as run:
            async for chunk in run:
                total += len(chunk.data)
            assert (await run.wait()).stdout == b""
        return total

    assert asyncio.run(main()) == 5_000_000


def test_who_is_slow_slows_the_command_down(workspace: Path) -> None:
    async def main() -> int:
        async with start(workspace, "head -c 50000000 /dev/zero; echo > done") as run:
            await asyncio.sleep(0.5)
            held = run._held
            assert not (workspace / "done").exists()
            assert len((await run.wait()).stdout or b"") == 50_000_000
        return held

    assert asyncio.run(main()) <= (1 << 20) + (1 << 16)


def test_leaving_ends_the_tree(workspace: Path) -> None:
    async def main() -> None:
        async with start(workspace, BEAT):
            await until_beating(workspace)

    asyncio.run(main())

    assert not is_alive(workspace)


async def cancelled(workspace: Path) -> None:
    async def body() -> None:
        async with start(workspace, BEAT) as run:
            await run.wait()

    task = asyncio.create_task(body())
    await until_beating(workspace)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_twice(workspace: Path) -> None:
    async def body() -> None:
        async with start(workspace, DEAF) as run:
            await run.wait()

    task = asyncio.create_task(body())
    await until_beating(workspace)
    task.cancel()
    await asyncio.sleep(0.1)  # it is being ended, and does not hear SIGTERM
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def out_of_time(workspace: Path) -> None:
    async def body() -> None:
        async with asyncio.timeout(None) as limit, start(workspace, BEAT) as run:
            await until_beating(workspace)
            limit.reschedule(asyncio.get_running_loop().time() + 0.1)
            await run.wait()

    with pytest.raises(asyncio.TimeoutError):
        await body()


@pytest.mark.parametrize("how", [cancelled, cancelled_twice, out_of_time])
def test_a_caller_who_is_cancelled_takes_the_tree_along(
    workspace: Path, how: Callable[[Path], Awaitable[None]]
) -> None:
    async def main() -> None:
        await how(workspace)

    asyncio.run(main())

    assert not is_alive(workspace)


def test_time_and_signals_end_it_as_they_end_a_run(workspace: Path) -> None:
    async def main() -> list[ringfence.Outcome]:
        async with start(workspace, "sleep 30", timeout=0.3) as slow, start(workspace, "exec sleep 30") as signalled:
            signalled.signal(signal.SIGUSR1)
            return [await slow.wait(), await signalled.wait()]

    slow, signalled = asyncio.run(main())

    assert slow.ending == ringfence.TimedOut(0.3)
    assert signalled.ending == ringfence.Signalled(signal.SIGUSR1)


def test_what_cannot_be_started_is_told(workspace: Path) -> None:
    async def main() -> ringfence.Outcome:
        async with ringfence.start(["no-such"], **options(workspace)) as run:  # type: ignore[arg-type]
            return await run.wait()

    assert asyncio.run(main()).exit_code == 127


def test_a_swap_between_look_and_launch_is_looked_at_again(workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)

    async def main() -> list[bytes | None]:
        seen = []
        for number in range(4):
            async with start(workspace, f"echo {number}") as run:
                seen.append((await run.wait()).stdout)
            (workspace / ".git").rename(workspace / f"old{number}")
            (workspace / ".git" / "hooks").mkdir(parents=True)
        return seen

    assert asyncio.run(main()) == [f"{number}\n".encode() for number in range(4)]


@pytest.mark.slow
def test_five_hundred_at_once_without_a_thread(workspace: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for _ in range(4):
        run(workspace, "true")
    keep.forget_all()
    before = len(os.listdir("/proc/self/fd"))  # with what is opened once for all runs
    threads = threading.active_count()  # of other tests
    together = asyncio.Event()

    async def one(number: int, waiting: list[int]) -> bytes | None:
        async with start(workspace, f"read x; echo {number}", input=ringfence.Input.PIPE) as run:
            waiting.append(number)
            if len(waiting) == 500:
                together.set()
            await together.wait()
            await run.write(b"\n")
            return (await run.wait()).stdout

    async def main() -> list[bytes | None]:
        waiting: list[int] = []
        found = await asyncio.gather(*(one(number, waiting) for number in range(500)))
        assert threading.active_count() <= threads
        return found

    try:
        assert asyncio.run(main()) == [f"{number}\n".encode() for number in range(500)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    keep.forget_all()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_one_swap_makes_one_new_plan_however_many_run_into_it(workspace: Path) -> None:
    """Each of many whose walls turn out to be wrong looks again: at what the first of them saw anew."""
    (workspace / ".git" / "hooks").mkdir(parents=True)
    run(workspace, "true")
    (workspace / ".git").rename(workspace / "old")
    (workspace / ".git" / "hooks").mkdir(parents=True)
    made: set[keep.Prepared] = set()

    async def one() -> bytes | None:
        async with start(workspace, "read x; echo ran", input=ringfence.Input.PIPE) as running:
            made.add(running._living._made)
            await running.write(b"\n")
            return (await running.wait()).stdout

    async def main() -> list[bytes | None]:
        return await asyncio.gather(*(one() for _ in range(12)))

    assert asyncio.run(main()) == [b"ran\n"] * 12
    assert len(made) <= 2


def test_what_is_planned_for_anew_holds_no_object_twice(workspace: Path) -> None:
    request = make_request(str(workspace), str(workspace), as_root=AS_ROOT)
    first = keep.acquire(request)
    before = len(os.listdir("/proc/self/fd"))

    first.until = 0.0
    second = keep.acquire(request)
    more = len(os.listdir("/proc/self/fd")) - before
    keep.release(first)
    keep.release(second)

    assert second is not first
    assert more <= 2  # a temporary directory of its own
    assert set(second.held) <= set(map(int, os.listdir("/proc/self/fd")))


def test_the_tree_ends_when_no_descriptor_is_left(workspace: Path) -> None:
    class Stop(Exception):
        pass

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    run(workspace, "true")  # so that nothing is left to be imported

    def stop(_launch: object) -> None:
        while not (workspace / "beat").exists():
            time.sleep(0.02)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        raise Stop

    try:
        with pytest.raises(Stop):
            run(workspace, DEAF, on_start=stop)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert not is_alive(workspace)


def test_one_that_stood_by_tells_what_it_refused(workspace: Path) -> None:
    (workspace / ".git" / "hooks").mkdir(parents=True)
    stood_by: list[bool] = []

    def note(launched: enforce.Launch) -> None:
        stood_by.append(launched.was_standby)

    outcomes = [run(workspace, "echo x > .bashrc", on_start=note, timeout=None) for _ in range(5)]

    assert set(stood_by) == {False, True}
    told = [{os.path.basename(denial.target) for denial in outcome.denials} for outcome in outcomes]
    assert told == [{".bashrc"}] * 5
