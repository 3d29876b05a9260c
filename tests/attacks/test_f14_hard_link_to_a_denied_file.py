"""F14: a denied file of the workspace gets a second name that is free."""

from tests.attacks.conftest import Field, secrets_closed, with_secrets

PROGRAM = """
attempt("link, then read", lambda: (os.link("private/secret.txt", "ok.txt"), read("ok.txt")))
attempt("link a single file, then read", lambda: (os.link(".env", "ok.env"), read("ok.env")))
attempt("link it in place", lambda: (os.link("private/secret.txt", "private/ok.txt"), read("private/ok.txt")))
"""


def test_a_denied_file_gets_no_second_name(field: Field) -> None:
    field.repels(PROGRAM, with_secrets, denied=secrets_closed)
