"""K25: the user's keyring holds secrets and has no namespace."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("add_key", lambda: syscall(NR.add_key, b"user", b"rf-test", b"x", 1, -2))
attempt("keyctl", lambda: syscall(NR.keyctl, 0, -2, 1, 0, 0))
reach("request_key", lambda: syscall(NR.request_key, b"user", b"rf-none", 0, 0))
"""


def test_no_key_is_found_or_made(field: Field) -> None:
    field.repels(PROGRAM)
