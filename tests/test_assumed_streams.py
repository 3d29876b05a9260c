"""The streams of a run are taken for what they were at the last; a run to which others are given finds out.

Whoever stands by looks at what it is given. Here the caller's own 0 to 2 become something else between two runs, each
time something that must not reach the command itself.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

AS_ROOT = os.geteuid() == 0
SOON = 150

# A program whose runs are given to those that stand by; `begun` has their launches.
STANDING = """
import os, sys, time, msgspec, ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor, standby

case, where, view = sys.argv[1:4]
standby.Standby.MILLISECONDS, standby.Standby.SECONDS = 60_000, 50.0  # on a busy machine the next run comes late
keep.FRESH_SECONDS = 60.0
if view == "no":
    host = enforce.probe()
    enactor._hosts[os.geteuid()] = msgspec.structs.replace(host, namespaces=False)
begun = []

def run(script):
    flags = ringfence.Flags(cwd=where, enforcement=ringfence.Enforcement.BEST_EFFORT)
    return ringfence.run(["sh", "-c", script], workspace=where, flags=flags, as_root=os.geteuid() == 0,
                         on_start=begun.append)
"""
PROGRAM = (
    STANDING
    + """
import socket, tty
from ringfence import gates
from ringfence.enforce import streams
from ringfence.model import LaunchError, PlanError

while len(begun) < 5 or not begun[-1].was_standby:  # on a busy machine it is made late
    assert run("true").ok
    time.sleep(0.1)
assert streams.were_plain()
(walls,) = keep._prepared.values()
told, given = os.dup(1), os.dup(0)
LOOK = "what=$(readlink /proc/$$/fd/1); echo $what >&2; echo said"


def file():
    os.dup2(os.open(f"{where}/../out", os.O_RDWR | os.O_CREAT), 1)
    assert run(LOOK).ok
    assert open(f"{where}/../out").read() == "said\\n"


def file_to_read():
    with open(f"{where}/in", "w") as made:
        made.write("line\\nmore\\n")
    os.dup2(os.open(f"{where}/in", os.O_RDONLY), 0)
    assert run("read -r line; echo $line; what=$(readlink /proc/$$/fd/0); echo $what >&2").ok
    os.dup2(given, 0)


def named():
    os.mkfifo(f"{where}/../pipe")
    mine = os.open(f"{where}/../pipe", os.O_RDWR)
    os.dup2(mine, 1)
    assert run(LOOK).ok
    assert os.read(mine, 9) == b"said\\n"


def network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    os.dup2(mine.fileno(), 1)
    assert run(LOOK).ok
    assert theirs.recv(9) == b"said\\n"


def terminal():
    mine, theirs = os.openpty()
    tty.setraw(theirs)
    os.dup2(theirs, 1)
    assert run("[ -t 1 ] && echo said && echo a terminal >&2").ok
    assert os.read(mine, 9) == b"said\\n"
    assert not begun[-1].was_standby, "its walls were built without a terminal"


def directory():
    os.dup2(os.open("/", os.O_RDONLY), 0)
    try:
        run("cd /proc/self/fd/0 && ls >&2")
    except PlanError as error:
        os.write(2, f"{error}\\n".encode())
    os.dup2(given, 0)


def closed():
    os.close(0)
    assert run("what=$(readlink /proc/$$/fd/0); echo $what >&2; cat").ok
    assert os.get_inheritable(0)


def opened_by_us():
    os.close(0)
    os.open(f"{where}/../secret", os.O_RDWR | os.O_CREAT)  # as anything of ours, it is not inheritable
    assert not streams.were_plain()
    os.dup2(given, 0)


def gate():
    tries = []

    def fails(_passage, launched):
        tries.append(launched)
        while not os.path.exists(f"{where}/ran") or os.path.getsize(f"{where}/ran") < 4 * len(tries):
            time.sleep(0.01)  # until the command runs
        raise LaunchError("gate", "has ended", "run it again")

    gates.Passage.open = fails
    try:
        ringfence.run(["sh", "-c", "echo ran >> ran; sleep 60"], workspace=where, as_root=os.geteuid() == 0,
                      flags=ringfence.Flags(cwd=where, allow_host=("good.test:443",)))
    except LaunchError as error:
        os.write(2, f"{error}\\n".encode())
    assert open(f"{where}/ran").read() == "ran\\n"
    os._exit(0)


globals()[case]()
(same,) = keep._prepared.values()
assert same is walls, "the walls were right, and only the streams were not"
os.dup2(told, 1)
assert run("echo again").ok
assert run("true").ok
assert streams.were_plain()
"""
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.mark.parametrize("view", ["yes", "no"])
@pytest.mark.parametrize(
    ("case", "out", "error"),
    [
        ("file", "again\n", "pipe:["),
        ("file_to_read", "line\nagain\n", "/ws/in\n"),
        ("named", "again\n", "pipe:["),
        ("network", "again\n", "pipe:["),
        ("terminal", "again\n", "a terminal\n"),
        ("directory", "again\n", "stdin: is a directory"),
        ("closed", "again\n", "/dev/null\n"),
        ("opened_by_us", "again\n", ""),
    ],
)
def test_streams_that_became_others_are_seen(
    workspace: Path, settled: None, view: str, case: str, out: str, error: str
) -> None:
    words = [sys.executable, "-c", PROGRAM, case, str(workspace), view]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON, check=False)

    assert (done.returncode, done.stdout) == (0, out), done.stderr
    assert error in done.stderr


@pytest.mark.needs_userns
@pytest.mark.needs_landlock(6)
def test_a_command_that_runs_is_not_begun_again_when_its_gate_fails(workspace: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, "gate", str(workspace), "yes"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON, check=False)

    assert done.returncode == 0, done.stderr
    assert "gate: has ended" in done.stderr
