"""The hook that stays: it says the same, sees a changed policy, and is done without whenever something is odd."""

import errno
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

from ringfence.cli import hook, warm

PROGRAM = Path(sys.executable).parent / "ringfence"


class Ground:
    """A worktree, and a directory for sockets."""

    def __init__(self, base: Path) -> None:
        self.root, self.runtime = base / "w", base / "run"
        (self.root / ".git").mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        self.runtime.mkdir(mode=0o700)

    def ask(self, command: str) -> tuple[int, bytes]:
        call = {"cwd": str(self.root), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
        data = json.dumps({**call, "tool_input": {"command": command}}).encode()
        env = os.environ | {"XDG_RUNTIME_DIR": str(self.runtime)}
        words: list[str | Path] = [PROGRAM, "hook", "codex"]
        done = subprocess.run(words, input=data, env=env, cwd=self.root, capture_output=True, timeout=30)
        return done.returncode, done.stdout

    @property
    def sockets(self) -> list[Path]:
        """Those that have their names: one with a suffix is about to get it."""
        found = [path for path in self.runtime.glob("ringfence/*") if not path.suffix]
        return [path for path in found if path.is_socket()]  # one may have just gone

    def pid(self) -> int:
        """Who listens; the socket may take a moment to come."""
        for _ in range(2000):
            if self.sockets:
                with socket.socket(socket.AF_UNIX) as link:
                    link.connect(str(self.sockets[0]))
                    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    return int(struct.unpack("3i", credentials)[0])
            time.sleep(0.02)
        raise AssertionError("nobody stays")


@pytest.fixture
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="t") as place:
        found = Ground(Path(place))
        yield found
        if found.sockets:
            try:
                os.kill(found.pid(), signal.SIGKILL)
            except (ConnectionRefusedError, ProcessLookupError):
                pass


def test_the_second_answer_comes_from_the_one_that_stays_and_is_the_same(ground: Ground) -> None:
    first = [ground.ask("touch x"), ground.ask("touch /etc/x")]
    stays = ground.pid()
    second = [ground.ask("touch x"), ground.ask("touch /etc/x")]

    assert [code for code, _ in first] == [0, 2]
    assert (first, ground.pid()) == (second, stays)


def test_a_changed_policy_is_seen(ground: Ground) -> None:
    before = ground.ask("touch kept")[0]
    ground.pid()
    (ground.root / ".ringfence").mkdir()
    (ground.root / ".ringfence" / "policy.json").write_text('{"filesystem": {"denyWrite": ["kept"]}}')

    assert (before, ground.ask("touch kept")[0]) == (0, 2)


def test_one_that_stays_and_says_nothing_is_done_without(ground: Ground) -> None:
    ground.ask("touch x")
    os.kill(ground.pid(), signal.SIGKILL)
    (place,) = ground.sockets
    place.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(1)
        listener.close()  # the name is there, and nobody listens

        assert [ground.ask("touch x")[0], ground.ask("touch /etc/x")[0]] == [0, 2]


def test_one_that_stays_and_is_stopped_is_done_without(ground: Ground) -> None:
    ground.ask("touch x")
    stays = ground.pid()
    os.kill(stays, signal.SIGSTOP)
    try:
        assert [ground.ask("touch x")[0], ground.ask("touch /etc/x")[0]] == [0, 2]
    finally:
        os.kill(stays, signal.SIGKILL)


def test_what_was_judged_without_one_that_is_stopped_is_not_judged_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be in the log twice."""
    state = ground.root.parent / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    ground.ask("touch x")
    stays = ground.pid()
    time.sleep(0.3)  # until it waits for the next question
    os.kill(stays, signal.SIGSTOP)
    ground.ask("touch /etc/x")
    os.kill(stays, signal.SIGCONT)
    ended(stays)

    assert sum(path.read_text().count("touch /etc/x") for path in state.rglob("*.jsonl")) == 1


def test_one_in_whose_place_another_stays_ends(ground: Ground) -> None:
    ground.ask("touch x")
    first = ground.pid()
    ground.sockets[0].unlink()
    ground.ask("touch x")

    assert ground.pid() != first
    ended(first)


def ended(process: int) -> None:
    for _ in range(600):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":  # ended, and whoever should hear of it does not care
            return
        time.sleep(0.05)
    raise AssertionError("it stays though nobody can ask it")


def test_nothing_stays_in_a_directory_that_others_can_enter(ground: Ground) -> None:
    ground.runtime.chmod(0o755)

    assert (ground.ask("touch /etc/x")[0], ground.sockets) == (2, [])


def test_where_no_process_can_be_had_nobody_stays_and_no_second_answer_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    warm.stay(str(tmp_path / "hook"), hook.answer, 0)

    assert [*tmp_path.iterdir()] == []


def test_nothing_stays_without_a_directory_of_the_user() -> None:
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    done = subprocess.run([PROGRAM, "hook", "codex"], input=b"{}", env=env, capture_output=True, timeout=30)

    assert done.returncode == 2


REUSED = """
import os, socket, struct, sys, time
from ringfence.airlock import lines
from ringfence.cli import warm

def connected(path):
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    return link

def listens(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    return listener

place = sys.argv[1]
first = os.fork()
if not first:
    listener = listens(f"{place}/theirs")
    if not os.fork():
        time.sleep(60)
    os._exit(0)
os.waitpid(first, 0)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first - 1))
read, write = os.pipe()
second = os.fork()
if not second:
    os.close(write)
    os.read(read, 1)
    os._exit(0)
link = connected(f"{place}/theirs")
pid = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
own = listens(f"{place}/ours")
print(pid == second == first, warm._walls(str(pid)) == warm._walls("self"), not lines.is_confined(pid))
print(warm._is_believed(link), lines._still_lives(link), warm._is_believed(connected(f"{place}/ours")))
sys.stdout.flush()
os._exit(0)  # the first of its pid namespace: the rest ends too
"""


@pytest.mark.needs_userns
def test_who_has_the_number_of_one_that_listened_is_not_believed_in_its_place(tmp_path: Path) -> None:
    """The listener was handed on by one that is gone; an innocent has its number now."""
    options = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words = ["unshare", *options, sys.executable, "-c", REUSED, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)

    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    believed = release < (6, 5)  # by that kernel nobody can tell them apart
    assert done.stdout.splitlines() == ["True True True", f"{believed} {believed} True"], done
