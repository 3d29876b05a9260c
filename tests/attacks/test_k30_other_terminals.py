"""K30: another terminal of the same user is written to, and read from."""

import os

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("write", lambda: os.write(os.open(EXTRA[0], os.O_WRONLY | os.O_NOCTTY), b"evil"))
attempt("read", lambda: os.close(os.open(EXTRA[0], os.O_RDONLY | os.O_NOCTTY)))
"""


def prepare(ground: Ground) -> list[str]:
    ours, theirs = os.openpty()
    ground.stack.callback(os.close, ours)
    ground.stack.callback(os.close, theirs)
    os.fchmod(theirs, 0o666)
    return [os.ttyname(theirs)]


def test_other_terminals_are_out_of_reach_or_it_is_said(field: Field) -> None:
    field.repels(
        PROGRAM, prepare, gaps={"landlock": dict.fromkeys(("write", "read"), "other terminals of the same user")}
    )
