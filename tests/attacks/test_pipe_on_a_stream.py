"""A pipe that was given as input is written to: whoever reads on after the run, outside, takes that for his own lines.
So it is in `list | while read name; do ringfence run -- check "$name"; done`."""

import os
import sys

import pytest
from tests.attacks.conftest import EVERY_WALL, PLAIN, PYTHON, ROOT, Field, Ground, as_user, ringfence_words, said

PROGRAM = """
import os
os.dup2(0, 50)
held = os.open("/proc/self/fd/0", os.O_PATH)
names = "/proc/self/fd/0", "/dev/stdin", f"/proc/{os.getpid()}/task/{os.getpid()}/fd/50", f"/proc/self/fd/{held}"
for name in names:
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_NONBLOCK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        try:
            os.write(os.open(name, flags, 0o600), b"x")
            print("done")
        except OSError as error:
            print("refused")
"""
WAYS = 12
IN_ONE_PROCESS = """
import sys
import ringfence
for _ in range(4):
    ringfence.run(sys.argv[2:], workspace=sys.argv[1], cwd=sys.argv[1])
"""


def tried(ground: Ground, words: list[str]) -> tuple[str, bytes]:
    """What the program says of its ways, and what is to be read from its input afterwards."""
    reads, writes = os.pipe()
    try:
        if ROOT:
            os.fchown(reads, ground.uid, -1)
        os.write(writes, b"a line\n")
        os.close(writes)
        said_ = said([*words, PYTHON, "-I", "-S", "-c", PROGRAM], ground.workspace, stdin=reads)
        return said_.out, os.read(reads, 99)
    finally:
        os.close(reads)


@EVERY_WALL
def test_input_is_not_written(field: Field) -> None:
    ground = field.ground()
    ground.own()

    assert tried(ground, ringfence_words(field.walls)) == ("refused\n" * WAYS, b"a line\n")
    assert tried(ground, as_user(ground.uid)) == ("done\n" * WAYS, b"a line\n" + b"x" * WAYS)


@pytest.mark.needs_userns
def test_input_is_not_written_by_who_stood_by() -> None:
    ground = Ground(PLAIN if ROOT else os.geteuid())
    ground.own()
    try:
        words = [sys.executable, "-I", "-c", IN_ONE_PROCESS, str(ground.workspace)]
        assert tried(ground, words) == ("refused\n" * WAYS * 4, b"a line\n")
    finally:
        ground.close()
