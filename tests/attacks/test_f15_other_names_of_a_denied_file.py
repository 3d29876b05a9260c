"""F15: a denied file that has another name already. Rules are about paths: the other name is judged by its own.

What must not happen is the reverse: that leave for the other name opens the denied one, as a right on the object would.
"""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("read by the denied name", lambda: read("private"))
attempt("write by the denied name", lambda: write("kept", flags=os.O_APPEND))
"""


def prepare(ground: Ground) -> list[str]:
    for name, other in (("private", "other"), ("kept", "also")):
        ground.file(f"ws/{name}")
        (ground.workspace / other).hardlink_to(ground.workspace / name)
    return []


def test_another_name_of_a_denied_file_does_not_open_it(field: Field) -> None:
    def denied(ground: Ground) -> dict[str, tuple[str, ...]]:
        return {"deny_read": (str(ground.workspace / "private"),), "deny_write": (str(ground.workspace / "kept"),)}

    field.repels(PROGRAM, prepare, denied=denied)


def test_that_there_is_another_name_is_said(field: Field) -> None:
    ground = field.ground()
    prepare(ground)
    ground.own()

    outcome = field.run(ground, ["true"], deny_read=(str(ground.workspace / "private"),))

    assert any("private" in gap.what and "other names" in gap.what for gap in outcome.gaps)
