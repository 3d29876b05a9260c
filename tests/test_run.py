"""From Python: what is kept between calls, and that nothing is kept that should not be."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends import on
from tests.looking import children, until

import ringfence
from ringfence import enforce, keep, plan
from ringfence.audit.index import find
from ringfence.audit.wanted import Wanted
from ringfence.enforce import linux, lookout, process, standby
from ringfence.model.event import Ran
from ringfence.model.session import Fault
from ringfence.run import make_request
from ringfence.where import find_program

AS_ROOT = os.geteuid() == 0
STANDS_BY = pytest.mark.parametrize("workspace", ["view", "landlock"], indirect=True)  # nothing waits behind bubblewrap


@pytest.fixture(
    name="workspace", params=["view", pytest.param("bubblewrap", marks=pytest.mark.needs_bwrap), "landlock"]
)
def each_backend(request: pytest.FixtureRequest, tmp_path: Path, settled: None, unhurried: None) -> Iterator[Path]:
    """A workspace, on each backend, with nothing prepared before or after."""
    place = tmp_path / "ws"
    (place / ".git" / "hooks").mkdir(parents=True)
    (place / ".git" / "config").write_text("[core]\n")
    with on(request.param):
        yield place


def run(workspace: Path, script: str, **more: object) -> ringfence.Outcome:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    options: dict[str, object] = {"flags": flags, "capture": True, "as_root": AS_ROOT, "timeout": 30, **more}
    return ringfence.run(["sh", "-c", script], workspace=str(workspace), **options)  # type: ignore[arg-type]


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every run that a standby served."""
    seen: list[int] = []
    real = standby.Standby.resume

    def counted(self: standby.Standby, *given: object) -> linux.Launch:
        seen.append(1)
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(standby.Standby, "resume", counted)
    return seen


@STANDS_BY
def test_a_burst_of_runs_is_served_by_standbys_and_each_has_its_own_words(workspace: Path, resumed: list[int]) -> None:
    for number in range(12):
        outcome = run(workspace, f"echo {number} $X; cat; pwd; exit {number}", input=b"in\n", env={"LC_X": str(number)})
        assert outcome.stdout == f"{number}\nin\n{workspace}\n".encode()
        assert outcome.ending == ringfence.Exited(number)

    assert resumed


@STANDS_BY
def test_a_standby_has_the_same_walls(workspace: Path, resumed: list[int]) -> None:
    outside = workspace.parent / "outside"
    for _ in range(8):
        outcome = run(
            workspace, f"echo x > {outside}; echo x >> .git/config; grep -E 'Seccomp:|NoNewPrivs' /proc/self/status"
        )
        assert b"NoNewPrivs:\t1\nSeccomp:\t2\n" in (outcome.stdout or b"")
        assert not outside.exists()

    assert resumed


def test_what_was_replaced_or_appeared_between_two_runs_is_covered(workspace: Path) -> None:
    if not plan.has_view(enforce.probe()):
        return  # without a view these names are a stated gap
    for _ in range(6):
        run(workspace, "true")
    fresh = workspace / ".git" / "config.lock"
    fresh.write_text("[core]\n\tnew = 1\n")
    fresh.rename(workspace / ".git" / "config")
    (workspace / ".mcp.json").write_text("{}")

    run(workspace, "echo evil >> .git/config; echo evil >> .mcp.json")

    assert (workspace / ".git" / "config").read_text() == "[core]\n\tnew = 1\n"
    assert (workspace / ".mcp.json").read_text() == "{}"


