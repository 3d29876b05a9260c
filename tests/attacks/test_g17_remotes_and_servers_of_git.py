"""G17: where git fetches and pushes, told in the old way, and what `git instaweb` runs and ends, by files that a
repository mostly has not: a push then goes to a repository of the command's, and runs its hooks."""

import subprocess

from tests.attacks.conftest import PATH, Field, Ground, with_git

PROGRAM = """
def git(words):
    sh("git -c safe.directory='*' " + words)
attempt("a remote", lambda: (os.makedirs(".git/remotes", exist_ok=True),
                             write(".git/remotes/origin", "URL: " + EXTRA[0]),
                             git("ls-remote origin | grep -q main")))
attempt("a branch", lambda: (os.makedirs(".git/branches", exist_ok=True), write(".git/branches/other", EXTRA[0]),
                             git("ls-remote other | grep -q main")))
attempt("by a rename", lambda: (os.makedirs("put"), write("put/third", "URL: " + EXTRA[0]),
                                os.path.isdir(".git/remotes") and os.rename(".git/remotes", "away"),
                                os.rename("put", ".git/remotes"), git("ls-remote third | grep -q main")))
attempt("a server", lambda: (os.makedirs(".git/gitweb"), write(".git/gitweb/lighttpd.conf")))
attempt("its process", lambda: write(".git/pid", "1"))
"""


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    where = ground.workspace / "theirs.git"
    where.mkdir()
    environ = {"PATH": PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    script = """git init -q --bare -b main . && tree=$(git mktree </dev/null) &&
        git update-ref refs/heads/main $(git -c user.name=n -c user.email=e@example.org commit-tree -m one $tree)"""
    subprocess.run(["sh", "-c", script], cwd=where, env=environ, check=True)
    return [str(where)]


def test_no_remote_is_planted(field: Field) -> None:
    field.repels(PROGRAM, prepare)
