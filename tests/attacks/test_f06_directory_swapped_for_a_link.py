"""F6: a directory that was looked at is replaced by a link to the outside before it is used."""

from tests.attacks.conftest import Field

PROGRAM = """
os.mkdir("d")
write("d/README.md")
fd = os.open("d", os.O_RDONLY)
os.rename("d", "gone")
os.symlink(OUTSIDE, "d")
attempt("copy into the swapped directory", lambda: write("d/README.md"))
attempt("create in it", lambda: os.mkdir("d/new"))
"""


def test_a_directory_swapped_for_a_link_leads_nowhere(field: Field) -> None:
    field.repels(PROGRAM)
