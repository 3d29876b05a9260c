"""F26: a denied file is removed, and made again with another content."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("a file", lambda: (os.unlink("rules"), write("rules")))
attempt("in a denied directory", lambda: (os.unlink("private/rules"), write("private/rules")))
attempt("the directory", lambda: (sh("rm -r private"), os.mkdir("private")))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/rules")
    ground.file("ws/private/rules")
    return []


def test_a_denied_file_is_not_made_again(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_write": (str(ground.workspace / "rules"), str(ground.workspace / "private"))},
    )
