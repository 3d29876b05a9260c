"""K20: a seccomp listener of its own would answer in the supervisor's place."""

from tests.attacks.conftest import Field

PROGRAM = """
import struct
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(allow)))
checked(libc.prctl(38, 1, 0, 0, 0))
attempt("a listener", lambda: syscall(NR.seccomp, 1, 8, program))
"""


def test_no_listener_is_installed(field: Field) -> None:
    field.repels(PROGRAM)
