"""F32: a lease on a file outside that may be read. Whoever opens it to write waits until the lease is given up, or for
as long as the kernel lets them (45 seconds)."""

from tests.attacks.conftest import Field

PROGRAM = """
import fcntl
def lease(command, *more):
    fd = os.open(OUTSIDE + "/canary", os.O_RDONLY)
    checked(libc.fcntl(fd, command, *more))
    os.close(fd)
attempt("a lease", lambda: lease(1024, fcntl.F_RDLCK))
attempt("by its whole number", lambda: syscall(NR.fcntl, os.open(OUTSIDE + "/canary", 0), 1 << 32 | 1024, 0))
"""


def test_no_file_outside_is_leased(field: Field) -> None:
    field.repels(PROGRAM)


def test_locks_of_other_kinds_are_had(field: Field) -> None:
    program = """
import fcntl
fd = os.open("README.md", os.O_RDWR)
attempt("a lock", lambda: fcntl.flock(fd, fcntl.LOCK_EX))
attempt("a record", lambda: fcntl.lockf(fd, fcntl.LOCK_EX))
attempt("no lease is there", lambda: fcntl.fcntl(fd, fcntl.F_GETLEASE))
"""
    seen = field.program(field.ground(), program)

    assert set(seen.answers.values()) == {"done"}, seen
