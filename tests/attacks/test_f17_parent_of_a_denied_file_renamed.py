"""F17: the directory of a read-denied file is renamed, and the file read there."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("the parent", lambda: (os.rename("a/private", "a/p2"), read("a/p2/secret.txt")))
attempt("the parent's parent", lambda: (os.rename("a", "a2"), read("a2/p2/secret.txt")))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/a/private/secret.txt")
    return []


def test_the_parents_of_a_denied_file_stay_where_they_are(field: Field) -> None:
    field.repels(
        PROGRAM, prepare, denied=lambda ground: {"deny_read": (str(ground.workspace / "a/private/secret.txt"),)}
    )
