"""F7: a secret is read through links that lead to it."""

from tests.attacks.conftest import Field

PROGRAM = """
os.symlink(HOME + "/.aws/credentials", "a")
os.symlink("a", "b")
os.symlink(HOME, "home")
attempt("through two links", lambda: read("b"))
attempt("through a linked directory", lambda: read("home/.ssh/id_ed25519"))
"""


def test_a_secret_is_not_read_through_links(field: Field) -> None:
    field.repels(PROGRAM)
