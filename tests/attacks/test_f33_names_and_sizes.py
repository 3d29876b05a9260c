"""F33: stat and readdir tell the names and sizes of what is hidden."""

from tests.attacks.conftest import Field

PROGRAM = """
def size(path):
    if os.stat(path).st_size == 0:
        raise OSError(errno.ENOENT, "a mask")
attempt("size", lambda: size(HOME + "/.ssh/id_ed25519"))
attempt("existence", lambda: os.stat(HOME + "/.aws/credentials"))
attempt("access", lambda: checked(libc.access((HOME + "/.bashrc").encode(), 0)))
attempt("listing", lambda: os.listdir(HOME + "/.ssh"))
attempt("attributes", lambda: os.listxattr(HOME + "/.bashrc"))
"""


def test_names_and_sizes_of_hidden_files_do_not_show(field: Field) -> None:
    said = "names and sizes of hidden files invisible"
    shown = ("size", "existence", "access", "attributes")
    field.repels(PROGRAM, gaps={"landlock": dict.fromkeys(shown, said)})
