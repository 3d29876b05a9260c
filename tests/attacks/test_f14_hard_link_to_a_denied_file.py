"""F14: a denied file of the workspace gets a second name that is free."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("link, then read", lambda: (os.link("private/secret.txt", "ok.txt"), read("ok.txt")))
attempt("link a single file, then read", lambda: (os.link(".env", "ok.env"), read("ok.env")))
attempt("link it in place", lambda: (os.link("private/secret.txt", "private/ok.txt"), read("private/ok.txt")))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/private/secret.txt")
    ground.file("ws/.env")
    return []


def test_a_denied_file_gets_no_second_name(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_read": (str(ground.workspace / "private"), str(ground.workspace / ".env"))},
    )