@pytest.mark.parametrize("workspace", ["view"], indirect=True)
@pytest.mark.parametrize("name", ["held", "seen", "late"])
def test_what_a_person_denies_and_was_made_again_between_two_runs_is_covered(workspace: Path, name: str) -> None:
    """What is denied and nothing else is held by nobody: a file that comes in its place may have its number too. What
    was not there was never covered."""
    held, seen, late = (workspace / one for one in ("held", "seen", "late"))
    flags = ringfence.Flags(cwd=str(workspace), deny_write=(str(held),), deny_read=(str(seen), str(late)))
    for path in (held, seen):
        path.write_text("before")
    for _ in range(6):
        run(workspace, "true", flags=flags)
    number = (workspace / name).stat().st_ino if name != "late" else 0
    for _ in range(100):  # until it has that, where numbers are given again
        (workspace / name).unlink(missing_ok=True)
        (workspace / name).write_text("secret")
        if (workspace / name).stat().st_ino == number or not number:
            break

    outcome = run(workspace, "cat seen late; echo evil >> held", flags=flags)

    assert (b"secret" in (outcome.stdout or b""), "evil" in held.read_text()) == (False, False)


@pytest.mark.parametrize("workspace", ["landlock"], indirect=True)
def test_whoever_is_busy_for_a_while_where_a_plan_looks_is_waited_for(workspace: Path) -> None:
    """As useradd is in /etc: what a plan has seen is replaced again and again before anything can run."""
    outside, looks = workspace.parent / "outside", list[object]()
    outside.write_text("")

    def busy() -> None:
        while len(looks) < 6:
            outside.with_name("fresh").write_text("")
            outside.with_name("fresh").rename(outside)

    flags = ringfence.Flags(allow_write=(str(outside),), enforcement=ringfence.Enforcement.BEST_EFFORT)
    other = threading.Thread(target=busy)
    other.start()
    outcome = run(workspace, "true", flags=flags, on_start=looks.append)
    looks += [None] * 6
    other.join()

    assert outcome.ok, outcome


@pytest.mark.parametrize("workspace", ["view"], indirect=True)
def test_a_directory_to_start_in_that_is_hidden_is_not_waited_for(workspace: Path) -> None:
    hidden, looks = workspace / "hidden" / "below", list[object]()
    hidden.mkdir(parents=True)
    flags = ringfence.Flags(deny_read=(str(hidden.parent),))

    outcome = run(workspace, "true", flags=flags, cwd=str(hidden), on_start=looks.append)

    assert (outcome.exit_code, len(looks)) == (125, 1)
    assert str(hidden) in str(outcome.ending)
    assert [denial.origin for denial in outcome.denials] == ["--deny-read"]


def test_input_that_was_read_for_a_look_in_vain_is_there_for_the_next(workspace: Path) -> None:
    """A file that the view does not show is fed through a pipe, and the first launches are refused."""
    outside, looks = workspace.parent / "outside", list[object]()
    outside.write_text("")
    (workspace.parent / "input").write_bytes(b"x" * 300_000)

    def busy() -> None:
        while len(looks) < 3:
            outside.with_name("fresh").write_text("")
            outside.with_name("fresh").rename(outside)

    kept, given = os.dup(0), os.open(workspace.parent / "input", os.O_RDONLY)
    os.dup2(given, 0)
    other = threading.Thread(target=busy)
    other.start()
    try:
        flags = ringfence.Flags(allow_write=(str(outside),), enforcement=ringfence.Enforcement.BEST_EFFORT)
        outcome = run(workspace, "wc -c", flags=flags, on_start=looks.append, capture=True)
    finally:
        looks += [None] * 3
        os.dup2(kept, 0)
        os.close(kept)
        os.close(given)
        other.join()

    assert outcome.stdout == b"300000\n"


