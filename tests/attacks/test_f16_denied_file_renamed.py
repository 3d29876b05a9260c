"""F16: a read-denied file is renamed, and read under its new name."""

from tests.attacks.conftest import Field, secrets_closed, with_secrets

PROGRAM = """
attempt("within the workspace", lambda: (os.rename("private/secret.txt", "x"), read("x")))
attempt("a single file", lambda: (os.rename(".env", "env"), read("env")))
attempt("from the home", lambda: (os.rename(HOME + "/.aws/credentials", WS + "/c"), read("c")))
"""


def test_a_denied_file_is_not_renamed(field: Field) -> None:
    field.repels(PROGRAM, with_secrets, denied=secrets_closed)
