"""K1: the kernel itself sends a signal to whoever is named as the owner of a descriptor."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import fcntl, signal, time
F_SETSIG = 10
def told():
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, int(EXTRA[0]))
    fcntl.fcntl(reader, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writer, b"x")
    time.sleep(0.1)
    state = open("/proc/%s/stat" % EXTRA[0]).read().split()[2]
    if state not in "ZX":
        raise OSError(errno.EPERM, "it lives")
attempt("a signal for a byte in a pipe", told)
"""


def prepare(ground: Ground) -> list[str]:
    return [str(ground.victim())]


def test_no_signal_comes_by_a_descriptor(field: Field) -> None:
    field.repels(PROGRAM, prepare)
