"""K31, K32: a daemon lives on after the run, or after ringfence was killed."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from tests.attacks.conftest import PATH, PLAIN, ROOT, Field, Ground, as_user, ringfence_words, said
from tests.backends import on
from tests.looking import until

import ringfence
from ringfence.model import Enactor

BEAT = "echo $$ > pid; for i in $(seq 2000); do date +%s%N > beat; sleep 0.05; done"  # an end, should we fail to
DAEMON = f"setsid sh -c '{BEAT}' >/dev/null 2>&1 </dev/null & until test -s beat; do sleep 0.01; done"


def beats(ground: Ground) -> bool:
    """Whether somebody still writes, or has not yet."""
    beat = ground.workspace / "beat"
    if not beat.exists():
        return True
    before = beat.stat().st_mtime_ns
    time.sleep(0.3)
    return beat.stat().st_mtime_ns != before


def stop(ground: Ground) -> None:
    """End it by the number it knows itself by, which is the host's where there is no namespace."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((ground.workspace / "pid").read_text()), signal.SIGKILL)


def test_a_daemon_ends_with_the_run(field: Field) -> None:
    ground = field.ground()
    ground.own()

    said([*as_user(ground.uid), "sh", "-c", DAEMON], ground.workspace)
    assert until(lambda: beats(ground))
    stop(ground)
    (ground.workspace / "beat").unlink()
    said([*ringfence_words(field.walls), "sh", "-c", DAEMON], ground.workspace)
    survived = beats(ground)
    if survived and field.walls.backend == "landlock":
        stop(ground)
    assert not survived


def test_everything_ends_when_ringfence_is_killed(field: Field) -> None:
    ground = field.ground()
    ground.own()
    process = subprocess.Popen(
        [*ringfence_words(field.walls), "sh", "-c", DAEMON + "; sleep 60"],
        cwd=ground.workspace, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert until((ground.workspace / "beat").exists)
    process.kill()
    process.wait()

    survived = not until(lambda: not beats(ground))
    if survived and field.walls.backend == "landlock":
        stop(ground)
    assert not survived


LEFT = "(exec sleep 60 >/dev/null 2>&1) & echo $!"  # in the command's own group


def lives(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # whoever reaps it may wait
    return False


def is_left(pid: int) -> bool:
    """Whether it lives on; then it is ended."""
    end = time.monotonic() + 2
    while lives(pid) and time.monotonic() < end:
        time.sleep(0.01)
    left = lives(pid)
    if left:
        os.kill(pid, signal.SIGKILL)
    return left


@pytest.mark.needs_landlock(6)
def test_what_is_left_in_the_background_ends_where_no_warden_stays() -> None:
    ids = (PLAIN, PLAIN) if ROOT else None
    with tempfile.TemporaryDirectory(dir="/var/tmp") as workspace:
        os.chmod(workspace, 0o755)
        if ids:
            os.chown(workspace, *ids)
        bare = subprocess.run([*as_user(PLAIN if ROOT else os.geteuid()), "sh", "-c", LEFT], stdout=subprocess.PIPE)
        assert is_left(int(bare.stdout))

        with on("landlock", ids, enactor=Enactor.PYTHON):
            outcome = ringfence.run(["sh", "-c", LEFT], workspace=workspace, env={"PATH": PATH}, capture=True)

    assert not is_left(int(outcome.stdout or b"")), outcome
