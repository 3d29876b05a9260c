"""F19: another file is renamed over a denied one."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
write("src/n1")
write("src/n2")
attempt("over a denied file", lambda: os.rename("src/n1", "rules"))
attempt("into a denied directory", lambda: os.rename("src/n2", "private/rules"))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/rules")
    ground.file("ws/private/rules")
    return []


def test_nothing_is_renamed_over_a_denied_file(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_write": (str(ground.workspace / "rules"), str(ground.workspace / "private"))},
    )
