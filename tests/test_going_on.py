"""Without a view: a warden that nobody has asked anything serves the next command too, and no other does."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.enforce.test_nothing_survives import is_gone, left
from tests.looking import until

import ringfence
from ringfence import enforce
from ringfence.enforce import endings, standby, wire
from ringfence.model import Ending, Plan, Step, StepKind

AS_ROOT = os.geteuid() == 0
# From the second turn on a command's parent is the stem, and the stem's the warden.
WARDEN = "read -r _ _ _ warden _ < /proc/$PPID/stat; grep Seccomp: /proc/$warden/status; echo $warden $PPID"


@pytest.fixture
def workspace(tmp_path: Path, settled: None, unhurried: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    stand_by_for(60_000, monkeypatch)  # on a busy machine the next run comes late
    place = tmp_path / "ws"
    place.mkdir()
    with on("landlock"):
        yield place


def stand_by_for(milliseconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby.Standby, "MILLISECONDS", milliseconds)
    monkeypatch.setattr(standby.Standby, "SECONDS", milliseconds * 0.0009)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The outer process of each warden that was given back."""
    seen: list[int] = []
    real = standby.Nursery.take_back

    def noted(self: standby.Nursery, pid: int, status: int, channel: object) -> bool:
        seen.append(pid)
        return real(self, pid, status, channel)  # type: ignore[arg-type]

    monkeypatch.setattr(standby.Nursery, "take_back", noted)
    return seen


def run(workspace: Path, script: str, **more: object) -> ringfence.Outcome:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    options: dict[str, object] = {"flags": flags, "capture": True, "as_root": AS_ROOT, **more}
    return ringfence.run(["sh", "-c", script], workspace=str(workspace), **options)  # type: ignore[arg-type]


def watchers_of(workspace: Path) -> tuple[int, int]:
    """The warden and the stem of the run before the next, with one standing by behind them."""
    for _ in range(6):
        said = run(workspace, WARDEN).stdout or b""
    warden, stem = map(int, said.split()[-2:])
    return warden, stem


def warden_of(workspace: Path) -> int:
    return watchers_of(workspace)[0]


def await_end(pid: int) -> None:
    assert until(lambda: has_ended(pid)), "it is still there"


def has_ended(pid: int) -> bool:
    """Whose parent was killed may be left to somebody who waits for nobody."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_commands_that_ask_nothing_have_one_warden_and_each_its_own_words(workspace: Path, kept: list[int]) -> None:
    wardens = set()
    for number in range(12):
        script = f"echo $PPID $LC_X; cat; pwd; exit {number}"
        outcome = run(workspace, script, input=b"in\n", env={"LC_X": str(number), "PATH": os.environ["PATH"]})
        warden, *rest = (outcome.stdout or b"").split()
        wardens.add(warden)
        assert rest == [str(number).encode(), b"in", str(workspace).encode()]
        assert outcome.ending == ringfence.Exited(number)

    assert len(wardens) < 12  # the first runs start programs of their own
    assert kept


def test_the_words_of_one_command_are_not_those_of_the_next(workspace: Path, kept: list[int]) -> None:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    for turn, count in enumerate((9, 0, 5, 1, 30, 2, 0, 12, 3)):
        words = ["sh", "-c", "echo $#; env", "sh", *("x" * (number + 1) for number in range(count))]
        own = {f"LC_{number}=x" for number in range(count * (turn % 3))}
        env = {"PATH": os.environ["PATH"], **dict(one.split("=") for one in own)}
        outcome = ringfence.run(words, workspace=str(workspace), flags=flags, env=env, capture=True, as_root=AS_ROOT)
        said = (outcome.stdout or b"").decode().split()
        assert said[0] == str(count)
        assert {word for word in said if word.startswith("LC_")} == own

    assert kept


IGNORING = """
import signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
"""


def test_what_was_ignored_at_first_is_ignored_at_every_turn(workspace: Path) -> None:
    """The warden's own clock rings by that signal."""
    loop = "for number in range(10): run('echo $PPID; grep SigIgn /proc/self/status')"
    words = [sys.executable, "-c", IGNORING + CALLER.partition("for number")[0] + loop, str(workspace)]
    said = subprocess.run(words, input=b"", stdout=subprocess.PIPE, check=True).stdout.split()
    wardens, ignored = {*said[0::3]}, {int(mask, 16) for mask in said[2::3]}

    assert len(said) == 30
    assert len(wardens) < 10
    assert len(ignored) == 1
    assert ignored.pop() >> signal.SIGALRM - 1 & 1


