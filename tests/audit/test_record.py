"""What a run leaves in the audit log: its events, each once, before anybody is told of its end."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ringfence
from ringfence import keep, record, recording
from ringfence.audit.chain import verify
from ringfence.audit.index import find
from ringfence.audit.wanted import Wanted
from ringfence.model.event import AnyEvent, Changed, Denied, Escaped, Granted, Ran

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    return tmp_path / "state" / "ringfence" / "audit"


def run(audit: Path, *argv: str, **flags: object) -> ringfence.Outcome:
    workspace = str(audit.parents[2] / "ws")
    given = ringfence.Flags(cwd=workspace, **flags)  # type: ignore[arg-type]
    return ringfence.run(argv, workspace=workspace, flags=given, capture=True, as_root=AS_ROOT, timeout=30)


def events(audit: Path, kind: type[AnyEvent] | None = None) -> list[AnyEvent]:
    assert verify(str(audit)).faults == ()
    return [event for event, _ in find(str(audit), Wanted()) if kind is None or isinstance(event, kind)]


def test_a_run_is_one_event(audit: Path) -> None:
    run(audit, "sh", "-c", "exit 3")
    (event,) = events(audit)[1:]

    assert isinstance(event, Ran)
    assert (event.argv, event.exit_code, event.ending) == (("sh", "-c", "exit 3"), 3, ringfence.Exited(3))
    assert event.workspace == event.cwd == str(audit.parents[2] / "ws")
    assert event.seconds > 0


def test_what_belongs_to_a_run_has_its_number(audit: Path) -> None:
    name = ".vscode"
    run(audit, "sh", "-c", f"mkdir {name}", allow_env=("LANG",))
    granted, ran, denied = events(audit)[1:]

    assert isinstance(granted, Granted)
    assert isinstance(ran, Ran)
    assert isinstance(denied, Denied)
    assert granted.run == ran.run == denied.run != ""
    assert granted.grants == ("--allow-env LANG",)
    assert ran.denials == 1
    assert denied.denial.target.endswith(name)
    assert denied.denial.observed


def test_secrets_in_words_and_variables_do_not_get_there(audit: Path) -> None:
    secret = "a-secret-that-nobody-writes-down"
    workspace = str(audit.parents[2] / "ws")
    environ = {**os.environ, "MY_TOKEN": secret}
    ringfence.run(["true", "--password", "hunter2hunter2", f"x{secret}"], workspace=workspace, env=environ,
                  capture=True, as_root=AS_ROOT)  # fmt: skip
    text = b"".join(path.read_bytes() for path in audit.iterdir())

    assert b"hunter2hunter2" not in text
    assert secret.encode() not in text


def test_secrets_in_what_was_refused_do_not_get_there(audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command puts them into a path or a host, and the guard into its reasons."""
    secret, token = "a-secret-that-nobody-writes-down", "ghp_0123456789abcdefghijABCDEFGHIJ"
    workspace = str(audit.parents[2] / "ws")
    environ = {**os.environ, "MY_TOKEN": secret}
    os.mkdir(f"{workspace}/closed")
    outcome = ringfence.run(
        ["sh", "-c", f"cd closed; echo x > $PWD/$MY_TOKEN; echo x > $PWD/{token}"], workspace=workspace, env=environ,
        capture=True, as_root=AS_ROOT, cwd=workspace,
        flags=ringfence.Flags(cwd=workspace, allow_env=("MY_TOKEN",), deny_write=("closed",)),
    )  # fmt: skip
    assert any(secret in denial.target for denial in outcome.denials)
    monkeypatch.setenv("MY_TOKEN", secret)
    record.call_refused(workspace, "Bash", f"rm /opt/{secret}", [f"it writes '/opt/{secret}'", f"/opt/token: {token}"])
    said = [event.denial for event in events(audit, Denied) if isinstance(event, Denied)]

    assert (said[-1].reason, said[-1].target) == (
        "it writes '/opt/[MY_TOKEN]'; /opt/token: [redacted]",
        "Bash rm /opt/[MY_TOKEN]",
    )
    assert any("/closed/[MY_TOKEN]" in denial.target for denial in said)
    text = b"".join(path.read_bytes() for path in audit.iterdir())
    assert secret.encode() not in text
    assert token.encode() not in text


