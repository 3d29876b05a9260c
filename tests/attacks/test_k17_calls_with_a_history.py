"""K17: bpf, userfaultfd, perf events, kcmp, personality, fanotify: calls with a history of holes."""

import pytest
from tests.attacks.conftest import Field

PROGRAM = """
reach("bpf", lambda: syscall(NR.bpf, 0, 0, 0))
attempt("userfaultfd", lambda: syscall(NR.userfaultfd, 1))
reach("perf_event_open", lambda: syscall(NR.perf_event_open, ctypes.create_string_buffer(128), 0, -1, -1, 0))
attempt("personality", lambda: checked(libc.personality(0x0400000)))
attempt("fanotify", lambda: syscall(NR.fanotify_init, 0, 0))
"""


@pytest.mark.needs_root
def test_calls_with_a_history_are_closed(field: Field) -> None:
    field.repels(PROGRAM, bare_as_root=True)


def test_a_personality_that_undoes_protections_is_not_taken_on(field: Field) -> None:
    field.repels('attempt("personality", lambda: checked(libc.personality(0x0400000)))')
