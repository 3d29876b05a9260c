"""F53: a protected name is a symbolic link, or one that leads nowhere. Its target is protected, and so is the link."""

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
    field.repels(PROGRAM, prepare)


DANGLING = """
attempt("written through", lambda: write(".mcp.json"))
attempt("removed", lambda: os.unlink(".mcp.json"))
attempt("replaced", lambda: (write("mine"), os.rename("mine", ".mcp.json")))
attempt("moved away", lambda: os.rename(".envrc", "aside"))
attempt("exchanged", lambda: (write("mine2"), syscall(NR.renameat2, -100, b"mine2", -100, b".claude", 2)))
attempt("its target made", lambda: write("later/settings.json") if os.path.isdir("later") else os.mkdir("nowhere2"))
"""


def dangling(ground: Ground) -> list[str]:
    for name, target in ((".mcp.json", "nowhere"), (".envrc", "nowhere1"), (".claude", "nowhere2")):
        (ground.workspace / name).symlink_to(target)
    return []


def test_a_link_that_leads_nowhere_stays(field: Field) -> None:
    field.repels(DANGLING, dangling)
