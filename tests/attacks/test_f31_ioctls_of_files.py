"""F31: what ioctl changes of a file that was only opened to be read, and of a file system by any directory of it.

A key that is taken off an encrypted file system locks all that its user has there; a mount that is read-only does not
mind. The rest a read-only mount refuses, and without a view nobody else would: it is closed by number. Most of it needs
a file system that has it, so the proof is who answers: bare the kernel looks at the descriptor first (EBADF), inside
nobody comes so far. Flags are closed everywhere: by one a new directory takes a denied name in capitals for that name.
So is what exchanges the contents of two files, which on XFS any user can, and their times stay.
"""

import pytest
from tests.attacks.conftest import Field, bare_once, nothing

KEYS = {"add a key": 0xC0506617, "remove a key": 0xC0406618, "remove it for all": 0xC0406619}
FLAGS = {"flags": 0x40086602}
CONTENTS = {"XFS": 0xC0C0586D, "ext4": 0xC028660F, "F2FS": 0xC020F509}
FILES = {
    "attributes": 0x401C5820,
    "version": 0x40087602,
    "version by a second way": 0x40086604,
    "verity": 0x40806685,
    "encryption": 0x800C6613,
    "layout": 0x6609,
    "flags of a subvolume": 0x4008941A,
    "origin of a subvolume": 0xC0C89425,
    "origin of a subvolume by a second way": 0xC0C09425,
    "fragments": 0x50009402,
    "fragments by a second way": 0x40309410,
    "attributes of FAT and its kin": 0x40047211,
    "a place on the disk that stays": 0x4004F50D,
}
PROGRAM = """
for name, number in NAMED.items():
    attempt(name, lambda: syscall(NR.ioctl, 9999, number, 0))
    attempt(name + " with the upper half set", lambda: syscall(NR.ioctl, 9999, number | 1 << 32, 0))
"""


@pytest.mark.parametrize("named", [KEYS, FLAGS, CONTENTS, FILES], ids=["keys", "flags", "contents", "files"])
def test_calls_that_change_files_by_any_descriptor_are_closed_by_number(field: Field, named: dict[str, int]) -> None:
    program = f"NAMED = {named!r}\n{PROGRAM}"
    outside = bare_once(program, nothing, False)[0].answers
    inside = field.program(field.ground(), program).answers

    assert set(outside.values()) == {"EBADF"}
    if named is not FILES or field.walls.kind == "landlock":  # else the mounts hold
        assert (inside.keys(), set(inside.values())) == (outside.keys(), {"ENOTTY"})
