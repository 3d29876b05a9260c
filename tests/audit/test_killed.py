"""A run whose ringfence is killed is an event all the same: one, whenever it was killed."""

import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.audit.test_record import audit as audit
from tests.audit.test_record import events, run

import ringfence
from ringfence import errands, record, underway
from ringfence.model.event import Escaped, Granted, Ran
from ringfence.model.outcome import CAME

AS_ROOT = os.geteuid() == 0
SOON = 60  # seconds, in which everything here has happened

# Runs one command after the other, each with a word of its own that it writes down.
LOOP = """
import itertools, os, sys, ringfence
where, name, as_root = sys.argv[1:4]
flags = ringfence.Flags(cwd=where, allow_env=("LANG",))
for number in itertools.count():
    words = ["sh", "-c", f"echo {name}-{number} >>ran", f"word-{name}-{number}"]
    ringfence.run(words, workspace=where, flags=flags, as_root=as_root == "True")
"""


def swept(audit: Path) -> None:
    """Everything told that is left. What was being started at that moment may hold it a little longer."""
    until = time.monotonic() + SOON
    while list(audit.glob("running-*")):
        assert time.monotonic() < until
        record.sweep()
        time.sleep(0.002)


def words_of(event: Ran) -> str:
    return event.argv[3].removeprefix("word-") if event.argv else ""


def test_exactly_one_event_for_each_run_whenever_its_ringfence_is_killed(audit: Path) -> None:
    workspace, chance = audit.parents[2] / "ws", random.Random()
    for round in range(12):
        words = [sys.executable, "-c", LOOP, str(workspace), f"r{round}", str(AS_ROOT)]
        with subprocess.Popen(words) as process:
            until = time.monotonic() + SOON
            while not (workspace / "ran").exists() or f"r{round}-" not in (workspace / "ran").read_text():
                assert time.monotonic() < until
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.03))
            os.kill(process.pid, signal.SIGKILL)
    swept(audit)
    found = [event for event in events(audit, Ran) if isinstance(event, Ran)]
    told = [words_of(event) for event in found]
    silent = told.count("")
    named = [word for word in told if word]
    ran = (workspace / "ran").read_text().split()

    assert len(named) == len(set(named))
    assert len({event.run for event in found}) == len(found)
    assert len(set(ran) - set(named)) <= silent <= 12
    assert 0 < sum("was killed" in event.error for event in found) <= 12


def test_who_asks_over_http_is_told_too(audit: Path) -> None:
    """Of a run whose steward was killed nothing was in the log until the tenant ran something again."""
    workspace = audit.parents[2] / "ws"
    loop = LOOP.replace(">>ran", ">>ran; exec sleep 60")
    with subprocess.Popen([sys.executable, "-c", loop, str(workspace), "one", str(AS_ROOT)]) as process:
        until = time.monotonic() + SOON
        while not list(audit.glob("running-*")) or not (workspace / "ran").exists():
            assert time.monotonic() < until
            time.sleep(0.002)
        process.kill()

    while not (found := errands.audit("", errands.Errand(do="audit", text="was killed"))["events"]):
        assert time.monotonic() < until
        time.sleep(0.002)
    assert len(found) == 1


def killed_meanwhile(workspace: Path, audit: Path) -> int:
    """The process of a ringfence that was killed while its command ran."""
    loop = LOOP.replace(">>ran", ">>ran; exec sleep 60")
    with subprocess.Popen([sys.executable, "-c", loop, str(workspace), "one", str(AS_ROOT)]) as process:
        until = time.monotonic() + SOON
        while not any(b'"kind":"run"' in path.read_bytes() for path in audit.glob("running-*")):
            assert time.monotonic() < until
            time.sleep(0.002)
        process.kill()
    return process.pid


