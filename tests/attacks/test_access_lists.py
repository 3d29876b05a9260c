"""A file is closed by its mode and opened to the command by an access list; a denial of it must hold."""

import os
import struct
import sys
from pathlib import Path

import pytest
from tests.attacks.conftest import PLAIN, Field, Ground

assert sys.platform == "linux"

PROGRAM = """
attempt("read", lambda: read(OUTSIDE + "/acl/key"))
"""


def give(path: Path, rights: int) -> None:
    """An access list as the kernel stores it: nothing for anybody but the owner, these rights for the plain user."""
    anybody = 0xFFFFFFFF
    entries = ((1, 7, anybody), (2, rights, PLAIN), (4, 0, anybody), (0x10, 7, anybody), (0x20, 0, anybody))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", packed)


@pytest.mark.needs_root
def test_a_denial_holds_against_an_access_list(field: Field) -> None:
    if field.walls.who == "root":
        return  # the list gives nothing to root

    def prepare(ground: Ground) -> None:
        key = ground.file("outside/acl/key")
        ground.own()
        for path, rights in ((key.parent, 5), (key, 4)):
            os.chown(path, 0, 0)
            give(path, rights)

    ground = field.ground()
    prepare(ground)
    assert field.program(ground, PROGRAM).answers == {"read": "done"}
    seen = field.program(ground, PROGRAM, deny_read=(str(ground.outside / "acl/key"),))
    assert seen.answers["read"] != "done", seen.said
