"""G1: a hook is planted, and the next git outside runs it."""

from tests.attacks.conftest import Field, with_git

PROGRAM = """
attempt("a new hook", lambda: write(".git/hooks/pre-commit"))
attempt("an old one", lambda: write(".git/hooks/pre-commit.sample"))
attempt("by a rename", lambda: (write("src/hook"), os.rename("src/hook", ".git/hooks/post-commit")))
attempt("by a link", lambda: os.symlink("../../src", ".git/hooks/update"))
attempt("another directory", lambda: os.rename(".git/hooks", ".git/hooks2"))
"""


def test_no_hook_is_planted(field: Field) -> None:
    field.repels(PROGRAM, with_git)