def test_what_is_known_of_it_is_told(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"
    pid = killed_meanwhile(workspace, audit)
    swept(audit)
    granted, ran = events(audit)[1:]

    assert isinstance(granted, Granted)
    assert isinstance(ran, Ran)
    assert (ran.run, ran.pid, words_of(ran)) == (granted.run, pid, "one-0")
    assert ran.ending is None
    assert ran.error.startswith("ringfence was killed, and nobody saw its end; it began 2")


PLANTS = (
    "mkdir -p sub/.git/objects sub/.git/refs sub/.git/rebase-merge; echo ref: refs/heads/m >sub/.git/HEAD;"
    " printf '[core]\\nfsmonitor = evil\\n' >sub/.git/config; echo '$(evil)' >sub/.git/rebase-merge/msgnum"
)


def test_what_it_left_is_looked_for_and_the_next_run_there_says_so(audit: Path) -> None:
    """Nobody ever did, and a command only has to hang until somebody kills its ringfence."""
    workspace = audit.parents[2] / "ws"
    loop = LOOP.replace(
        "echo {name}-{number} >>ran", f"touch {{name}}; until test -e b; do :; done; {PLANTS}; sleep 60"
    )
    words = [sys.executable, "-c", loop, str(workspace)]
    with (
        subprocess.Popen([*words, "a", str(AS_ROOT)]) as process,
        subprocess.Popen([*words, "b", str(AS_ROOT)]) as other,
    ):
        until = time.monotonic() + SOON
        begun = workspace / "sub/.git/rebase-merge/msgnum"
        while not begun.exists() or sum(b'"kind"' in one.read_bytes() for one in audit.glob("run*")) < 2:
            assert time.monotonic() < until
            time.sleep(0.002)
        other.kill()
        process.kill()
    record._logs.clear()  # as another process, which opens the log anew
    assert run(audit, "/nonexistent").planted == ()
    outcome = run(audit, "true")
    again = run(audit, "true")
    escaped, own = (event for event in events(audit, Escaped) if isinstance(event, Escaped))

    git = f"{workspace}/sub/.git"
    assert (outcome.planted, again.planted) == ((git,), ())
    assert [name.partition(".quarantined")[0] for name in outcome.quarantined] == [f"{git}/rebase-merge"]
    assert escaped.what == own.what == (f"{git} {CAME}",)
    assert escaped.pid in (process.pid, other.pid)  # whichever began first


def test_what_came_after_it_was_killed_is_told_of_and_stays(audit: Path) -> None:
    """It may be days until somebody looks, and who had installed a hook meanwhile lost it to --quarantine."""
    workspace = audit.parents[2] / "ws"
    hook = workspace / ".git/hooks/pre-commit"
    hook.parent.mkdir(parents=True, exist_ok=True)
    killed_meanwhile(workspace, audit)
    hook.touch()
    time.sleep(0.1)  # so that the next run is not taken for the one that changed it
    record._logs.clear()
    outcome = ringfence.run(["true"], workspace=str(workspace), as_root=AS_ROOT, quarantine=True)

    assert outcome.planted == (str(hook.parent),)
    assert outcome.quarantined == ()
    assert hook.exists()


def test_what_a_run_left_that_nobody_waited_for_is_looked_for(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"

    def fails(_stream: str, _data: bytes) -> None:
        raise TimeoutError  # an OSError that says nothing

    with pytest.raises(TimeoutError):
        ringfence.run(["sh", "-c", f"{PLANTS}; echo"], workspace=str(workspace), on_output=fails, as_root=AS_ROOT)
    ran, escaped = events(audit)[1:]

    assert isinstance(ran, Ran)
    assert isinstance(escaped, Escaped)
    assert ran.error == "nobody waited for its end"
    assert escaped.what == (f"{workspace}/sub/.git {CAME}",)
    assert run(audit, "true").planted == (f"{workspace}/sub/.git",)


@pytest.mark.parametrize("seconds", [0, 86400])
def test_one_that_was_killed_after_it_had_written_its_event_is_not_told_again(
    audit: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Nor where the clock was set back meanwhile."""
    monkeypatch.setattr(underway.Place, "end", lambda _place: None)  # as if it were killed just before
    run(audit, "true")
    for path in audit.glob("*.jsonl"):
        os.utime(path, (time.time() - seconds,) * 2)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(audit.parents[1]))
    underway._disown()  # nobody holds it any more
    swept(audit)

    assert len(events(audit, Ran)) == 1


def test_what_lives_is_left_alone_and_nothing_stays_of_what_ends(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"
    loop = LOOP.replace("itertools.count()", "range(2)")
    subprocess.run([sys.executable, "-c", loop, str(workspace), "two", str(AS_ROOT)], check=True, timeout=SOON)
    assert not list(audit.glob("running-*"))

    place = underway.begin(str(audit), "0123456789abcdef")
    assert place is not None
    subprocess.run([sys.executable, "-m", "ringfence", "log"], check=True, timeout=SOON, stdout=subprocess.DEVNULL)
    assert [path.read_bytes()[:16] for path in audit.glob("running-*")] == [b"0123456789abcdef"]
    place.end()


def test_places_are_used_again_and_a_large_event_is_not_said(audit: Path) -> None:
    first, second = (underway.begin(str(audit), run * 16) for run in "ab")
    assert first is not None
    assert second is not None
    first.end()
    second.say([b"x" * underway.SIZE])
    third = underway.begin(str(audit), "c" * 16)
    assert third is not None
    third.say([b"known", b"too"])
    found = list(underway._left(third.held.fd))

    assert [(left.run, left.lines) for left in found] == [("c" * 16, (b"known", b"too")), ("b" * 16, ())]
    second.end()
    third.end()
    assert list(underway._left(third.held.fd)) == []


def test_a_place_is_left_as_it_is_while_others_run_and_none_when_nobody_does(audit: Path) -> None:
    first, second, third = (underway.begin(str(audit), run * 16, (run.encode(),)) for run in "abc")
    assert first is not None
    assert second is not None
    assert third is not None

    def left() -> list[str]:
        return [f"{left.run[0]} {b' '.join(left.lines).decode()}" for left in underway._left(first.held.fd)]

    second.end()
    first.end()
    assert left() == ["a a", "b b", "c c"]
    fourth = underway.begin(str(audit), "d" * 16)
    assert fourth is not None
    assert left() == ["d ", "b b", "c c"]  # the new one's own, and nothing of the one before
    third.end()
    assert underway.is_busy(str(audit))
    fourth.end()
    assert left() == []
    assert not underway.is_busy(str(audit))


def test_many_threads_that_begin_and_end_never_lose_a_run_that_is_under_way(audit: Path) -> None:
    lost: list[str] = []

    def work(name: str) -> None:
        for number in range(150):
            run = f"{name}{number:015d}"
            place = underway.begin(str(audit), run)
            assert place is not None
            if os.pread(place.held.fd, 16, place.number * underway.SIZE).decode() != run:
                lost.append(run)
            time.sleep(0)
            if os.pread(place.held.fd, 16, place.number * underway.SIZE).decode() != run:
                lost.append(run)
            place.end()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    last = underway.begin(str(audit), "e" * 16)
    assert last is not None
    last.end()

    assert lost == []
    assert list(underway._left(last.held.fd)) == []


def test_one_of_many_runs_is_written_down_in_full_before_it_begins(audit: Path) -> None:
    other = underway.begin(str(audit), "0123456789abcdef")
    assert other is not None
    run(audit, "true")  # what is imported with the first
    known: list[tuple[bytes, ...]] = []

    def look(_launch: object) -> None:
        known.extend(left.lines for left in underway._left(other.held.fd) if left.run != "0123456789abcdef")

    workspace = str(audit.parents[2] / "ws")
    ringfence.run(["true"], workspace=workspace, as_root=AS_ROOT, on_start=look)
    other.end()

    assert [b'"argv":["true"]' in line for lines in known for line in lines] == [True]


def test_no_two_runs_have_one_name_also_not_of_a_fork() -> None:
    names = [record._new_name() for _ in range(200)]
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, record._new_name().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    theirs = os.read(read, 16).decode()
    os.close(read)
    os.close(write)
    names += [theirs, *(record._new_name() for _ in range(200))]

    assert len(set(names)) == len(names)


FORKS = """
import os, signal, sys, time
from ringfence import underway
underway.begin(sys.argv[1], "f" * 16)
if os.fork() == 0:
    os.close(1)
    signal.pause()
print("begun", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_fork_of_the_callers_does_not_hold_what_its_parent_left(audit: Path) -> None:
    words = [sys.executable, "-c", FORKS, str(audit)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"begun\n"
        process.wait()
        try:
            swept(audit)
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    assert [event.run for event in events(audit, Ran)] == ["f" * 16]
