"""N21: numbers of the x32 architecture, beside those the filter was written for."""

import platform

from tests.attacks.conftest import Field

PROGRAM = """
X32 = 0x40000000
attempt("the plain number", lambda: checked(libc.unshare(0x10000000)))
attempt("getpid", lambda: syscall(X32 | 39))
attempt("socket", lambda: syscall(X32 | 41, 2, 1, 0))
attempt("ptrace", lambda: syscall(X32 | 521, 0, 0, 0, 0))
"""


def test_no_number_of_x32_is_answered(field: Field) -> None:
    if platform.machine() == "x86_64":
        field.repels(PROGRAM, unknown=("getpid", "socket", "ptrace"))
