"""F8: a secret of the home is read by its own name."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("an ssh key", lambda: read(HOME + "/.ssh/id_ed25519"))
attempt("cloud keys", lambda: read(HOME + "/.aws/credentials"))
attempt("a file of the home that is nobody's business", lambda: read(HOME + "/.bashrc"))
"""


def test_a_secret_is_not_read(field: Field) -> None:
    field.repels(PROGRAM)


def test_a_secret_is_not_read_when_the_whole_home_is_allowed(field: Field) -> None:
    program = 'attempt("an ssh key", lambda: read(HOME + "/.ssh/id_ed25519"))'

    field.repels(program, denied=lambda ground: {"allow_read": (str(ground.home),)})
