"""F1: a file outside is written by its absolute path."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("append to a file", lambda: write(OUTSIDE + "/canary", flags=os.O_APPEND))
attempt("create a file", lambda: write(OUTSIDE + "/new"))
attempt("overwrite a file", lambda: write(OUTSIDE + "/other"))
attempt("append to a shell's start", lambda: write(HOME + "/.bashrc", flags=os.O_APPEND))
"""


def test_an_absolute_path_outside_is_not_written(field: Field) -> None:
    field.repels(PROGRAM)
