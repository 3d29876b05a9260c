"""A FIFO of the host's on descriptor 0 is changed by it: its mode and its times are of a file outside."""

import os

from tests.attacks.conftest import PYTHON, Field, as_user, ringfence_words, said

PROGRAM = """
import os
for call in (lambda: os.fchmod(0, 0o666), lambda: os.utime(0, (7, 7)), lambda: os.chmod("/proc/self/fd/0", 0o666)):
    try:
        call()
        print("done")
    except OSError as error:
        print("refused")
"""


def test_a_fifo_outside_stays_as_it_is(field: Field) -> None:
    ground = field.ground()
    os.mkfifo(ground.outside / "fifo", 0o600)
    ground.own()

    def tried(words: list[str]) -> tuple[str, tuple[int, float]]:
        given = os.open(ground.outside / "fifo", os.O_RDWR | os.O_NONBLOCK)
        try:
            out = said([*words, PYTHON, "-I", "-S", "-c", PROGRAM], ground.workspace, stdin=given).out
        finally:
            os.close(given)
        facts = (ground.outside / "fifo").stat()
        return out, (facts.st_mode & 0o777, facts.st_mtime)

    out, facts = tried(ringfence_words(field.walls))
    assert (facts[0], facts[1] != 7) == (0o600, True), out
    assert tried(as_user(ground.uid)) == ("done\ndone\ndone\n", (0o666, 7.0))
