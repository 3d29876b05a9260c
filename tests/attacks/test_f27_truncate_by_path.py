"""F27: truncate(2) empties a file that is never opened."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("empty", lambda: os.truncate(OUTSIDE + "/canary", 0))
attempt("lengthen", lambda: os.truncate(OUTSIDE + "/other", 99))
attempt("in the home", lambda: os.truncate(HOME + "/.bashrc", 0))
"""


def test_a_file_outside_is_not_truncated(field: Field) -> None:
    field.repels(PROGRAM)
