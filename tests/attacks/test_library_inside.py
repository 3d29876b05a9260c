"""A program inside a run that uses us as a library: its runs are beside that one, as those of the command are."""

import json
import socket
import time

import pytest
from tests.attacks.everybody import BASE
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.attacks.test_siblings import Outer, living, until
from tests.attacks.test_siblings import mark as mark
from tests.attacks.test_siblings import outer as outer

from ringfence import within
from ringfence.job import make_job, make_request
from ringfence.model import LaunchError

pytestmark = pytest.mark.usefixtures("installed")

HEAD = f"""
import asyncio, json, os, signal, sys, threading, time
sys.path.insert(0, {str(BASE / "lib")!r})
import ringfence
from ringfence import Flags, run, start

assert "RINGFENCE_SIBLINGS" in os.environ

def sh(script, **more):
    return run(["sh", "-c", script], **more)
"""


def program(outer: Outer, text: str, *options: str) -> str:
    (outer.workspace / "program.py").write_text(HEAD + text)
    code, said = outer.run("--allow-read", str(BASE / "lib"), *options, script="/usr/bin/python3 -I program.py")
    assert code == 0, said
    return said


def test_it_is_held_by_the_narrower_policy_and_its_outcome_is_told(outer: Outer) -> None:
    place = outer.home / "x"
    text = f"""
flags = Flags(deny_read=("sub",), cwd=os.getcwd())
found = sh("cat sub/s {place}/f; echo said; echo to the other >&2; exit 3", capture=True, flags=flags)
print(json.dumps([found.exit_code, found.stdout.decode(), found.stderr.decode(), bool(found.in_force)]))
print(open("sub/s").read(), open("{place}/f").read())
"""

    first, *rest = program(outer, text, "--allow-read", str(place)).splitlines()

    code, out, err, has_walls = json.loads(first)
    assert (code, out, has_walls) == (3, "said\n", True)
    assert err.endswith("to the other\n")
    assert "of-the-outer" not in first
    assert "in-sub" in rest[0]


def test_streams_timeouts_and_errors_are_as_of_any_run(outer: Outer) -> None:
    text = """
print(run(["cat"], input=b"given " * 100_000, capture=True).stdout == b"given " * 100_000)
pieces = []
run(["sh", "-c", "echo one; echo two >&2"], on_output=lambda stream, data: pieces.append((stream, data)))
print(sorted(pieces) == [("stderr", b"two\\n"), ("stdout", b"one\\n")])
print(type(sh("sleep 60", timeout=0.5, capture=True).ending).__name__)
print(type(sh("sleep 60", limits={"timeout": 0.5}, capture=True).ending).__name__)
print(type(sh("kill -TERM $$", capture=True).ending).__name__)
print(sh("head -c 5000 /dev/zero", limits={"output": 1000}, capture=True).is_truncated)
print(run(["nowhere-to-be-found"], capture=True).exit_code)
sys.stdout.flush()
print(sh("echo inherited").ok)
try:
    sh("true", flags=Flags(allow_read=("relative\\0",), cwd=os.getcwd()))
except ringfence.RingfenceError as error:
    print(type(error).__name__)
"""

    said = program(outer, text).split()

    assert said[:7] == ["True", "True", "TimedOut", "TimedOut", "Signalled", "True", "127"], said
    assert said[7:9] == ["inherited", "True"], said
    assert said[9].endswith("Error"), said


def test_the_asynchronous_one_asks_too(outer: Outer) -> None:
    text = """
async def one(number):
    flags = Flags(deny_read=("sub",), cwd=os.getcwd())
    script = "cat sub/s; read word; echo got $word; trap 'echo heard; exit 7' USR1; while :; do sleep 0.1; done"
    said = b""
    async with start(["sh", "-c", script], input=ringfence.Input.PIPE, flags=flags) as running:
        await running.write(b"%d\\n" % number)
        async for chunk in running:
            if chunk.stream == "stdout":
                said += chunk.data
            if b"got" in said:
                break
        await asyncio.sleep(0.3)
        running.signal(signal.SIGUSR1)
        found = await running.wait()
    return said + found.stdout, found.exit_code

async def main():
    print(await asyncio.gather(*(one(number) for number in range(4))))

asyncio.run(main())
"""

    said = program(outer, text)

    assert said.strip() == str([(b"got %d\nheard\n" % number, 7) for number in range(4)]), said


def test_what_is_left_of_it_ends_it(outer: Outer, mark: str) -> None:
    text = f"""
async def main():
    async with start(["sh", "-c", "trap '' TERM; sleep {mark} & sleep {mark}"]) as running:
        await asyncio.sleep(1)

asyncio.run(main())
threading.Timer(1.0, os._exit, (0,)).start()
sh("sleep {mark}")
"""
    begun = time.monotonic()

    program(outer, text)

    assert until(lambda: not living(mark))
    assert time.monotonic() - begun < 15


def test_where_it_cannot_be_beside_it_is_as_before(outer: Outer) -> None:
    text = """
os.makedirs(os.environ["TMPDIR"] + "/own")
os.chdir(os.environ["TMPDIR"] + "/own")
print(sh("echo made > made", capture=True).ok)
"""
    said = program(outer, text)

    assert said.split() == [str(outer.walls == "view")], said


def test_whoever_is_gone_before_it_has_read_all_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(within, "put", lambda link, *_, **__: bool(link.send(b"a question")))
    job = make_job(["true"], make_request("/", "/", None, True), {}, False, None)
    asked = within.Question(job, ours)
    theirs.close()

    beside = asked.answered()

    assert beside is not None
    with beside, pytest.raises(LaunchError, match="killed"):
        beside.launch.wait()


def test_whoever_is_cancelled_before_it_is_answered_leaves_nothing_open(outer: Outer, mark: str) -> None:
    text = f"""
async def one():
    async with start(["sleep", "{mark}"]) as running:
        await running.wait()

async def main():
    told = []
    for _ in range(4):
        task = asyncio.create_task(one())
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait([task])
        told.append(len(os.listdir("/proc/self/fd")))
    print(len(set(told[1:])), told)

asyncio.run(main())
"""
    assert program(outer, text).split()[0] == "1"
    assert until(lambda: not living(mark))