def test_a_name_is_watched_in_the_directory_that_stands_there_now(workspace: Path) -> None:
    """A standby's warden knows directories by what they were when it was made."""
    if not plan.has_view(enforce.probe()):
        return  # there names are judged by their paths
    directory, flags = workspace / "d", ringfence.Flags(cwd=str(workspace), deny_write=("d/later",))
    directory.mkdir()
    for _ in range(8):
        assert not run(workspace, "echo x > d/later", flags=flags).ok
    directory.rename(workspace / "away")
    directory.mkdir()

    outcome = run(workspace, "echo x > d/other; echo x > d/later", flags=flags)

    assert ((directory / "other").exists(), (directory / "later").exists()) == (True, False), outcome.stderr
    directory.rename(workspace / "further")
    directory.mkdir()
    request = make_request(str(workspace), str(workspace), flags, AS_ROOT)
    kept = keep.prepare(request)
    directory.rename(workspace / "furthest")
    directory.mkdir()
    again = keep.acquire(request, once=True)  # whose input is read cannot try twice
    keep.release(again)
    assert again is not kept


@STANDS_BY
@pytest.mark.parametrize("hosts", [(), ("example.com",)], ids=["closed", "a host"])
def test_a_missing_program_and_a_signal_are_told_by_a_standby_too(
    workspace: Path, resumed: list[int], hosts: tuple[str, ...]
) -> None:
    best = ringfence.Enforcement.BEST_EFFORT
    flags = ringfence.Flags(cwd=str(workspace), enforcement=best, allow_host=hosts)
    for _ in range(6):
        run(workspace, "true", flags=flags)
    before = len(resumed)
    missing = ringfence.run(["no-such"], workspace=str(workspace), flags=flags, capture=True, as_root=AS_ROOT)
    killed = run(workspace, "kill -9 $$", flags=flags)
    slow = run(workspace, "sleep 30", timeout=0.3, flags=flags)

    assert len(resumed) > before
    assert missing.exit_code == 127
    assert str(missing.ending) == "no-such: No such file or directory"
    assert killed.ending == ringfence.Signalled(signal.SIGKILL)
    assert slow.ending == ringfence.TimedOut(0.3)


def test_a_program_that_is_nowhere_is_looked_for_in_nobodys_home() -> None:
    """/nonexistent is that of `nobody`: where it exists it is closed, and the answer would be 126."""
    assert find_program("no-such", "/usr/bin", "/") == "/proc/nowhere/no-such"


def waiting(workspace: Path) -> standby.Standby:
    """The standby that the next run would have."""
    for _ in range(4):
        run(workspace, "true")
    (kept,) = keep._prepared.values()
    assert kept._nursery is not None
    return kept._nursery[0].take()


@STANDS_BY
def test_a_standby_ends_by_itself(workspace: Path) -> None:
    old = waiting(workspace)

    old._launch.outlast(10)

    assert old._launch.process.returncode is not None
    old.close()
    for _ in range(4):
        run(workspace, "true")
    time.sleep(1.2)  # the next one has waited for too long as well
    assert run(workspace, "echo again").stdout == b"again\n"


