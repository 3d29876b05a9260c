"""K1: signals to processes outside, by every call that sends one."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import signal, struct
pid, number = int(EXTRA[0]), signal.SIGKILL
information = ctypes.create_string_buffer(struct.pack("iiiiii", number, 0, -1, 0, os.getpid(), os.getuid()), 128)
attempt("pidfd_send_signal", lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT))
attempt("tkill", lambda: syscall(NR.tkill, pid, signal.SIGCONT))
attempt("tgkill", lambda: syscall(NR.tgkill, pid, pid, signal.SIGCONT))
attempt("rt_sigqueueinfo", lambda: syscall(NR.rt_sigqueueinfo, pid, number, information))
attempt("kill", lambda: os.kill(pid, number))
"""


def prepare(ground: Ground) -> list[str]:
    return [str(ground.victim())]


def test_no_call_sends_a_signal_out(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_a_signal_to_everybody_stays_inside(field: Field) -> None:
    ground = field.ground()
    ground.victim()
    seen = field.program(ground, 'import signal; os.kill(-1, signal.SIGKILL) if os.fork() else None; print("x lives")')

    assert not any(harmed() for harmed in ground.harmed), seen.said


def test_a_signal_to_the_own_group_spares_ringfence(field: Field) -> None:
    seen = field.program(field.ground(), "import signal; signal.signal(15, signal.SIG_IGN); os.kill(0, 15)")

    assert seen.code == 0, seen.said
