"""F43: the newer mount calls do what the older ones are denied."""

from tests.attacks.conftest import Field

PROGRAM = """
import struct
libc.unshare(0x10020000)  # bare, this gives what the calls need
CLONE, RECURSIVE, EMPTY = 1, 0x8000, 0x1000
attempt("open_tree", lambda: syscall(NR.open_tree, -100, b"/", 0))
attempt("open_tree of a copy", lambda: syscall(NR.open_tree, -100, b"/", CLONE | RECURSIVE))
attempt("fsopen", lambda: syscall(NR.fsopen, b"tmpfs", 0))
reach("fsconfig", lambda: syscall(NR.fsconfig, -1, 6, 0, 0, 0))
reach("fsmount", lambda: syscall(NR.fsmount, -1, 0, 0))
reach("fspick", lambda: syscall(NR.fspick, -100, b"/nonexistent", 0))
reach("move_mount", lambda: syscall(NR.move_mount, -1, b"", -100, b"/mnt", 4))
reach("mount_setattr", lambda: syscall(NR.mount_setattr, -100, b"/nonexistent", 0, struct.pack("QQQQ", 1, 0, 0, 0), 32))
"""


def test_no_newer_mount_call_is_answered(field: Field) -> None:
    field.repels(PROGRAM)
