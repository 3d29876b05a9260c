"""K10: another process is starved: its limits, its priority, its processors."""

from tests.attacks.conftest import Field
from tests.attacks.test_k02_ptrace import prepare

PROGRAM = """
import resource
pid = int(EXTRA[0])
attempt("limits", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (16, 16)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("priority of a user", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19)) if os.getuid() else None
attempt("input and output", lambda: syscall(NR.ioprio_set, 1, pid, 3 << 13))
attempt("policy", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
attempt("processors", lambda: os.sched_setaffinity(pid, {0}))
reach("pages", lambda: syscall(NR.migrate_pages, pid, 0, 0, 0))
"""


def test_no_process_outside_is_starved_or_it_is_said(field: Field) -> None:
    program = "\n".join(
        line for line in PROGRAM.splitlines() if "PRIO_USER" not in line
    )  # bare, it would slow the tests
    field.repels(program, prepare)


def test_nobody_is_slowed_by_being_of_the_same_user(field: Field) -> None:
    program = 'attempt("priority of a user", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))'
    seen = field.program(field.ground(), program)

    assert seen.answers == {"priority of a user": "EPERM"}


def test_the_warden_is_not_starved_by_its_own_run(field: Field) -> None:
    program = """
for name, pid in (("warden", os.getppid()), ("own", 0)):
    attempt(name + " policy", lambda pid=pid: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
    attempt(name + " processors", lambda pid=pid: os.sched_setaffinity(pid, os.sched_getaffinity(0)))
"""
    seen = field.program(field.ground(), program)

    assert seen.answers == {
        "warden policy": "EPERM", "warden processors": "EPERM", "own policy": "done", "own processors": "done",
    }  # fmt: skip
