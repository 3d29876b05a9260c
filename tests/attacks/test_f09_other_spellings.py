"""F9: a denied file is read by another spelling of its path, or by another call."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import struct
private, name = WS + "/private", "secret.txt"
attempt("doubled slashes", lambda: read(WS + "//private///secret.txt"))
attempt("a dot", lambda: read(WS + "/./private/./secret.txt"))
attempt("there and back", lambda: read(WS + "/src/../private/secret.txt"))
attempt("relative", lambda: read("private/secret.txt"))
attempt("a directory's descriptor", lambda: read(name, dir_fd=os.open(private, os.O_PATH)))
attempt("openat2", lambda: syscall(NR.openat2, -100, b"private/secret.txt", struct.pack("QQQ", 0, 0, 0), 24))
attempt("open with O_NOFOLLOW", lambda: os.open("private/secret.txt", os.O_NOFOLLOW))
attempt("memory mapped", lambda: __import__("mmap").mmap(os.open("private/secret.txt", os.O_RDONLY), 0, prot=1))
os.chdir("src")
attempt("from a directory beside it", lambda: read("../private/secret.txt"))
"""


def prepare(ground: Ground) -> list[str]:
    ground.file("ws/private/secret.txt")
    return []


def test_no_spelling_of_a_denied_path_is_read(field: Field) -> None:
    field.repels(PROGRAM, prepare, denied=lambda ground: {"deny_read": (str(ground.workspace / "private"),)})
