"""G14: the user's own git configuration."""

from tests.attacks.conftest import Field, with_git

PROGRAM = """
attempt("global", lambda: sh("git config --global core.hooksPath ./evil"))
attempt("by hand", lambda: write(HOME + "/.gitconfig"))
other = HOME + "/.config/git"
attempt("by the other place", lambda: (os.makedirs(other, exist_ok=True), write(other + "/config")))
"""


def test_the_configuration_of_the_user_is_not_written(field: Field) -> None:
    field.repels(PROGRAM, with_git)
