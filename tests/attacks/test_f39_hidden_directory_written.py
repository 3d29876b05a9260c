"""F39: a hidden directory turns out to be an empty one that may be written, and what is written there seems to last."""

from tests.attacks.conftest import Field, secrets_closed, with_secrets

PROGRAM = """
attempt("create in a hidden store", lambda: write(HOME + "/.ssh/config"))
attempt("create in a hidden home", lambda: write(HOME + "/new"))
attempt("create in a hidden directory of the workspace", lambda: write("private/new"))
attempt("a directory there", lambda: os.mkdir("private/d"))
attempt("open it up", lambda: (os.chmod("private", 0o777), os.listdir("private"), write("private/again")))
attempt("write what is hidden", lambda: write(".env"))
"""


def test_what_is_hidden_is_not_written(field: Field) -> None:
    field.repels(PROGRAM, with_secrets, denied=secrets_closed)
