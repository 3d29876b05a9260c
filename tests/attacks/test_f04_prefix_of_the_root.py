"""F4: a directory whose name begins like the workspace's is taken for it."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
attempt("the name and more", lambda: write(WS + "-evil/f", flags=0))
attempt("create beside", lambda: write(WS + "-evil/new"))
attempt("read a store whose name begins alike", lambda: read(HOME + "/.sshfoo"))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws-evil/f")
    ground.file("home/.sshfoo")
    return []


def test_a_name_that_begins_like_the_workspace_is_outside(field: Field) -> None:
    field.repels(PROGRAM, prepare)
