"""btrfs makes, snapshots and removes whole trees by ioctl, and Landlock is not asked: the calls are closed by number.

There is no btrfs here, so the proof is who answers: bare the kernel looks at the descriptor first (EBADF), inside
nobody comes so far.
"""

from tests.attacks.conftest import Field, bare_once, nothing

PROGRAM = """
for name, number in (
    ("snapshot", 0x50009401),
    ("create", 0x5000940E),
    ("destroy", 0x5000940F),
    ("snapshot by a second way", 0x50009417),
    ("create by a second way", 0x50009418),
    ("destroy by a second way", 0x5000943F),
    ("with the upper half set", 0x10000000050009401 & 0xFFFFFFFFFFFFFFFF),
):
    attempt(name, lambda number=number: syscall(NR.ioctl, 9999, number, 0))
"""


def test_calls_that_make_trees_are_closed_by_number(field: Field) -> None:
    outside = bare_once(PROGRAM, nothing, False)[0].answers
    inside = field.program(field.ground(), PROGRAM).answers

    assert set(outside.values()) == {"EBADF"}
    assert (inside.keys(), set(inside.values())) == (outside.keys(), {"ENOTTY"})