@STANDS_BY
def test_a_standby_that_dies_just_before_it_has_its_command_is_made_good(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = waiting(workspace)
    dead._launch.outlast()
    monkeypatch.setattr(standby.Nursery, "take", lambda _: dead)
    looks: list[keep.AtHand | None] = []
    real = keep.acquire

    def noted(request: keep.Request, once: bool = False, at_hand: keep.AtHand | None = None) -> keep.Prepared:
        looks.append(at_hand)
        return real(request, once, at_hand)

    monkeypatch.setattr(sys.modules["ringfence.run"], "acquire", noted)

    assert run(workspace, "echo made good").stdout == b"made good\n"
    assert looks[0] is not None
    assert set(looks[1:]) == {None}  # what was seen of the workspace before the first look is seen anew


@STANDS_BY
def test_a_standby_that_somebody_killed_is_made_good_and_recorded(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not its warden, which tells of its end; what stood by is not the command, and the command was not killed."""
    monkeypatch.setattr(standby.Standby, "MILLISECONDS", 60_000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    taken = waiting(workspace)
    (warden,) = children(taken._launch.process.pid)
    (below,) = children(warden)  # or the stem between them, of whose end nobody tells
    os.kill(below, signal.SIGKILL)
    assert until(lambda: select.select([taken._launch.status_fd()], [], [], 0)[0])
    real = standby.Nursery.take
    monkeypatch.setattr(standby.Nursery, "take", lambda self: taken if not taken._launch.was_standby else real(self))

    assert run(workspace, "echo made good").stdout == b"made good\n"

    log = str(tmp_path / "state/ringfence/audit")
    told = [event for event, _ in find(log, Wanted()) if isinstance(event, Ran)]
    ways = ("ended by signal 9", "gone")
    assert told[-1].again in [(f"the enactor that stood by was {way} before it had its command",) for way in ways]
    assert not any(event.again for event in told[:-1])


@STANDS_BY
def test_a_nursery_that_dies_is_made_good(workspace: Path) -> None:
    waiting(workspace).close()
    (kept,) = keep._prepared.values()
    assert kept._nursery is not None
    os.kill(kept._nursery[0]._launch.process.pid, signal.SIGKILL)

    assert [run(workspace, "echo made good").stdout for _ in range(3)] == [b"made good\n"] * 3


@pytest.mark.parametrize("workspace", ["landlock"], indirect=True)
def test_what_the_system_replaces_is_open_to_the_next_command(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, resumed: list[int]
) -> None:
    """Without a view each file of a directory with a closed one has a rule of its own, as those of /etc have."""
    etc = workspace.parent / "etc"
    etc.mkdir()
    for name in ("passwd", "shadow"):
        (etc / name).write_text("before")
    monkeypatch.setattr(lookout, "RENEWED", (str(etc),))
    monkeypatch.setattr(lookout, "_replaces", lambda *_: False)  # as for anybody but root
    closed = json.dumps({"filesystem": {"denyRead": [str(etc / "shadow")]}}).encode()
    mode = ringfence.Enforcement.BEST_EFFORT
    flags = ringfence.Flags(cwd=str(workspace), enforcement=mode, allow_read=(str(etc),), inline=(closed,))

    def told() -> bytes | None:
        return run(workspace, f"cat {etc}/passwd; cat {etc}/shadow && echo read", flags=flags).stdout

    assert [told() for _ in range(5)] == [b"before"] * 5
    assert resumed
    (etc / "passwd.new").write_text("after")
    (etc / "passwd.new").rename(etc / "passwd")

    assert [told() for _ in range(5)] == [b"after"] * 5


@STANDS_BY
def test_a_signal_from_another_thread_reaches_the_run_or_nobody(workspace: Path) -> None:
    """The descriptor that it is told by is somebody else's as soon as the run is over."""
    for _ in range(4):
        run(workspace, "true")
    launches: list[linux.Launch] = []
    faults: list[OSError] = []
    is_over = threading.Event()

    def tell() -> None:
        try:
            while not is_over.is_set():
                for launched in launches[-1:]:
                    launched.signal(signal.SIGCONT)
        except OSError as fault:
            faults.append(fault)

    ours, theirs = os.pipe()
    tellers = [threading.Thread(target=tell) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for teller in tellers:
            teller.start()
        for _ in range(40):
            assert run(workspace, "true", on_start=launches.append).ending == ringfence.Exited(0)
            taken = [os.dup(theirs) for _ in range(8)]  # the numbers that have just become free
            time.sleep(0.001)
            for fd in taken:
                os.close(fd)
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        for teller in tellers:
            teller.join()
        os.close(theirs)
    with open(ours, "rb") as told:
        assert (faults, told.read()) == ([], b"")


PRIVATE_PARTS = """
import os, signal, sys
other = int(sys.argv[1])
for what in ("mem", "environ", "maps", "fd/1", "cwd/x"):
    try:
        os.open(f"/proc/{other}/{what}", os.O_RDONLY)
        print("opened", what)
    except OSError:
        pass
for number in (0, signal.SIGKILL):
    try:
        os.kill(other, number)
        print("signalled")
    except OSError:
        pass
print("tried")
"""


def found_by_word(word: str) -> int:
    """The process with this word among its own, as the host numbers it."""

    def look() -> int:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if word.encode() in words and b"sleep" in words[0]:
                    return int(path.parent.name)
        return 0

    found = until(look)
    assert found, f"nobody says {word}"
    return found


@STANDS_BY
def test_two_runs_of_one_nursery_are_strangers(workspace: Path, resumed: list[int]) -> None:
    (workspace / "try.py").write_text(PRIVATE_PARTS)
    (workspace / "x").write_text("")
    for _ in range(6):
        run(workspace, "true")
    before = len(resumed)
    seen: list[ringfence.Outcome] = []
    living: list[enforce.Launch] = []
    word = f"{os.getpid()}.5"
    first = threading.Thread(
        target=lambda: seen.append(run(workspace, f"exec sleep {word}", on_start=living.append, timeout=60))
    )
    first.start()
    try:
        second = run(workspace, f"/usr/bin/python3 -IS try.py {found_by_word(word)}")
    finally:
        living[-1].signal(signal.SIGTERM)
        first.join()
    with subprocess.Popen(["sleep", "60"], cwd=workspace) as mine:  # and without the sandbox all of it works
        said = subprocess.check_output(["/usr/bin/python3", "-IS", "try.py", str(mine.pid)], cwd=workspace, text=True)

    assert len(resumed) >= before + 2
    assert second.stdout == b"tried\n"
    assert seen[0].ending == ringfence.Signalled(signal.SIGTERM)
    opened = [f"opened {what}" for what in ("mem", "environ", "maps", "fd/1", "cwd/x")]
    assert said.splitlines() == [*opened, "signalled", "signalled", "tried"]
    assert mine.returncode == -signal.SIGKILL


@STANDS_BY
def test_a_granted_directory_that_was_replaced_is_granted_to_the_next_run(workspace: Path, resumed: list[int]) -> None:
    granted = workspace.parent / "granted"
    granted.mkdir()
    flags = ringfence.Flags(allow_write=(str(granted),), enforcement=ringfence.Enforcement.BEST_EFFORT)
    for number in range(8):
        assert run(workspace, f"echo {number} > {granted}/x", flags=flags).ok
    granted.rename(workspace.parent / "away")
    granted.mkdir()

    assert run(workspace, f"echo new > {granted}/x", flags=flags).ok

    assert (granted / "x").read_text() == "new\n"
    assert (workspace.parent / "away" / "x").read_text() == "7\n"
    assert resumed


@STANDS_BY
def test_a_burst_leaves_no_zombie(workspace: Path, resumed: list[int]) -> None:
    others = dead_children()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert all(outcome.ok for outcome in pool.map(lambda _: run(workspace, "true"), range(64)))
    keep.forget_all()
    time.sleep(0.2)  # the end of a pid namespace takes a moment

    def counted_off() -> bool:
        if not dead_children() - others:
            return True
        process.reap()  # one that ends just now is counted off at the next look
        return False

    assert until(counted_off)
    assert resumed


def dead_children() -> set[str]:
    """The children of ours that have ended and are still there."""
    found = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread, or the child
            for pid in listed.read_text().split():
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    found.add(pid)
    return found


def test_the_callers_umask_of_the_moment_is_the_commands(workspace: Path) -> None:
    for mask in (0o022, 0o077, 0o027):
        for _ in range(5):
            run(workspace, "true")
        before = os.umask(mask)
        try:
            assert run(workspace, "umask").stdout == f"{mask:04o}\n".encode()
        finally:
            os.umask(before)


def test_the_callers_kind_of_turn_of_the_moment_is_the_commands(workspace: Path) -> None:
    for _ in range(5):
        run(workspace, "true")
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        said = run(workspace, "read -r line < /proc/self/stat; set -- ${line#*) }; shift 38; echo $1").stdout
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    assert said == b"%d\n" % os.SCHED_BATCH


INHERITED = """
import ctypes, os, sys
from ringfence.enforce import process
before = process.inheritance()
assert process.inheritance() == before
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
after = process.inheritance()
assert after != before, "a command would have had more than a child of ours"

with open("/proc/self/status", "rb") as file:
    status = file.read()
long = status.replace(b"Groups:", b"Groups:" + b" 70000" * 3000)
for mask, name in ((b"0022", "a"), (b"0077", "b")):
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(long.replace(b"SigIgn:\\t0000", b"SigIgn:\\t" + mask))
found = []
for name in "aba":
    process._telling["self"] = tuple(os.open(path, os.O_RDONLY) for path in (f"{sys.argv[1]}/{name}", "/dev/null"))
    found.append(process.inheritance())
assert found[0] == found[2] != found[1], "what comes after many groups was not read"
"""


def test_what_a_child_would_inherit_is_told_whole(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", INHERITED, str(tmp_path)], check=True, timeout=60)


def test_a_fork_of_ours_takes_nothing_with_it(workspace: Path) -> None:
    for _ in range(4):
        run(workspace, "true")
    pid = os.fork()
    if pid == 0:
        keep.forget_all()
        os._exit(0)
    os.waitpid(pid, 0)

    assert run(workspace, "echo x > $TMPDIR/x && cat $TMPDIR/x").stdout == b"x\n"


def test_a_forked_bystander_does_not_keep_a_run_alive(workspace: Path) -> None:
    forked: list[int] = []

    def fork(_: object) -> None:
        pid = os.fork()
        if pid == 0:
            time.sleep(50)
            os._exit(0)
        forked.append(pid)

    outcome = run(workspace, "trap '' TERM; sleep 60 & sleep 60", timeout=0.5, on_start=fork)
    living = [os.waitpid(pid, os.WNOHANG) for pid in forked]
    for pid in forked:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    assert outcome.ending == ringfence.TimedOut(0.5)
    assert living == [(0, 0)] * len(forked), "it was waited for"


def test_a_repository_planted_below_a_project_does_not_shake_off_its_policy(tmp_path: Path) -> None:
    project, below = tmp_path / "project", tmp_path / "project" / "below"
    (project / ".ringfence").mkdir(parents=True)
    (project / ".ringfence" / "policy.json").write_text('{"filesystem": {"denyRead": ["secret"]}}')
    (project / "secret").write_text("SECRET")
    (below / ".git").mkdir(parents=True)
    (below / ".git" / "HEAD").write_text("ref: refs/heads/main\n")

    outcome = ringfence.run(["cat", "../secret"], cwd=str(below), capture=True, as_root=AS_ROOT, timeout=30)

    assert outcome.stdout == b""


def test_a_protected_name_that_is_planted_is_refused_or_reported(workspace: Path) -> None:
    assert run(workspace, "true").planted == ()

    outcome = run(workspace, "mkdir .vscode; ln -s nowhere .mcp.json; echo x > ordinary")

    names = {str(workspace / ".vscode"), str(workspace / ".mcp.json")}
    assert set(outcome.planted) | {denial.target for denial in outcome.denials if denial.observed} == names
    assert run(workspace, "true").planted == ()


def test_many_threads_share_what_is_prepared(workspace: Path) -> None:
    seen: list[bytes | None] = []

    def work(number: int) -> None:
        seen.extend(run(workspace, f"echo {number}").stdout for _ in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen, key=str) == sorted((f"{number}\n".encode() for number in range(8) for _ in range(5)), key=str)


def test_descriptors_and_directories_do_not_grow(workspace: Path) -> None:
    def held() -> tuple[int, int]:
        ours = [made.temporary for made in keep._prepared.values() if made.temporary]
        assert all(map(os.path.isdir, ours))
        return len(os.listdir("/proc/self/fd")), len(ours)

    for _ in range(5):
        run(workspace, "true")
    before = held()
    for _ in range(40):
        run(workspace, "true")

    assert abs(held()[0] - before[0]) <= 3  # a standby comes and goes
    assert held()[1] == before[1]
    keep.forget_all()
    assert held()[1] == 0


DIES = """
import os, sys, time, ringfence
ws = sys.argv[1]
flags = ringfence.Flags(cwd=ws, enforcement=ringfence.Enforcement.BEST_EFFORT)
for _ in range(4):
    ringfence.run(["true"], workspace=ws, flags=flags, capture=True, as_root=os.geteuid() == 0)
print(os.getpid(), flush=True)
ringfence.run(["sleep", "300"], workspace=ws, flags=flags, capture=True,
              as_root=os.geteuid() == 0)
"""


def test_with_a_view_nothing_survives_when_we_are_killed(tmp_path: Path) -> None:
    marker = f"30{os.getpid()}"
    script = DIES.replace("300", marker)
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert until(lambda: alive(marker))
        process.kill()

    assert until(lambda: not alive(marker))


def alive(marker: str) -> bool:
    """Whether a `sleep` with this argument lives anywhere."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", marker.encode()]:
            return True
    return False


def test_a_workspace_may_be_a_path_and_is_never_empty(tmp_path: Path) -> None:
    ran = ringfence.run(["pwd"], workspace=tmp_path, cwd=tmp_path, capture=True, as_root=os.geteuid() == 0)

    assert (ran.exit_code, ran.stdout) == (0, f"{tmp_path}\n".encode())
    with pytest.raises(ringfence.UsageError, match="workspace: is empty"):
        ringfence.run(["pwd"], workspace="")
    with pytest.raises(ringfence.UsageError, match="cwd: is empty"):
        ringfence.run(["pwd"], workspace=tmp_path, cwd="")


REACH = """
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("reached")
    except PermissionError:
        print("refused")
"""


def test_a_socket_in_the_workspace_is_reached_where_a_policy_names_it_and_no_other(workspace: Path) -> None:
    """Also when whoever listens there came anew."""
    if not plan.has_view(enforce.probe()):
        return  # then there are no unix sockets, and a gap says so
    named, other = workspace / "run/named", workspace / "other"
    named.parent.mkdir()
    (workspace / "reach.py").write_text(REACH)
    flags = ringfence.Flags(cwd=str(workspace), allow_socket=(str(named),))
    said = []
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            for listening, path in ((first, named), (second, other)):
                listening.bind(str(path))
                listening.listen()
            said += [run(workspace, "/usr/bin/python3 reach.py run/named other", flags=flags) for _ in range(3)]
        named.unlink()
        other.unlink()

    assert [outcome.stdout for outcome in said] == [b"reached\nrefused\n"] * 9, said


@pytest.mark.parametrize("name", ["allow_read", "allow_write", "deny_read", "allow_host", "policy_files"])
@pytest.mark.parametrize("given", ["/srv", ["/srv"], (Path("/srv"),)], ids=repr)
def test_one_text_where_several_are_meant_is_not_read_by_its_letters(name: str, given: object) -> None:
    """`allow_read="/srv"` was leave to read `/`."""
    with pytest.raises(ringfence.UsageError, match=f"Flags.{name}: is ") as error:
        ringfence.Flags(**{name: given})  # type: ignore[arg-type]
    assert error.value.hint == 'it takes a tuple of texts: ("…",)'


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("network", True),
        ("enforcement", "off"),
        ("inline", b"{}"),
        ("inline", ("{}",)),
        ("limits", {"memory": "2G"}),
        ("inject", ("/a", "/b")),  # two letters each: `/` was to be shown at `a`
        ("forward", 8080),
        ("forward", ("8080",)),
        ("profile", None),
    ],
)
def test_a_flag_of_another_kind_is_told_where_it_is_given(name: str, given: object) -> None:
    with pytest.raises(ringfence.UsageError, match=f"Flags.{name}: is ") as error:
        ringfence.Flags(**{name: given})  # type: ignore[arg-type]
    assert error.value.hint.startswith("it takes ")


def test_an_error_passes_from_one_process_to_another() -> None:
    for error in (
        ringfence.PolicyError("a.toml:1", "is wrong", "look"),
        ringfence.SessionError(Fault.EXISTS, "x", "is there", "another name"),
    ):
        again = pickle.loads(pickle.dumps(error))

        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("argv", "more", "said"),
    [
        ("ls -l", {}, "command: is one string"),
        (["ls", 3], {}, "command: 3 is no word of a command"),
        (["ls", Path("x")], {}, "command: PosixPath('x') is no word"),
        (["ls", "a\0b"], {}, "command: 'a\\x00b' is no word"),
        ({"ls"}, {}, "command: is {'ls'}"),
        ({"ls": 1}, {}, "command: is {'ls': 1}"),
        (["ls"], {"input": "text"}, "input: is text"),
        (["ls"], {"input": 3}, "input: is 3"),  # it was three bytes of nothing
        (["ls"], {"workspace": 3}, "workspace: is 3"),
        (["ls"], {"workspace": "a\0b"}, "workspace: is 'a\\x00b'"),
        (["ls"], {"cwd": ["/usr"]}, "cwd: is ['/usr']"),
        (["ls"], {"timeout": "5"}, "timeout: is '5'"),
        (["ls"], {"timeout": -1}, "timeout: is -1"),
        (["ls"], {"timeout": float("nan")}, "timeout: is nan"),  # it was no limit at all
        (["ls"], {"env": ["A=1"]}, "env: is ['A=1']"),
        (["ls"], {"limits": [("memory", "2G")]}, "limits: is [('memory', '2G')]"),
        (["ls"], {"workspace": "/usr", "cwd": "/usr/none"}, "/usr/none: the command was to start there"),
        (["ls"], {"env": {"A": 1}}, "env: 'A' is 1"),
        (["ls"], {"flags": {"allow_read": ("/x",)}}, "flags: is {'allow_read'"),
    ],
    ids=str,
)
def test_what_a_program_gives_by_mistake_is_told_before_anything_is_begun(argv: Any, more: Any, said: str) -> None:
    async def begun() -> None:
        async with ringfence.start(argv, **more):
            pass

    for call in (lambda: ringfence.run(argv, **more), lambda: asyncio.run(begun())):
        with pytest.raises(ringfence.UsageError) as error:
            call()
        assert str(error.value).startswith(said)
        assert error.value.hint


@pytest.mark.parametrize("name", ["on_output", "on_denial"])
def test_what_is_to_be_called_can_be_called(name: str) -> None:
    with pytest.raises(ringfence.UsageError, match=f"{name}: is 3"):
        ringfence.run(["ls"], **{name: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{}, {"workspace": "."}, {"cwd": "x"}], ids=str)
def test_a_current_directory_that_is_gone_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Any
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(ringfence.WorkspaceError, match="the current directory: is gone"):
        ringfence.run(["true"], **more)


@pytest.mark.needs_root
@pytest.mark.needs_userns
@pytest.mark.parametrize("workspace", ["view"], indirect=True)
def test_the_warden_lets_go_of_what_it_was_handed_the_calls_by(workspace: Path) -> None:
    """Who hands them over waits for its answer, or for the end of that; where it was held twice it waited for ever."""
    held: list[str] = []

    def look(launched: enforce.Launch) -> None:
        (warden,) = children(launched.process.pid)

        def has_it() -> bool:
            with contextlib.suppress(FileNotFoundError):  # it is about to put them in their places
                held[:] = [os.readlink(f"/proc/{warden}/fd/{number}") for number in range(3, 9)]
            return "anon_inode:seccomp notify" in held

        until(has_it)
        launched.terminate()

    run(workspace, "sleep 60", on_start=look)

    assert held == ["anon_inode:seccomp notify", *["anon_inode:[signalfd]"] * 5]
