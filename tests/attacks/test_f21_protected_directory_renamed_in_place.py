"""F21: a protected directory is renamed within its parent, for which Landlock wants no refer."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
os.mkdir("src/tmp")
attempt("the protected directory goes", lambda: os.rename("bin", "bin.old"))
attempt("another comes in its place", lambda: os.rename("src/tmp", "bin"))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/bin/tool")
    return []


def test_a_protected_directory_is_not_renamed(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_write": (str(ground.workspace / "bin"),)})
