"""F13: a hard link to a file outside is made inside, and written."""

from tests.attacks.conftest import Field

PROGRAM = """
def by_descriptor(path, name):
    fd = os.open(path, os.O_RDONLY)
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, name.encode(), 0x400))
attempt("link and write", lambda: (os.link(OUTSIDE + "/canary", "h1"), write("h1")))
attempt("through a descriptor", lambda: (by_descriptor(OUTSIDE + "/other", "h2"), write("h2")))
def by_it_alone(path, name):
    checked(libc.linkat(os.open(path, os.O_RDONLY), b"", -100, name.encode(), 0x1000))
attempt("by a descriptor and no path", lambda: (by_it_alone(OUTSIDE + "/dir/inner", "h4"), write("h4")))
attempt("link a secret and read it", lambda: (os.link(HOME + "/.bashrc", "h3"), read("h3")))
"""


def test_no_hard_link_to_the_outside_is_made(field: Field) -> None:
    field.repels(PROGRAM, unknown=("by a descriptor and no path",))  # before Linux 6.10 it takes a capability
