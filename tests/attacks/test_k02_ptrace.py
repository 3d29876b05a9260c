"""K2: ptrace takes another process over."""

import pytest
from tests.attacks.conftest import Field, Ground

PROGRAM = """
pid = int(EXTRA[0])
attempt("seize", lambda: syscall(NR.ptrace, 0x4206, pid, 0, 0))
def stopped():
    syscall(NR.ptrace, 0x4207, pid, 0, 0)
    os.waitpid(pid, 0x40000000)
    syscall(NR.ptrace, 17, pid, 0, 0)
attempt("stop and let go", stopped)
"""


def prepare(ground: Ground) -> list[str]:
    pid = ground.victim()
    ground.harmed.clear()
    return [str(pid)]


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_no_process_is_taken_over(field: Field) -> None:
    field.repels(PROGRAM, prepare)
