"""K3: process_vm_readv and its twin read and write another process's memory."""

import pytest
from tests.attacks.conftest import Field, Ground
from tests.attacks.test_k02_ptrace import prepare

PROGRAM = """
import struct
pid, address = int(EXTRA[0]), 0
with open("/proc/self/maps") as maps:  # of our own, when the other's are not shown
    address = int(maps.readline().split("-")[0], 16)
try:
    with open("/proc/%d/maps" % pid) as maps:
        address = int(maps.readline().split("-")[0], 16)
except OSError:
    pass
data = ctypes.create_string_buffer(8)
here = ctypes.create_string_buffer(struct.pack("PP", ctypes.addressof(data), 8))
there = ctypes.create_string_buffer(struct.pack("PP", address, 8))
attempt("read", lambda: syscall(NR.process_vm_readv, pid, here, 1, there, 1, 0))
reach("write", lambda: syscall(NR.process_vm_writev, pid, here, 1, there, 1, 0))
"""


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_no_memory_of_others_is_read(field: Field) -> None:
    field.repels(PROGRAM, _prepare)


def _prepare(ground: Ground) -> list[str]:
    return prepare(ground)
