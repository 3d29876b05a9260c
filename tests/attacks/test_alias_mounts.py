"""The same files shown at a second place by a bind mount: what is denied at one must be denied at both."""

import shlex
import socket
import subprocess

import pytest
from tests.attacks.conftest import PYTHON, SECONDS, Field, ringfence_words, with_git


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
    ground = field.ground()
    with_git(ground)
    ground.file("ws/alias/x").unlink()
    ground.own()
    before = (ground.workspace / ".git/config").read_text()
    bind = f"mount --bind {ground.workspace}/.git {ground.workspace}/alias && cd {ground.workspace}"
    script = f"{bind} && {{run}} sh -c 'echo evil >> alias/config'"

    said = in_own_mounts(field, script)

    assert (ground.workspace / ".git/config").read_text() == before, said


@pytest.mark.needs_root
def test_what_may_be_written_is_not_written_by_another_way_past_the_patterns(field: Field) -> None:
    """Landlock knows the workspace wherever it shows; names that must not appear are judged by their path."""
    ground = field.ground()
    with_git(ground)
    alias = ground.file("outside/alias/x").parent
    (ground.workspace / "late").mkdir()
    ground.own()
    names = (".mcp.json", ".claude/settings.json", ".git/hooks/pre-commit", ".git/config", "late/new.pem")
    attack = "; ".join(f"mkdir -p {alias}/{name.rpartition('/')[0]}; echo evil >> {alias}/{name}" for name in names)
    bind = f"mount --bind {ground.workspace} {alias} && cd {ground.workspace}"
    script = f"{bind} && {{run}} sh -c '{attack}; echo fine > late/fine; echo was here'"

    said = in_own_mounts(field, script, "--allow-read", str(ground.base), "--deny-write", "late/*.pem")

    assert "was here" in said
    assert (ground.workspace / "late/fine").read_text() == "fine\n", said
    evil = [
        name for name in names if (ground.workspace / name).exists() and "evil" in (ground.workspace / name).read_text()
    ]
    assert evil == []


@pytest.mark.needs_root
def test_a_pattern_denies_also_by_the_path_that_is_granted(field: Field) -> None:
    """What there is and what comes later; in the workspace, which is granted, shows a directory from outside."""
    ground = field.ground()
    alias = ground.file("ws/alias/x").parent
    real = ground.file("outside/real/d/old.lock").parent.parent
    ground.file("outside/real/d/free")
    ground.own()
    attack = f"cd {alias}/d; for name in old.lock new.lock free; do echo evil > $name; done; echo was here"
    script = f"mount --bind {real} {alias} && cd {ground.workspace} && {{run}} sh -c '{attack}'"

    said = in_own_mounts(field, script, "--allow-read", str(ground.base), "--deny-write", f"{real}/**/*.lock")

    assert "was here" in said
    assert {path.name: path.read_text() for path in (real / "d").iterdir()} == {
        "old.lock": "as it was\n",
        "free": "evil\n",
    }, said


@pytest.mark.needs_root
def test_what_is_not_there_is_not_made_by_the_path_that_is_granted(field: Field) -> None:
    """The directory may be written, but only as it shows in the workspace."""
    ground = field.ground()
    alias = ground.file("ws/alias/x").parent
    real = ground.file("outside/real/d/free").parent.parent
    ground.own()
    attack = f"cd {alias}/d; echo evil > late; echo evil > free; echo was here"
    script = f"mount --bind {real} {alias} && cd {ground.workspace} && {{run}} sh -c '{attack}'"

    said = in_own_mounts(field, script, "--allow-read", str(ground.base), "--deny-write", f"{real}/d/late")

    assert "was here" in said
    assert {path.name: path.read_text() for path in (real / "d").iterdir()} == {"free": "evil\n"}, said


@pytest.mark.needs_root
def test_a_socket_that_is_mounted_in_the_workspace_is_the_hosts(field: Field) -> None:
    """As a container is given the socket of a daemon. One that the policy names is reached there."""
    ground = field.ground()
    ground.listener(socket.AF_UNIX, str(ground.outside / "daemon"))
    place = ground.file("ws/docker.sock")
    ground.own()
    (ground.outside / "daemon").chmod(0o777)
    reach = f'{PYTHON} -c \'import socket; socket.socket(socket.AF_UNIX).connect("docker.sock"); print("reached")\''
    bind = f"mount --bind {ground.outside}/daemon {place} && cd {ground.workspace}"

    said = in_own_mounts(field, f"{bind} && {reach} && {{run}} {reach}", "--allow-read", str(ground.base))

    assert said.count("reached\n") == 1, said
    if field.walls.kind == "view":
        options = ("--allow-read", str(ground.base), "--allow-socket", str(place))
        assert "reached\n" in in_own_mounts(field, f"{bind} && {{run}} {reach}", *options)
