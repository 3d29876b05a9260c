"""N19, K19, F51: a ring makes calls that no filter sees."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("setup", lambda: syscall(NR.io_uring_setup, 2, ctypes.create_string_buffer(120)))
reach("enter", lambda: syscall(NR.io_uring_enter, -1, 0, 0, 0, 0, 0))
reach("register", lambda: syscall(NR.io_uring_register, -1, 0, 0, 0))
"""


def test_there_is_no_ring(field: Field) -> None:
    field.repels(PROGRAM)
