"""F57: the workspace itself is renamed, and a link to somewhere else put in its place."""

from tests.attacks.conftest import Field

PROGRAM = """
os.chdir("/")
attempt("renamed", lambda: os.rename(WS, WS + "2"))
attempt("replaced", lambda: os.symlink(OUTSIDE, WS))
attempt("written through", lambda: write(os.path.realpath(WS).replace("/ws", "/outside") + "/planted"))
"""


def test_the_workspace_stays_where_it_is(field: Field) -> None:
    field.repels(PROGRAM)
