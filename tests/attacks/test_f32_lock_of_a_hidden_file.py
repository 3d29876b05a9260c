"""F32: a lock file of somebody outside is held, and he waits for ever."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import fcntl
def lock():
    fd = os.open(HOME + "/lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
def lease():
    fd = os.open(HOME + "/lock", os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
attempt("flock", lock)
attempt("lease", lease)
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("home/lock")
    return []


def test_a_hidden_file_is_not_locked(field: Field) -> None:
    field.repels(PROGRAM, prepare)
