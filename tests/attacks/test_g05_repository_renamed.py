"""G5, G6: .git is renamed away and rebuilt, or becomes a file that points elsewhere."""

from tests.attacks.conftest import Field, with_git

PROGRAM = """
attempt("renamed", lambda: (os.rename(".git", ".g2"), os.rename(".g2", ".git")))
attempt("rebuilt", lambda: sh("mv .git .g2 && cp -r .g2 .git && echo evil >> .git/config && rm -rf .g2"))
attempt("a file in its place", lambda: sh("mv .git g && echo 'gitdir: evil.git' > .git && rm .git && mv g .git"))
attempt("removed", lambda: sh("rm -rf .git"))
"""


def test_the_repository_stays_where_it_is(field: Field) -> None:
    field.repels(PROGRAM, with_git)
