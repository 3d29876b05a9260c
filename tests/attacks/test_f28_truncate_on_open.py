"""F28: a file is opened for reading only, and emptied by the opening."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("read-only, and truncated", lambda: os.open(OUTSIDE + "/canary", os.O_RDONLY | os.O_TRUNC))
attempt("created if it is missing", lambda: os.open(OUTSIDE + "/new", os.O_RDONLY | os.O_CREAT, 0o644))
attempt("the odd access mode 3", lambda: os.open(OUTSIDE + "/other", 3 | os.O_TRUNC))
"""


def test_opening_for_reading_changes_nothing_outside(field: Field) -> None:
    field.repels(PROGRAM)
