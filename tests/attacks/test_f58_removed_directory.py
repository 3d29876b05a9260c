"""F58: the current directory is removed or moved, and then `..` is asked of it."""

from tests.attacks.conftest import Field

PROGRAM = """
os.makedirs("z/y")
os.chdir("z/y")
attempt("from where it was", lambda: write("../../../outside/new"))
os.rename(WS + "/z/y", WS + "/moved")
attempt("after a move", lambda: write("../../outside/canary"))
os.chdir(WS + "/z")
os.rmdir(WS + "/z")
attempt("after the removal", lambda: write(OUTSIDE + "/gone"))
"""


def test_a_removed_directory_is_no_way_out(field: Field) -> None:
    field.repels(PROGRAM)
