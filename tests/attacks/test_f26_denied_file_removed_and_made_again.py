"""F26: a denied file is removed, and made again with another content."""

from tests.attacks.conftest import Field, rules_closed, with_rules

PROGRAM = """
attempt("a file", lambda: (os.unlink("rules"), write("rules")))
attempt("in a denied directory", lambda: (os.unlink("private/rules"), write("private/rules")))
attempt("the directory", lambda: (sh("rm -r private"), os.mkdir("private")))
"""


def test_a_denied_file_is_not_made_again(field: Field) -> None:
    field.repels(PROGRAM, with_rules, denied=rules_closed)
