"""F20: renameat2 exchanges a denied file with another."""

from tests.attacks.conftest import Field, rules_closed, with_rules

PROGRAM = """
EXCHANGE, NOREPLACE = 2, 1
write("src/n")
os.mkdir("src/d")
def exchange(one, other, flags=EXCHANGE):
    syscall(NR.renameat2, -100, one.encode(), -100, other.encode(), flags)
attempt("a file", lambda: exchange("src/n", "rules"))
attempt("a directory", lambda: exchange("src/d", "private"))
attempt("into the outside", lambda: exchange("src/n", OUTSIDE + "/canary"))
attempt("out of the outside", lambda: exchange(OUTSIDE + "/other", WS + "/src/other", NOREPLACE))
"""


def test_a_denied_file_is_not_exchanged(field: Field) -> None:
    field.repels(PROGRAM, with_rules, denied=rules_closed)
