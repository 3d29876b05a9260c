"""F3: directories, FIFOs, links and files are made and removed outside."""

from tests.attacks.conftest import Field

PROGRAM = """
attempt("mkdir", lambda: os.mkdir(OUTSIDE + "/d"))
attempt("mkfifo", lambda: os.mkfifo(OUTSIDE + "/fifo"))
attempt("symlink", lambda: os.symlink("/etc", OUTSIDE + "/l"))
attempt("link", lambda: os.link(OUTSIDE + "/canary", OUTSIDE + "/hard"))
attempt("rename", lambda: os.rename(OUTSIDE + "/other", OUTSIDE + "/renamed"))
attempt("unlink", lambda: os.unlink(OUTSIDE + "/dir/inner"))
attempt("rmdir", lambda: os.rmdir(OUTSIDE + "/dir"))
"""


def test_no_name_outside_is_made_or_removed(field: Field) -> None:
    field.repels(PROGRAM)
