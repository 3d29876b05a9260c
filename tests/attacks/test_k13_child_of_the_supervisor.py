"""A child with CLONE_PARENT is a child of ringfence, or of whoever called it, who did not ask for one."""

from tests.attacks.conftest import Field

PROGRAM = """
def sibling():
    pid = syscall(NR.clone, 0x8000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
attempt("a sibling", sibling)
"""


def test_nobody_gets_a_child_he_did_not_ask_for(field: Field) -> None:
    field.repels(PROGRAM)
