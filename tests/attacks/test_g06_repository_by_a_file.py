"""G6: .git is a file, as in a linked worktree, or .jj/repo is one, and is made to point elsewhere."""

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


def test_so_is_one_that_points_at_the_repository_of_jujutsu(field: Field) -> None:
    program = """
attempt("written", lambda: write(".jj/repo", WS + "/evil/repo"))
attempt("replaced", lambda: (write("src/g", WS + "/evil/repo"), os.rename("src/g", ".jj/repo")))
attempt("a directory in its place", lambda: (os.unlink(".jj/repo"), os.makedirs(".jj/repo")))
attempt("moved", lambda: os.rename(".jj", "src/jj"))
"""

    def pointing(ground: Ground) -> list[str]:
        ground.file("ws/.jj/repo", f"{ground.outside}/repo")
        return []

    field.repels(program, pointing)
