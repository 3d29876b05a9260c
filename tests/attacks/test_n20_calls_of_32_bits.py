"""N20: the 32-bit entrance of the kernel, where the same numbers mean other calls."""

import platform

from tests.attacks.conftest import Field

# getpid by int 0x80 is number 20; the filter that did not ask for the architecture would take it for writev.
PROGRAM = """
import mmap
def entered():
    code = bytes.fromhex("53 b8 14 00 00 00 cd 80 5b c3")
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    answer = call()
    if answer != os.getpid():
        raise OSError(errno.ENOSYS, "no such entrance")
print("begun", flush=True)
attempt("getpid", entered)
"""
SIGSYS = 128 + 31


def test_a_call_by_the_32_bit_entrance_ends_the_program(field: Field) -> None:
    if platform.machine() == "x86_64":  # others have no such entrance
        field.repels(PROGRAM, code=SIGSYS)
