"""F47: a crash has the kernel start the program that core_pattern names, outside and as root, whatever namespace it
happened in. At a limit of one byte it does not; at none at all it does, so the limit must not be lowered either."""

import fcntl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.conftest import (
    EVERY_WALL,
    PYTHON,
    Field,
    Ground,
    _until,
    arguments,
    as_user,
    environment,
    source,
)

from ringfence.enforce import enactor

PATTERN = Path("/proc/sys/kernel/core_pattern")

PROGRAM = """
import resource, signal
nothing = ctypes.create_string_buffer(16)
def crash(name, before):
    child = os.fork()
    if not child:
        libc.prctl(15, (EXTRA[0] + name).encode())
        try:
            before()
        finally:
            os.kill(os.getpid(), signal.SIGSEGV)
    assert os.waitpid(child, 0)[1] & 0x7F == signal.SIGSEGV
crash("a", lambda: None)
crash("b", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
crash("c", lambda: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0)))
crash("d", lambda: syscall(NR.setrlimit, 4, nothing))
crash("e", lambda: syscall(NR.prlimit64, 0, 4, nothing, 0))
crash("f", lambda: syscall(NR.prlimit64, 0, 1 << 32 | 4, nothing, 0))
crash("g", lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
print("crashed 7")
"""
CRASHES = "abcdefg"
LIMIT = "awk '/core file/ {print $5, $6}' /proc/self/limits"


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[Path]:
    """A program that notes down whose crashes it was started for."""
    program = tmp_path / "h"
    program.write_text(f'#!/bin/sh\ncat > /dev/null\n: > "{tmp_path}/$1"\n')
    program.chmod(0o755)
    with PATTERN.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # it is one for the whole machine
        before = file.read()
        try:
            PATTERN.write_text(f"|{program} %e")
            yield tmp_path
        finally:
            PATTERN.write_text(before)


def crash_bare(ground: Ground, name: str) -> None:
    words = [*as_user(ground.uid), PYTHON, "-I", "-S", "-c", source(PROGRAM), *arguments(ground, [name])]
    subprocess.run(words, cwd=ground.workspace, env=environment(ground), check=True, capture_output=True, timeout=30)


@pytest.mark.needs_crash_programs
@EVERY_WALL
def test_no_program_is_started_outside_for_a_crash_inside(field: Field, handler: Path) -> None:
    ground = field.ground()
    tag = ground.base.name[3:9]

    seen = field.program(ground, PROGRAM, [f"{tag}-in-"])
    crash_bare(ground, f"{tag}-")
    bare = {f"{tag}-{letter}" for letter in CRASHES}
    _until(lambda: bare <= {path.name for path in handler.iterdir()})  # those inside came before

    assert seen.answers == {"crashed": "7"}, seen
    assert bare <= {path.name for path in handler.iterdir()}
    assert not [path.name for path in handler.iterdir() if path.name.startswith(f"{tag}-in")]


def test_a_limit_on_cores_is_set_in_name_only(field: Field) -> None:
    """gpg-agent and its like give up when they cannot have it."""
    script = f"{LIMIT}; ulimit -S -c 0 && ulimit -c unlimited && ulimit -c 0; {LIMIT}"
    seen = field.run(field.ground(), ["sh", "-ec", script])

    assert ((seen.stdout or b"").split(), seen.stderr) == ([b"1"] * 4, b"")


@pytest.mark.parametrize(
    ("first", "rest", "gap"), [("|", 1, False), ("|", 0, True), ("@", 1, True), ("", 0, False), ("", 1, False)]
)
def test_what_cannot_be_kept_from_the_host_is_said(
    field: Field, monkeypatch: pytest.MonkeyPatch, first: str, rest: int, gap: bool
) -> None:
    monkeypatch.setattr(enactor, "_core_handler", lambda: first)
    monkeypatch.setattr(enactor, "_core_limit", lambda: rest)
    enactor._hosts.clear()
    try:
        outcome = field.run(field.ground(), ["sh", "-c", LIMIT])
    finally:
        enactor._hosts.clear()

    assert outcome.stdout == f"{rest} {rest}\n".encode()
    assert any("crashes" in found.what for found in outcome.gaps) is gap
