"""F18: the directory of a write-denied file is renamed away and built anew with another content."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
def rebuilt(directory):
    os.rename(directory, directory + ".old")
    os.mkdir(directory)
    write(WS + "/a/private/rules")
attempt("the parent", lambda: rebuilt("a/private"))
attempt("the parent's parent", lambda: (os.rename("a", "a.old"), os.makedirs("a/private"), write("a/private/rules")))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/a/private/rules")
    return []


def test_the_parents_of_a_write_denied_file_are_not_rebuilt(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_write": (str(ground.workspace / "a/private/rules"),)})