def test_the_time_of_those_before_is_not_counted(
    workspace: Path, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforce, "controllers", lambda: ())  # without a group it is added up from outside
    busy = "import time; until = time.process_time() + 0.3\nwhile time.process_time() < until: pass\ntime.sleep(0.2)"
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    argv = [sys.executable, "-I", "-S", "-c", busy]
    for _ in range(8):  # all of them together take more than one may, and each far less, on a slow machine too
        ran = ringfence.run(argv, workspace=str(workspace), flags=flags, limits={"cpu": 2}, as_root=AS_ROOT)
        assert ran.ending == ringfence.Exited(0)

    assert not kept


def test_a_failure_of_the_next_is_not_the_last_ones() -> None:
    """It may be read together with the record of the end."""
    records = (wire.READY, 9, StepKind.EXEC, 0), (wire.ENDED, 3, 1, 1), (wire.FAILED, 7, StepKind.SCOPE, 12)
    data = b"".join(wire.RECORD.pack(*record) for record in records)

    assert endings.ending_of(
        data, 0, Plan((), (), ringfence.Enforcement.REQUIRED, (), "", ()), was_standby=True
    ) == ringfence.Exited(3)


def test_more_than_the_warden_has_room_for_is_no_full_disk() -> None:
    step = Step(StepKind.NAME, "/x must not appear")
    plan = Plan((step,), (), ringfence.Enforcement.REQUIRED, (), "", ())
    data = wire.RECORD.pack(wire.FAILED, 0, StepKind.NAME, errno.ENOSPC)
    text = "/x must not appear: more names and directories are to be watched than the warden has room for"

    assert endings.ending_of(data, 0, plan, was_standby=False) == ringfence.Refused(0, "name", errno.ENOSPC, text)


@pytest.mark.parametrize(
    ("code", "was_told", "ending"),
    [
        (125, False, ringfence.Broken("its warden could not go on")),
        (125, True, ringfence.Signalled(9)),  # by us
        (128 + 9, False, ringfence.Signalled(9)),
    ],
)
def test_a_warden_that_gave_up_is_not_taken_for_a_command_that_was_killed(
    code: int, was_told: bool, ending: Ending
) -> None:
    plan = Plan((), (), ringfence.Enforcement.REQUIRED, (), "", (), has_warden=True)
    data = wire.RECORD.pack(wire.READY, 9, StepKind.EXEC, 0)

    assert endings.ending_of(data, code, plan, was_standby=False, was_told=was_told) == ending


def test_every_turn_has_the_same_walls(workspace: Path, kept: list[int]) -> None:
    outside = workspace.parent / "outside"
    script = f"""grep -E 'Seccomp|NoNewPrivs|Cap|Sig[BIC]|Umask' /proc/self/status; ls /proc/self/fd | wc -l
    cat /proc/self/limits; read -r _ _ _ _ _ session _ < /proc/$$/stat; test $session = $$ && echo leads
    kill -0 $PPID && echo signalled; cat /proc/$PPID/environ && echo read; cat {outside}"""
    outside.write_text("secret")
    outside.chmod(0)
    said = [run(workspace, script).stdout for _ in range(10)]
    bare = subprocess.run(["sh", "-c", "kill -0 $PPID && echo signalled"], capture_output=True, check=True).stdout

    assert kept
    assert len(set(said)) == 1
    lines = (said[0] or b"").splitlines()
    assert {b"Seccomp:\t2", b"Seccomp_filters:\t1", b"NoNewPrivs:\t1", b"leads"} <= {*lines}
    assert [line.split()[4:6] for line in lines if line.startswith(b"Max core file size")] == [[b"1", b"1"]]
    assert not {b"signalled", b"read", b"secret"} & {*lines}
    assert bare == b"signalled\n"


