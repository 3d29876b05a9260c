"""F53: a protected name is a symbolic link. The run starts, the target is protected, and of the link it is said."""

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = """
attempt("write the target", lambda: write("shared/pre-commit"))
attempt("write through the link", lambda: write(".git/hooks/pre-push"))
attempt("move the target", lambda: (os.rename("shared", "s2"), os.rename("s2", "shared")))
attempt("replace the link", lambda: (os.unlink(".git/hooks"), os.mkdir(".git/hooks"), write(".git/hooks/pre-commit")))
"""


def prepare(ground: Ground) -> list[str]:
    with_git(ground)
    hooks = ground.workspace / ".git/hooks"
    for file in hooks.iterdir():
        file.unlink()
    hooks.rmdir()
    ground.file("ws/shared/pre-commit")
    hooks.symlink_to("../shared")
    return []


def test_a_link_among_the_protected_names_protects_its_target(field: Field) -> None:
    field.repels(PROGRAM, prepare, gaps={"view": {"replace the link": "/.git/hooks kept"}})
