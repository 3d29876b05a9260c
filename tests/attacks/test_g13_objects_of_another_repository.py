"""G13: the repository is told to take the objects of another one for its own; what a person then pushes is theirs."""

import subprocess

from tests.attacks.conftest import PATH, Field, Ground, with_git

PROGRAM = """
def git(words):
    sh("git -c safe.directory='*' " + words)
attempt("the path", lambda: (os.makedirs(".git/objects/info", exist_ok=True),
                             write(".git/objects/info/alternates", EXTRA[0] + "\\n"),
                             git("cat-file -e " + EXTRA[1])))
attempt("a rename", lambda: (write("other", EXTRA[0] + "\\n"), os.rename("other", ".git/objects/info/alternates"),
                             git("cat-file -e " + EXTRA[1])))
attempt("a link", lambda: (write("third", EXTRA[0] + "\\n"), os.path.exists(".git/objects/info/alternates") and
                           os.unlink(".git/objects/info/alternates"),
                           os.link("third", ".git/objects/info/alternates"), git("cat-file -e " + EXTRA[1])))
"""


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    script = "git init -q --bare . && echo theirs | git hash-object -w --stdin"
    where = ground.outside / "theirs.git"
    where.mkdir()
    environ = {"PATH": PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["sh", "-c", script], cwd=where, env=environ, check=True, capture_output=True, text=True)
    return [f"{where}/objects", done.stdout.strip()]


def test_objects_of_another_repository_are_not_taken_for_its_own(field: Field) -> None:
    field.repels(PROGRAM, prepare)
