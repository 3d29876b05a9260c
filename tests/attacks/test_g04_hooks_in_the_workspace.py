"""G4: the repository's configuration, which nobody inside may write, names hooks and further configuration in the
workspace; a hook is often a link to a script there."""

import os
import subprocess

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = """
EVIL = "#!/bin/sh\\n: > ../outside/ran\\n"
def plant(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write(path, EVIL)
    os.chmod(path, 0o755)
def rebuild(name):
    os.rename(name, name + ".old")
    plant(name + "/pre-commit")
attempt("a hook of husky's", lambda: plant(".husky/pre-commit"))
attempt("what calls it", lambda: plant(".husky/_/pre-commit"))
attempt("the target of a link", lambda: plant("tools/check"))
attempt("an included file", lambda: plant(".gitinclude"))
attempt("the directory anew", lambda: rebuild(".husky"))
attempt("the target's directory anew", lambda: rebuild("tools"))
"""
CONFIG = '\n[core]\n\thooksPath = .husky/_\n[include]\n\tpath = "../.gitinclude"\n'


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    with open(ground.workspace / ".git/config", "a") as file:
        file.write(CONFIG)
    for name in (".husky/_/pre-commit", ".husky/pre-commit", "tools/check"):
        ground.file(f"ws/{name}", "#!/bin/sh\n").chmod(0o755)
    os.symlink("../../tools/check", ground.workspace / ".git/hooks/pre-push")
    return []


def test_hooks_that_the_configuration_names_are_not_written(field: Field) -> None:
    field.repels(PROGRAM, prepare)


def test_work_beside_them_goes_on(field: Field) -> None:
    ground = field.ground()
    prepare(ground)
    ground.own()

    done = field.run(
        ground, ["sh", "-c", "echo x > tools/other && mkdir .github && git status --short && git add tools"]
    )

    assert done.exit_code == 0, done


def test_the_configuration_of_the_user_counts_too(field: Field) -> None:
    ground = field.ground()
    with_git(ground)
    (ground.home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    ground.own()

    done = field.run(ground, ["sh", "-c", "mkdir .githooks"])

    assert done.exit_code != 0, done


def test_a_hook_of_husky_s_is_what_git_runs(field: Field) -> None:
    """So that what is protected is what would run."""
    ground = field.ground()
    prepare(ground)
    evil = ground.workspace / ".husky/_/pre-commit"
    evil.write_text("#!/bin/sh\n: > ran\n")
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "commit",
        "-q",
        "--allow-empty",
    ]

    subprocess.run([*command, "-m", "x"], cwd=ground.workspace, check=True, env={"PATH": os.defpath, "HOME": "/"})

    assert (ground.workspace / "ran").exists()
