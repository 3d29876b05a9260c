"""F45: a device node for the disk or the memory is made, or found in /dev."""

import os
import re
from pathlib import Path

import pytest
from tests.attacks.conftest import EVERY_WALL, Field, Ground

PROGRAM = """
import stat
major, minor = int(EXTRA[0]), int(EXTRA[1])
def made(name, kind, device):
    os.mknod(name, kind | 0o600, device)
attempt("a block device", lambda: made("b", stat.S_IFBLK, os.makedev(major, minor)))
attempt("a character device", lambda: made("c", stat.S_IFCHR, os.makedev(1, 5)))
attempt("the console's messages", lambda: os.open("/dev/kmsg", os.O_RDONLY))
temporary = os.environ.get("TMPDIR", "/tmp") + "/c-%d" % os.getpid()
attempt("in the temporary directory", lambda: made(temporary, stat.S_IFCHR, os.makedev(1, 5)))
"""


def prepare(ground: Ground) -> list[str]:
    device = os.stat(ground.base).st_dev
    ground.stack.callback(_remove_nodes)
    return [str(os.major(device)), str(os.minor(device))]


def _remove_nodes() -> None:
    for path in Path("/tmp").glob("c-*"):
        if re.fullmatch(r"c-\d+", path.name) and path.is_char_device():
            path.unlink()


@pytest.mark.needs_root
@EVERY_WALL
def test_no_device_node_is_made_or_found(field: Field) -> None:
    field.repels(PROGRAM, prepare, bare_as_root=True)


@EVERY_WALL
def test_dev_holds_nothing_but_what_programs_expect(field: Field) -> None:
    program = """
for name in EXTRA:
    attempt(name, lambda: os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK)))
"""
    above = [Path(place) for place, _, _ in os.walk("/dev") if not place.startswith("/dev/shm")]
    nodes = [path for place in above for path in place.iterdir() if not path.is_symlink()]
    names = sorted(str(path) for path in nodes if path.is_block_device() or path.is_char_device())

    seen = field.program(field.ground(), program, names)

    expected = {f"/dev/{name}" for name in ("full", "null", "ptmx", "pts/ptmx", "random", "urandom", "zero", "tty")}
    opened = {name for name, answer in seen.answers.items() if answer == "done"}
    assert opened <= expected, seen.said
    assert {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} <= opened, seen.said
