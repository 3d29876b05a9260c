"""F19: another file is renamed over a denied one."""

from tests.attacks.conftest import Field, rules_closed, with_rules

PROGRAM = """
write("src/n1")
write("src/n2")
attempt("over a denied file", lambda: os.rename("src/n1", "rules"))
attempt("into a denied directory", lambda: os.rename("src/n2", "private/rules"))
"""


def test_nothing_is_renamed_over_a_denied_file(field: Field) -> None:
    field.repels(PROGRAM, with_rules, denied=rules_closed)