def test_a_warden_that_was_asked_something_is_shut_in_and_serves_nobody_else(workspace: Path, kept: list[int]) -> None:
    warden_of(workspace)
    kept.clear()
    said = (run(workspace, f"{WARDEN}; echo x > made; {WARDEN}").stdout or b"").split()
    assert not kept
    after = (run(workspace, "grep Seccomp: /proc/$PPID/status; echo $PPID").stdout or b"").split()

    warden, stem = said[2:4]
    assert said[:2] == [b"Seccomp:", b"0"]
    assert said[4:] == [b"Seccomp:", b"2", warden, stem]
    assert after[:2] == [b"Seccomp:", b"0"]  # the first command of another: its parent is the warden
    assert after[2] not in (warden, stem)
    await_end(int(warden))
    await_end(int(stem))
    assert kept
    assert (workspace / "made").read_text() == "x\n"


def test_who_is_left_behind_is_gone_before_the_next_command_begins(workspace: Path, kept: list[int]) -> None:
    word = f"left-{os.urandom(6).hex()}"
    for _ in range(8):
        run(workspace, f"setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done; : {word}' <&- >&- 2>&- &")
        assert not left(word)

    assert kept


def test_a_signal_for_one_command_never_reaches_the_next(workspace: Path, kept: list[int]) -> None:
    warden_of(workspace)
    kept.clear()
    launches: list[enforce.Launch] = []
    said: list[bytes] = []

    def hear(_: str, data: bytes) -> None:
        if not said:
            launches[-1].signal(signal.SIGCONT)
        said.append(data)

    script = "trap 'echo $PPID; exit' CONT; echo ready; while :; do sleep 0.01; done"
    run(workspace, script, capture=False, on_start=launches.append, on_output=hear)
    assert not kept  # neither do we
    assert not launches[-1].is_quiet  # nor does the warden

    assert run(workspace, "echo $PPID").stdout != said[-1]
    assert kept


def test_a_signal_that_crosses_the_end_in_another_thread_reaches_nobody(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other thread has seen it live, and sends while the channel goes back."""
    warden_of(workspace)
    launches: list[enforce.Launch] = []
    real = standby.Nursery.take_back

    def crossed(self: standby.Nursery, *given: object) -> bool:
        monkeypatch.setattr(launches[-1].process, "poll", lambda: False)
        launches[-1].signal(signal.SIGTERM)
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(standby.Nursery, "take_back", crossed)
    for _ in range(4):
        assert run(workspace, "sleep 0.05", on_start=launches.append).ending == ringfence.Exited(0)


def test_a_command_that_fails_to_start_or_is_killed_is_the_last(workspace: Path, kept: list[int]) -> None:
    warden_of(workspace)
    kept.clear()
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    missing = ringfence.run(["no-such"], workspace=str(workspace), flags=flags, capture=True, as_root=AS_ROOT)
    assert missing.exit_code == 127
    assert not kept
    warden_of(workspace)
    kept.clear()
    assert run(workspace, "kill -9 $$").ending == ringfence.Signalled(signal.SIGKILL)
    assert not kept


def test_what_one_command_has_used_is_not_counted_for_the_next(workspace: Path, kept: list[int]) -> None:
    for _ in range(5):
        assert run(workspace, "true", limits={"cpu": 100}).ok

    assert not kept


@pytest.mark.parametrize("which", ["warden", "stem", "outer"])
def test_a_watcher_that_dies_between_two_commands_is_made_good(workspace: Path, kept: list[int], which: str) -> None:
    warden, stem = watchers_of(workspace)
    with contextlib.suppress(ProcessLookupError):  # it waits for a second only
        os.kill({"warden": warden, "stem": stem, "outer": kept[-1]}[which], signal.SIGKILL)
    for pid in (warden, stem, kept[-1]):
        await_end(pid)

    assert run(workspace, "echo made good").stdout == b"made good\n"


@pytest.mark.parametrize("which", ["warden", "stem", "outer"])
def test_nobody_is_left_when_a_watcher_dies_while_a_later_command_runs(workspace: Path, which: str) -> None:
    warden_of(workspace)
    word = f"survivor-{os.urandom(6).hex()}"
    outer: list[int] = []

    def end_watcher(_: str, said: bytes) -> None:
        assert left(word)
        warden, stem = map(int, said.split())
        os.kill({"warden": warden, "stem": stem, "outer": outer[0]}[which], signal.SIGKILL)

    own = "read -r _ _ _ warden _ < /proc/$PPID/stat; echo $warden $PPID"
    churn = (
        f"setsid sh -c 'while :; do sleep 0.01 & sleep 0.01; done; : {word}' <&- >&- 2>&- & sleep 0.05; {own}; sleep 60"
    )
    outcome = run(
        workspace, churn, capture=False, on_output=end_watcher, on_start=lambda run: outer.append(run.process.pid)
    )

    assert not outcome.ok
    assert is_gone(word)


STARVED = """
import os, signal, sys
warden = int(open(f"/proc/{os.getppid()}/stat").read().split()[3])
for pid in (os.getppid(), warden):
    for number in (0, signal.SIGSTOP, signal.SIGCHLD, signal.SIGKILL):
        try:
            os.kill(pid, number)
            print("signalled", number)
        except PermissionError:
            pass
    for starve in (
        lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)),
        lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
    ):
        try:
            starve()
            print("starved")
        except PermissionError:
            pass
    try:
        open(f"/proc/{pid}/mem", "rb")
        print("read")
    except OSError:
        pass
