"""F25: a file without a name is filled, and then linked to a denied name."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
def planted(target):
    fd = os.open("src", os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, b"evil")
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, target.encode(), 0x400))
attempt("in a denied directory", lambda: planted("private/planted"))
attempt("outside", lambda: planted(OUTSIDE + "/planted"))
attempt("in the home", lambda: planted(HOME + "/.profile"))
attempt("made outside", lambda: os.open(OUTSIDE, os.O_TMPFILE | os.O_WRONLY, 0o644))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/private/rules")
    return []


def test_a_file_without_a_name_is_not_linked_to_a_denied_one(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_write": (str(ground.workspace / "private"),)})
