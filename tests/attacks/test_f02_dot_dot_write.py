"""F2: a file outside is written by a path that climbs out of the workspace."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("from the root of the workspace", lambda: write("../outside/canary"))
os.chdir("src")
attempt("from below it", lambda: write("../../outside/new"))
attempt("through itself", lambda: write("../../ws/../outside/other"))
"""


def test_a_path_that_climbs_out_is_not_written(field: Field) -> None:
    field.repels(PROGRAM)