print("tried", os.getppid(), warden)
"""


def test_who_stays_between_two_commands_is_out_of_their_reach(workspace: Path) -> None:
    warden, stem = watchers_of(workspace)
    said = ringfence.run(
        [sys.executable, "-I", "-S", "-c", STARVED],
        workspace=str(workspace),
        flags=ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT),
        capture=True,
        as_root=AS_ROOT,
    )

    assert said.stdout == f"tried {stem} {warden}\n".encode()


GROUPS = """
import os
for number in range(8):
    run("echo $(id -G) $PPID", input=b"")
os.setgroups([7, 8])
run("id -G", input=b"")
os.setgid(9)
run("id -G", input=b"")
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("namespaces", [False, True])
def test_groups_that_the_caller_has_no_longer_are_no_longer_the_commands(workspace: Path, namespaces: bool) -> None:
    before = CALLER.partition("for number")[0].replace("namespaces=False", f"namespaces={namespaces}")
    words = [sys.executable, "-c", before + GROUPS, str(workspace)]
    said = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.splitlines()

    assert len(said) == 10
    # In a user namespace of its own a group that is not its own has no number, and those beside it none at all.
    assert said[8].split()[0] == b"0"
    assert namespaces or said[8] == b"0 7 8"
    assert said[9].split()[0] == b"9"


CALLER = """
import os, sys, msgspec, ringfence
from ringfence import enforce
from ringfence.enforce import enactor
host = enforce.probe()
enactor._hosts[os.geteuid()] = msgspec.structs.replace(host, namespaces=False)
flags = ringfence.Flags(cwd=sys.argv[1], enforcement=ringfence.Enforcement.BEST_EFFORT)
def run(script, **more):
    return ringfence.run(["sh", "-c", script], workspace=sys.argv[1], flags=flags, as_root=os.geteuid() == 0, **more)
for number in range(20):
    run("echo $PPID")
churn = f"while :; do sleep 0.01 & sleep 0.01; done; : {sys.argv[2]}"
run(f"setsid sh -c '{churn}' & echo begun; sleep 60; : {sys.argv[2]}")
"""


def test_nobody_is_left_of_a_later_turn_when_the_caller_is_killed(workspace: Path) -> None:
    word = f"survivor-{os.urandom(6).hex()}"
    words = [sys.executable, "-c", CALLER, str(workspace), word]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        wardens = [caller.stdout.readline() for _ in range(20)]
        assert len({*wardens}) < 20
        assert caller.stdout.readline() == b"begun\n"
        others = [pid for pid in left(word) if pid != caller.pid]
        caller.kill()
    assert others
    assert is_gone(word)


def test_one_that_nobody_comes_back_to_ends_by_itself(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_by_for(1000, monkeypatch)
    for pid in watchers_of(workspace):
        await_end(pid)
    assert run(workspace, "echo again").stdout == b"again\n"
