"""K31, K32: a daemon lives on after the run, or after ringfence was killed."""

import contextlib
import os
import signal
import subprocess
import time

from tests.attacks.conftest import Field, Ground, as_user, ringfence_words, said
from tests.looking import until

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
