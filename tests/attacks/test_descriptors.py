"""F41: descriptors that the caller had open: files, directories, devices; on 0 to 2 and above."""

import os
import socket
import sys

import pytest
from tests.attacks.conftest import PYTHON, Field, Said, as_user, ringfence_words, said

assert sys.platform == "linux"

READ = "import os, sys; print(os.read(int(sys.argv[1]), 99))"
CREATE = "import os, sys; os.open('planted', os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=int(sys.argv[1])); print('done')"


def tried(field: Field, program: str, fd: int, *, bare: bool, ground_uid: int, cwd: object) -> Said:
    words = as_user(ground_uid) if bare else ringfence_words(field.walls)
    return said([*words, PYTHON, "-I", "-S", "-c", program, str(fd)], cwd, pass_fds=(fd,))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["file", "directory", "path", "socket"])
def test_no_descriptor_above_two_is_inherited(field: Field, kind: str) -> None:
    ground = field.ground()
    ground.own()
    ours, theirs = socket.socketpair()
    ours.send(b"x")
    with ours, theirs:
        fd = {
            "file": lambda: os.open(ground.home / ".ssh/id_ed25519", os.O_RDONLY),
            "directory": lambda: os.open(ground.outside, os.O_RDONLY | os.O_DIRECTORY),
            "path": lambda: os.open(ground.outside, os.O_PATH),
            "socket": lambda: os.dup(theirs.fileno()),
        }[kind]()
        program = CREATE if kind in ("directory", "path") else READ
        inside = tried(field, program, fd, bare=False, ground_uid=ground.uid, cwd=ground.workspace)
        bare = tried(field, program, fd, bare=True, ground_uid=ground.uid, cwd=ground.workspace)
        os.close(fd)

    assert bare.code == 0, bare
    assert inside.code == 1, inside
    assert "Bad file descriptor" in inside.err, inside


@pytest.mark.parametrize(("flags", "number"), [(os.O_RDONLY, 0), (os.O_PATH, 0), (os.O_RDONLY, 1), (os.O_PATH, 2)])
def test_a_directory_on_a_stream_is_refused(field: Field, flags: int, number: int) -> None:
    import subprocess

    ground = field.ground()
    ground.own()
    fd = os.open(ground.outside, flags)
    streams: dict[str, int] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    streams[("stdin", "stdout", "stderr")[number]] = fd
    done = subprocess.run([*ringfence_words(field.walls), "touch", "ran"], cwd=ground.workspace, timeout=60, **streams)  # type: ignore[call-overload]
    os.close(fd)

    assert done.returncode != 0
    assert not (ground.workspace / "ran").exists()


@pytest.mark.needs_root
def test_a_device_on_a_stream_is_refused(field: Field) -> None:
    ground = field.ground()
    ground.own()
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    done = said([*ringfence_words(field.walls), "touch", "ran"], ground.workspace, stdin=fd)
    os.close(fd)

    assert (done.code, (ground.workspace / "ran").exists()) == (125, False), done


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device_inside(field: Field, closed: str) -> None:
    ground = field.ground()
    ground.own()
    script = f'"$@" sh -c "ls -l /proc/self/fd/ > fds" {closed}'

    done = said(["bash", "-c", script, "bash", *ringfence_words(field.walls)], ground.workspace)

    assert done.code == 0, done
    shown = (ground.workspace / "fds").read_text()
    for number in range(3):
        mark = ("<&-", ">&-", "2>&-")[number]
        if mark in closed.split() and number != 1:  # inside, 1 is the listing itself
            assert f" {number} -> /dev/null" in shown, shown


@pytest.mark.parametrize("shown", [True, False], ids=["seen inside", "not seen inside"])
def test_a_file_on_standard_input_gives_nothing_but_its_content(field: Field, shown: bool) -> None:
    ground = field.ground()
    ground.own()
    program = """
import os
def attempt(call):
    try:
        call()
    except OSError:
        pass
attempt(lambda: os.open("/proc/self/fd/0", os.O_RDWR))
attempt(lambda: os.close(os.open("/proc/self/fd/0", os.O_RDONLY | os.O_TRUNC)))
attempt(lambda: os.truncate(0, 0))
attempt(lambda: os.write(0, b"evil"))
print(os.read(0, 99))
"""
    fd = os.open(ground.outside / "canary", os.O_RDONLY)
    before = ground.state()
    words = ringfence_words(field.walls, *(["--allow-read", str(ground.outside)] if shown else []))
    done = said([*words, PYTHON, "-I", "-S", "-c", program], ground.workspace, stdin=fd)
    os.close(fd)

    assert done == Said(0, "b'canary\\n'\n", ""), done
    assert ground.state() == before
