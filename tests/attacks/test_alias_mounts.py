"""The same files shown at a second place by a bind mount: what is denied at one must be denied at both."""

import shlex
import subprocess

import pytest
from tests.attacks.conftest import SECONDS, Field, ringfence_words, with_git


def in_own_mounts(field: Field, script: str, *options: str) -> str:
    """A shell with mounts of its own, in which {run} is ringfence."""
    run = shlex.join(ringfence_words(field.walls, *options))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script.replace("{run}", run)]
    done = subprocess.run(words, capture_output=True, timeout=SECONDS)
    return (done.stdout + done.stderr).decode()


@pytest.mark.needs_root
def test_a_hidden_directory_is_hidden_wherever_it_shows(field: Field) -> None:
    ground = field.ground()
    ground.file("hidden/key", "the secret\n")
    alias = ground.file("outside/alias/x").parent
    ground.own()
    bind = f"mount --bind {ground.base}/hidden {alias} && cd {ground.workspace}"
    script = f"{bind} && cat {alias}/key && {{run}} cat {alias}/key"

    said = in_own_mounts(field, script, "--allow-read", str(ground.base), "--deny-read", str(ground.base / "hidden"))

    assert said.count("the secret\n") == 1, said


@pytest.mark.needs_root
def test_the_repository_is_protected_wherever_it_shows(field: Field) -> None:
    if field.walls.backend == "landlock":
        return  # there the protected names are a stated gap
    ground = field.ground()
    with_git(ground)
    ground.file("ws/alias/x").unlink()
    ground.own()
    before = (ground.workspace / ".git/config").read_text()
    bind = f"mount --bind {ground.workspace}/.git {ground.workspace}/alias && cd {ground.workspace}"
    script = f"{bind} && {{run}} sh -c 'echo evil >> alias/config'"

    said = in_own_mounts(field, script)

    assert (ground.workspace / ".git/config").read_text() == before, said
