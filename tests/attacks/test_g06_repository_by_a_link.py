"""G6, L16: .git is a symbolic link, or one of the directories above a denied name is; the link is replaced."""

from tests.attacks.conftest import Field, Ground, with_git

REPOSITORY = """
attempt("replaced", lambda: (os.unlink(".git"), os.makedirs(".git/hooks"), write(".git/hooks/pre-commit")))
"""
DENIED = """
attempt("replaced", lambda: (os.unlink("link"), os.mkdir("link"), write("link/rules")))
attempt("renamed", lambda: os.rename("link", "link2"))
"""


def linked_repository(ground: Ground) -> list[str]:
    with_git(ground)
    (ground.workspace / ".git").rename(ground.workspace / "repository")
    (ground.workspace / ".git").symlink_to("repository")
    return []


def linked_directory(ground: Ground) -> list[str]:
    ground.file("ws/decoy/rules")
    (ground.workspace / "link").symlink_to("decoy")
    return []


def test_a_link_to_the_repository_is_not_replaced(field: Field) -> None:
    field.repels(REPOSITORY, linked_repository)


def test_a_denial_through_a_link_holds(field: Field) -> None:
    field.repels(
        DENIED, linked_directory, denied=lambda ground: {"deny_write": (str(ground.workspace / "link/rules"),)}
    )
