"""F44: a file is opened by its handle, past every directory above it."""

import pytest
from tests.attacks.conftest import Field

PROGRAM = """
import struct
handle = ctypes.create_string_buffer(struct.pack("II", 128, 0), 136)
mount = ctypes.c_int()
SHM = "/dev/shm"  # not every file system gives handles (overlay does not), a tmpfs does
def named():
    syscall(NR.name_to_handle_at, -100, SHM.encode(), handle, ctypes.byref(mount), 0)
def opened():
    fd = syscall(NR.open_by_handle_at, os.open(SHM, os.O_RDONLY), handle, 0)
    os.listdir(fd)
attempt("name", named)
attempt("open", opened)
"""


@pytest.mark.needs_root
def test_no_file_is_opened_by_its_handle(field: Field) -> None:
    field.repels(PROGRAM, bare_as_root=True)


def test_no_handle_is_given(field: Field) -> None:
    field.repels(PROGRAM, unknown=("open",))
