"""G12: the configuration and hooks of submodules, which lie inside .git."""

from tests.attacks.conftest import Field, with_git

PROGRAM = """
attempt("a configuration", lambda: write(".git/modules/m/config"))
attempt("a hook", lambda: (os.mkdir(".git/modules/m/hooks"), write(".git/modules/m/hooks/post-checkout")))
attempt("another module", lambda: os.mkdir(".git/modules/n"))
attempt("rebuilt", lambda: sh("mv .git/modules .git/m2 && mkdir -p .git/modules && mv .git/m2/* .git/modules"))
"""


def test_submodules_are_protected(field: Field) -> None:
    # A new module is a repository like any other that the command makes in its workspace.
    another = {"another module": "repositories inside the workspace"}
    field.repels(PROGRAM, with_git, gaps={"landlock": another, "view": another})
