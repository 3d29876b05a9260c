"""However a run ends, nobody of it is left: killed at each step, and at any moment, whichever process of it."""

import errno
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.enforce.conftest import WALLS, Site, Walls, rule
from tests.enforce.test_faults import Faulty
from tests.looking import PATIENCE, children, until

from ringfence import enforce
from ringfence.enforce import enactor, wire
from ringfence.enforce.enactor import Opened
from ringfence.model import Exited, Refused, Verdict

assert sys.platform == "linux"

DIES = 1 << 24
# Forks without end: daemons in sessions of their own, some that ignore to be ended, some stopped.
CHURN = """
echo ran > sub/made
daemon() { trap '' TERM HUP INT; while :; do (sleep 0.01; :) & sleep 0.005; done; }
for i in 1 2 3 4 5 6; do setsid sh -c "$(cat sub/daemon)" MARKER >/dev/null 2>&1 & done
sh -c 'kill -STOP $$' MARKER &
sleep 60
"""
DAEMON = "trap '' TERM HUP INT; while :; do sleep 0.01 & sleep 0.005; done; : MARKER"


# Connects to its own full socket, and takes the timeout away again that keeps the warden from waiting there.
HOLDS_UP = """
import os, socket, struct, threading, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("sub/s")
listener.listen(0)
socket.socket(socket.AF_UNIX).connect("sub/s")
held = [socket.socket(socket.AF_UNIX) for _ in range(4)]
def flip():
    while True:
        for one in held:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
threading.Thread(target=flip, daemon=True).start()
for one in held:
    threading.Thread(target=one.connect, args=("sub/s",), daemon=True).start()
time.sleep(0.5)
open("sub/made", "w").close()
time.sleep(60)  # MARKER
"""


def left(marker: str) -> list[int]:
    """Processes that have a word of the run on their command line or in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in text and state != "Z":
            found.append(int(entry.name))
    return found


def is_gone(marker: str) -> bool:
    return until(lambda: not left(marker))


@pytest.fixture
def marker(site: Site) -> Iterator[str]:
    word = f"survivor-{os.urandom(6).hex()}"
    (site.path / "sub" / "daemon").write_text(DAEMON.replace("MARKER", word))
    yield word
    for pid in left(word):  # of a test that failed
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("walls", WALLS)
def test_whoever_dies_at_any_step_nobody_is_left(
    site: Site, walls: Walls, faulty: Opened, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = site.plan(walls, f"echo ran > sub/made; sleep 60; : {marker}")
    for number in range(len(plan.steps)):
        monkeypatch.setattr(enactor, "open_enactor", lambda number=number: Faulty(faulty, number + DIES))
        with enforce.start(plan, wire.encode(plan.steps), capture=True, feed=True) as launched:
            launched.process.wait(PATIENCE)
        assert is_gone(marker), number
        assert not site.made.exists(), number


def begun(site: Site, walls: Walls, script: str) -> enforce.Launch:
    """A run whose command has begun; planned again where another test has changed /etc meanwhile, as `run` does."""
    while True:
        site.made.unlink(missing_ok=True)
        plan = site.plan(walls, script)
        launched = enforce.start(plan, wire.encode(plan.steps), capture=True, feed=True)
        while not site.made.exists() and not launched.process.poll():
            time.sleep(0.002)
        if site.made.exists():
            return launched
        with launched:
            ending = launched.wait()[0]
        assert isinstance(ending, Refused), ending
        assert ending.errno == errno.ESTALE, ending


@pytest.mark.parametrize("victim", ["outer", "warden", "both", "command", "us"])
@pytest.mark.parametrize("walls", [WALLS[0], WALLS[2], WALLS[3]])
def test_whoever_is_killed_at_any_moment_nobody_is_left(site: Site, walls: Walls, marker: str, victim: str) -> None:
    if victim == "both" and not walls.view:
        return  # within a moment of one another: the one case that is left, and said in the plan
    rng = random.Random(victim)
    for _ in range(4):  # and five victims: twenty moments
        with begun(site, walls, CHURN.replace("MARKER", marker)) as launched:
            time.sleep(rng.random() * 0.15)
            outer = launched.process.pid
            (warden,) = children(outer)
            command = children(warden)
            if victim in ("outer", "both"):
                os.kill(outer, signal.SIGKILL)
            if victim in ("warden", "both"):
                os.kill(warden, signal.SIGKILL)
            if victim == "command":
                os.kill(command[0], signal.SIGKILL)
            if victim == "us":
                launched._let_go()
            assert is_gone(marker)
            launched.process.wait(PATIENCE)


def test_somebody_of_the_same_user_outside_lives(site: Site, marker: str) -> None:
    """The whole of the run is ended by a signal to everybody; the border of the domain is what everybody means."""
    bystander = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "30"])
    try:
        plan = site.plan(Walls(view=False), CHURN.replace("MARKER", marker).replace("sleep 60", "sleep 0.2"))
        with enforce.start(plan, wire.encode(plan.steps), capture=True, feed=True) as launched:
            ending = launched.wait()[0]

        assert ending == Exited(0)
        assert is_gone(marker)
        assert os.waitpid(bystander, os.WNOHANG) == (0, 0)
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)


@pytest.mark.parametrize("victim", ["us", "outer"])
@pytest.mark.parametrize("walls", [wall for wall in WALLS if wall.id in ("detached view", "no view")])
def test_a_warden_that_is_held_up_holds_nobody(site: Site, walls: Walls, marker: str, victim: str) -> None:
    """It may be made to wait by the command, whose sockets it connects; here it is stopped."""
    if victim == "outer" and not walls.view:
        return  # as if both were killed: the one case that is left, and said in the plan
    site.made.unlink(missing_ok=True)
    plan = site.plan(walls, CHURN.replace("MARKER", marker))
    with enforce.start(plan, wire.encode(plan.steps), capture=True, feed=True) as launched:
        while not site.made.exists():
            assert not launched.process.poll(), launched.wait()
            time.sleep(0.002)
        outer = launched.process.pid
        (warden,) = children(outer)
        os.kill(warden, signal.SIGSTOP)
        if victim == "us":
            launched._let_go()
        else:
            os.kill(outer, signal.SIGKILL)
        assert is_gone(marker)
        launched.process.wait(PATIENCE)


@pytest.mark.parametrize("walls", [wall for wall in WALLS if wall.id in ("detached view", "bubblewrap")])
def test_a_connection_that_the_command_makes_wait_holds_nobody_up(
    site: Site, walls: Walls, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = site.policy()
    denied = rule("write", Verdict.DENY, site.path / "late")  # so that there is somebody who answers
    policy = msgspec.structs.replace(policy, rules=(*policy.rules, denied))
    monkeypatch.setattr(site, "policy", lambda: policy)
    (site.path / "sub" / "hold").write_text(HOLDS_UP)
    plan = site.plan(walls, f"exec python3 sub/hold {marker}")
    with enforce.start(plan, wire.encode(plan.steps), capture=True, feed=True) as launched:
        assert until(site.made.exists)  # the warden answers all the same
        launched._let_go()
        assert is_gone(marker)
        launched.process.wait(PATIENCE)
