"""F5: a symbolic link made inside leads outside, and is written through."""

from tests.attacks.conftest import Field

PROGRAM = """
os.symlink(HOME + "/.ssh/authorized_keys", "keys")
os.symlink(OUTSIDE + "/canary", "file")
os.symlink("../outside", "directory")
attempt("create through a link", lambda: write("keys"))
attempt("append through a link", lambda: write("file", flags=os.O_APPEND))
attempt("create through a linked directory", lambda: write("directory/new"))
attempt("remove through a linked directory", lambda: os.unlink("directory/other"))
"""


def test_a_link_made_inside_does_not_lead_out(field: Field) -> None:
    field.repels(PROGRAM)
