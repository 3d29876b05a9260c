"""G6: .git is a file, as in a linked worktree, and is made to point elsewhere."""

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = """
attempt("written", lambda: write(".git", "gitdir: evil.git\\n"))
attempt("replaced", lambda: (write("src/g", "gitdir: ../evil.git\\n"), os.rename("src/g", ".git")))
def rebuilt():
    os.unlink(".git")
    os.makedirs(".git/hooks")
    write(".git/hooks/pre-commit")
attempt("a directory in its place", rebuilt)
"""


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    (ground.workspace / ".git").rename(ground.outside / "repository")
    ground.file("ws/.git", f"gitdir: {ground.outside}/repository\n")
    return []


def test_a_file_that_points_at_the_repository_is_protected(field: Field) -> None:
    field.repels(PROGRAM, prepare)
