"""K9: pidfd_getfd takes a descriptor out of another process."""

import pytest
from tests.attacks.conftest import Field
from tests.attacks.test_k02_ptrace import prepare

PROGRAM = """
attempt("pidfd_getfd", lambda: syscall(NR.pidfd_getfd, os.pidfd_open(int(EXTRA[0])), 0, 0))
attempt("kcmp", lambda: syscall(NR.kcmp, int(EXTRA[0]), int(EXTRA[0]), 0, 0, 0))
"""


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_no_descriptor_is_taken(field: Field) -> None:
    field.repels(PROGRAM, prepare)
