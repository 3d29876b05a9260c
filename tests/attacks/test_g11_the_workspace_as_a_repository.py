"""G11: a `.git` without its HEAD is no repository to git, which then takes the directory around it for a bare one, with
a configuration that nobody protects."""

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = r"""
CONFIG = '[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = ": > ran; false"\n'
def plant():
    os.rename(".git/HEAD", ".git/HEAD.old")
    try:
        for name in ("objects", "refs"):
            os.makedirs(name)
        write("config", CONFIG)
        write("HEAD", "ref: refs/heads/main\n")
    except OSError:
        os.rename(".git/HEAD.old", ".git/HEAD")
        raise
    os.system("git -c safe.directory='*' status >/dev/null 2>&1")
    os.stat("ran")
attempt("planted", plant)
"""


def test_the_workspace_is_not_made_a_repository(field: Field) -> None:
    field.repels(PROGRAM, with_git)


def bare_repository(ground: Ground) -> list[str]:
    with_git(ground)
    for path in (ground.workspace / ".git").iterdir():
        path.rename(ground.workspace / path.name)
    (ground.workspace / ".git").rmdir()
    return []


def test_a_workspace_that_is_a_bare_repository_keeps_its_hooks_and_configuration(field: Field) -> None:
    program = """
attempt("configuration", lambda: write("config"))
attempt("hook", lambda: write("hooks/post-update"))
attempt("module", lambda: write("modules/m/config"))
"""
    field.repels(program, bare_repository)
