"""F12: a handle that may not be read is opened again through /proc/self/fd."""

from tests.attacks.conftest import Field

PROGRAM = """
def reopened(path, flags):
    handle = os.open(path, os.O_PATH)
    os.close(os.open("/proc/self/fd/%d" % handle, flags))
attempt("read a secret", lambda: reopened(HOME + "/.ssh/id_ed25519", os.O_RDONLY))
attempt("write outside", lambda: reopened(OUTSIDE + "/canary", os.O_WRONLY))
attempt("append outside", lambda: reopened(OUTSIDE + "/canary", os.O_WRONLY | os.O_APPEND))
"""


def test_a_handle_gives_no_more_when_it_is_opened_again(field: Field) -> None:
    field.repels(PROGRAM)
