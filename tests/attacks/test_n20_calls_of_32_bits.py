"""N20: the 32-bit entrances of the kernel, where the same numbers mean other calls."""

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

# The other entrance, and on aarch64 the only one: a program of 32 bits. It asks for its number, which is 20 on both,
# and ends; by the numbers of aarch64 that would be epoll_create1 and io_destroy. Not every processor runs one.
EXECUTED = """
import platform, struct
MACHINE, FLAGS, CODE = {
    "x86_64": (3, 0, "b8 14 00 00 00  cd 80  b8 01 00 00 00  31 db  cd 80"),
    "aarch64": (40, 0x5000000, "14 70 a0 e3  00 00 00 ef  01 70 a0 e3  00 00 a0 e3  00 00 00 ef"),
}[platform.machine()]
def executed():
    code = bytes.fromhex(CODE)
    size = 84 + len(code)
    head = struct.pack("<16sHH5I6H", b"\\x7fELF\\1\\1\\1", 2, MACHINE, 1, 0x10054, 52, 0, FLAGS, 52, 32, 1, 0, 0, 0)
    with open("program", "wb") as file:
        file.write(head + struct.pack("<8I", 1, 0, 0x10000, 0x10000, size, size, 5, 0x10000) + code)
    os.chmod("program", 0o755)
    ended = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("program", ["program"], {}), 0)[1])
    if ended:
        raise OSError(errno.EPERM if ended == -31 else errno.EREMOTEIO, "it was ended")  # SIGSYS
attempt("a number of its own", lambda: checked(libc.unshare(0x10000000)))
attempt("a program of 32 bits", executed)
"""


def test_a_call_by_the_32_bit_entrance_ends_the_program(field: Field) -> None:
    if platform.machine() == "x86_64":  # aarch64 has none in a program of 64 bits
        field.repels(PROGRAM, code=SIGSYS)


def test_a_program_of_32_bits_is_ended_at_its_first_call(field: Field) -> None:
    field.repels(EXECUTED, unknown=("a program of 32 bits",))
