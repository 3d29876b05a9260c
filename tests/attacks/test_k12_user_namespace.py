"""K12, K13: a user namespace of its own, by unshare, clone, clone3."""

import platform

from tests.attacks.conftest import Field

PROGRAM = """
import struct
NEWUSER, SIGCHLD = 0x10000000, 17
def cloned(call):
    pid = call()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
def by_clone3():
    arguments = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0))
    return syscall(NR.clone3, arguments, 64)
attempt("clone", lambda: cloned(lambda: syscall(NR.clone, NEWUSER | SIGCHLD, 0, 0, 0, 0)))
attempt("clone3", lambda: cloned(by_clone3))
attempt("unshare", lambda: checked(libc.unshare(NEWUSER)))
attempt("a network with it", lambda: checked(libc.unshare(0x40000000)))
"""


def test_no_user_namespace_is_made(field: Field) -> None:
    assert platform.machine() in ("x86_64", "aarch64")
    field.repels(PROGRAM)