def test_a_run_without_walls_is_an_escape(audit: Path) -> None:
    run(audit, "true", enforcement=ringfence.Enforcement.OFF)

    assert [event.what for event in events(audit, Escaped) if isinstance(event, Escaped)] == [("nothing was enforced",)]


def test_what_appears_and_runs_code_later_is_an_escape(audit: Path) -> None:
    run(audit, "sh", "-c", "git init -q deep && git -C deep config core.fsmonitor ./evil")
    escaped = events(audit, Escaped)

    assert len(escaped) == 1
    assert isinstance(escaped[0], Escaped)
    assert "deep" in escaped[0].what[0]


def test_a_run_that_is_refused_is_recorded_with_why(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"
    (workspace / ".ringfence").mkdir()
    (workspace / ".ringfence" / "policy.json").write_text("{nonsense")
    with pytest.raises(ringfence.PolicyError):
        run(audit, "true")
    (event,) = events(audit, Ran)

    assert isinstance(event, Ran)
    assert "policy.json" in event.error
    assert event.ending is None


def test_a_changed_policy_file_is_an_event_once(audit: Path) -> None:
    policy = audit.parents[2] / "own.json"
    for text in ("{}", "{}", '{"filesystem": {"denyRead": ["/opt"]}}'):
        policy.write_text(text)
        run(audit, "true", policy_files=(str(policy),))
        recording._last.clear()  # as another process would see it
    run(audit, "true")

    changes = [event for event in events(audit, Changed) if isinstance(event, Changed)]
    assert [len(change.policies) for change in changes] == [1, 1, 0]
    assert changes[0].policies[0].startswith(f"{policy} ")
    assert changes[0].policies != changes[1].policies


def test_an_asynchronous_run_is_recorded_whether_anybody_waits_or_not(audit: Path) -> None:
    workspace = str(audit.parents[2] / "ws")

    async def both() -> None:
        async with ringfence.start(["sh", "-c", "exit 4"], workspace=workspace, as_root=AS_ROOT) as running:
            await running.wait()
            await running.wait()
        async with ringfence.start(["sleep", "30"], workspace=workspace, as_root=AS_ROOT):
            pass

    asyncio.run(both())
    first, second = (event for event in events(audit, Ran) if isinstance(event, Ran))

    assert first.exit_code == 4
    assert second.error == "nobody waited for its end"


def test_a_log_that_cannot_be_written_is_a_gap_and_the_run_goes_on(audit: Path) -> None:
    audit.parent.mkdir(parents=True)
    audit.write_text("a file in its place")
    outcome = run(audit, "true")

    assert outcome.ok
    (why,) = [gap.why for gap in outcome.gaps if gap.what == "a record of the run"]
    assert "XDG_STATE_HOME leads to another place" in why


def test_where_it_cannot_be_remembered_that_policies_changed_the_next_run_finds_it(tmp_path: Path) -> None:
    """On a full disk the run's own outcome was lost for it."""
    given = str(tmp_path), "/ws", ("/ws/policy.json 0123",), {"at": "", "workspace": "/ws"}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        assert recording._changes(*given) == []
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert [type(event) for event in recording._changes(*given)] == [Changed]


@pytest.mark.timeout(20)
def test_a_pipe_where_the_last_policies_are_kept_is_not_waited_for(tmp_path: Path) -> None:
    """The run was over, and its ringfence did not end, by no signal but one."""
    given = str(tmp_path), "/ws", ("/ws/policy.json 0123",), {"at": "", "workspace": "/ws"}
    recording._changes(*given)
    (kept,) = tmp_path.iterdir()
    kept.unlink()
    os.mkfifo(kept)

    assert recording._changes(*given) == []


LATE = """
import sys, ringfence
from ringfence import record, recording
where, as_root = sys.argv[1], sys.argv[2] == "True"

def unwritable(self, events, durable=False):
    raise OSError(28, "No space left on device")

def run(*words):
    flags = ringfence.Flags(cwd=where, allow_env=("LANG",))
    return ringfence.run(words, workspace=where, flags=flags, capture=True, as_root=as_root, timeout=30)

run("true")
(log,) = record._logs.values()
real, type(log).append = type(log).append, unwritable
outcome = run("sh", "-c", "cat .git/hooks/x; touch .git/hooks/y; exit 3", *sys.argv[3:])
assert [gap.why for gap in outcome.gaps if gap.what == "a record of the run"], outcome.gaps
type(log).append = real
run("sh", "-c", "exit 4")
"""


@pytest.mark.parametrize("words", [(), ("x" * 9000, "y" * 9000)], ids=["few words", "many words"])
def test_what_could_not_be_written_is_written_when_it_can_be(audit: Path, words: tuple[str, ...]) -> None:
    workspace = audit.parents[2] / "ws"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", LATE, str(workspace), str(AS_ROOT), *words], check=True)

    ran = [event for event in events(audit, Ran) if isinstance(event, Ran)]
    assert [event.exit_code for event in ran] == [0, 4, 3]
    assert ran[-1].error == "the log could not be written when it ended"
    assert len({event.run for event in ran}) == 3
    denied = [event for event in events(audit, Denied) if isinstance(event, Denied) and event.run == ran[-1].run]
    assert len(denied) == ran[-1].denials
    assert [event.run for event in events(audit, Granted)] == [event.run for event in ran]
    assert not list(audit.glob("running-*"))


def test_what_a_process_could_not_write_before_its_end_is_written_by_another(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    script = LATE.partition("type(log).append = real")[0]
    subprocess.run([sys.executable, "-c", script, str(workspace), str(AS_ROOT)], check=True)
    record.sweep()

    assert [event.exit_code for event in events(audit, Ran) if isinstance(event, Ran)] == [0, 3]
    assert not list(audit.glob("running-*"))


def test_inside_a_run_the_log_is_out_of_reach_and_nobody_complains(
    audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit.parent.mkdir(parents=True)
    audit.write_text("what an outer run shows there")
    monkeypatch.setenv("RINGFENCE", "1")

    assert record.changed("/ws", "trusted", "/ws/p", "00") == ""


def test_a_fork_has_a_log_of_its_own(audit: Path) -> None:
    run(audit, "true")
    pid = os.fork()
    if pid == 0:
        run(audit, "sh", "-c", "exit 1")
        keep.forget_all()
        os._exit(0)
    run(audit, "sh", "-c", "exit 2")
    os.waitpid(pid, 0)

    assert sorted(event.exit_code for event in events(audit, Ran) if isinstance(event, Ran)) == [0, 1, 2]


REPORTING = """
import os, sys
import ringfence
outcome = ringfence.run(["sh", "-c", "exit 7"], workspace=sys.argv[1], capture=True, as_root=os.geteuid() == 0)
os.write(1, b"reported\\n")
os.kill(os.getpid(), 9)
"""


def test_a_run_that_was_reported_is_in_the_log_when_we_are_killed(audit: Path) -> None:
    workspace = audit.parents[2] / "ws"
    done = subprocess.run([sys.executable, "-c", REPORTING, workspace], capture_output=True, timeout=30)

    assert (done.stdout, done.returncode) == (b"reported\n", -signal.SIGKILL)
    assert [event.exit_code for event in events(audit, Ran) if isinstance(event, Ran)] == [7]


@pytest.mark.slow
def test_two_hundred_runs_at_once_lose_no_event(audit: Path) -> None:
    script = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import ringfence
def one(number):
    return ringfence.run(["sh", "-c", "exit 0", f"{sys.argv[2]}-{number}"], workspace=sys.argv[1], capture=True,
                         as_root=os.geteuid() == 0, timeout=140).exit_code
with ThreadPoolExecutor(25) as pool:
    assert set(pool.map(one, range(25))) == {0}
"""
    workspace = str(audit.parents[2] / "ws")
    command = [sys.executable, "-c", script, workspace]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: subprocess.run([*command, str(n)], capture_output=True, timeout=150), range(8)))
    assert {each.returncode for each in done} == {0}, done

    named = {event.argv[3] for event in events(audit, Ran) if isinstance(event, Ran)}
    assert named == {f"{one}-{other}" for one in range(8) for other in range(25)}
