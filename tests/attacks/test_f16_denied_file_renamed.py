"""F16: a read-denied file is renamed, and read under its new name."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("within the workspace", lambda: (os.rename("private/secret.txt", "x"), read("x")))
attempt("a single file", lambda: (os.rename(".env", "env"), read("env")))
attempt("from the home", lambda: (os.rename(HOME + "/.aws/credentials", WS + "/c"), read("c")))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/private/secret.txt")
    ground.file("ws/.env")
    return []


def test_a_denied_file_is_not_renamed(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_read": (str(ground.workspace / "private"), str(ground.workspace / ".env"))},
    )
