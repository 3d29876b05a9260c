"""F22 to F25, F37: a denied name that does not exist when the run starts, made in every way there is."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
import socket
EXCHANGE, WHITEOUT = 2, 4
def renamed(one, other, flags=0):
    syscall(NR.renameat2, -100, one.encode(), -100, other.encode(), flags)
def unnamed(target):
    fd = os.open("src", os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, b"evil")
    checked(libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, target.encode(), 0x400))
def gone(call):
    call()
    if os.path.isdir("rules") and not os.path.islink("rules"):
        os.rmdir("rules")
    else:
        os.unlink("rules")
def fresh(name):
    write(name)
    return name
def directory(name):
    os.mkdir(name)
    write(name + "/inner")
    return name
attempt("open", lambda: gone(lambda: write("rules")))
attempt("open by a descriptor", lambda: gone(lambda: os.open("rules", os.O_CREAT | os.O_RDWR, dir_fd=os.open(".", 0))))
attempt("creat", lambda: gone(lambda: checked(libc.creat(b"rules", 0o644))))
attempt("mkdir", lambda: gone(lambda: os.mkdir("rules")))
attempt("symlink", lambda: gone(lambda: os.symlink("/etc/passwd", "rules")))
attempt("link", lambda: gone(lambda: os.link(fresh("src/a"), "rules")))
attempt("unnamed", lambda: gone(lambda: unnamed("rules")))
attempt("mkfifo", lambda: gone(lambda: os.mkfifo("rules")))
attempt("socket", lambda: gone(lambda: socket.socket(socket.AF_UNIX).bind("rules")))
attempt("rename", lambda: gone(lambda: os.rename(fresh("src/b"), "rules")))
attempt("rename through the root", lambda: gone(lambda: os.rename(fresh("src/c"), "/proc/self/cwd/rules")))
attempt("whiteout", lambda: gone(lambda: (renamed(fresh("src/d"), "rules", WHITEOUT), os.unlink("src/d"))))
attempt("parent made", lambda: (os.mkdir("deep"), write("deep/inner")))
attempt("parent moved", lambda: os.rename(directory("src/e"), "deep2"))
attempt("parent exchanged", lambda: (os.mkdir("deep3"), directory("src/f"), renamed("src/f", "deep3", EXCHANGE),
                                     os.stat("deep3/inner")))
attempt("parent linked", lambda: (directory("src/g"), os.symlink("src/g", "deep4"), os.stat("deep4/inner")))
attempt("grandparent moved", lambda: (os.rename("there", "aside"), os.makedirs("there/d"), write("there/d/inner")))
"""
NAMES = ("rules", "deep/inner", "deep2/inner", "deep3/inner", "deep4/inner", "there/d/inner")


def prepare(ground: Ground) -> list[str]:
    (ground.workspace / "there").mkdir()
    return []


def test_a_denied_name_is_made_in_no_way(field: Field) -> None:
    field.repels(
        PROGRAM,
        prepare,
        denied=lambda ground: {"deny_write": tuple(str(ground.workspace / name) for name in NAMES)},
        unknown=("whiteout",),
    )


DEPTH = 150
FAR_DOWN = f"""
def made():
    for number in range({DEPTH}):
        os.mkdir(str(number % 10))
        os.chdir(str(number % 10))
    write("inner")
attempt("made", made)
"""


def test_a_denied_name_far_down_is_not_made(field: Field) -> None:
    """The warden looks up to where the policy begins. It called itself for each directory, and from some 115 on ran
    over its own memory. A project's policy, which anybody may write, may name what it likes."""
    way = [str(number % 10) for number in range(DEPTH)]

    field.repels(FAR_DOWN, denied=lambda ground: {"deny_write": (str(ground.workspace.joinpath(*way, "inner")),)})


TAGGED = """
libc.prctl(55, 1, 0, 0, 0)  # PR_SET_TAGGED_ADDR_CTRL
def made(name, tag):
    text = ctypes.create_string_buffer(name)
    address = ctypes.c_ulong(ctypes.addressof(text) | tag << 56)
    os.close(syscall(NR.openat, -100, address, os.O_CREAT | os.O_WRONLY, 0o644))
attempt("by a plain pointer", lambda: made(b"rules", 0))
attempt("by a pointer with a tag", lambda: made(b"deep2", 0x5A))
"""


def test_a_denied_name_is_not_made_by_a_pointer_with_a_tag(field: Field) -> None:
    """aarch64 does not look at the highest byte of one, and where a program asks for it the kernel takes such pointers
    too. Elsewhere it refuses them."""
    field.repels(
        TAGGED,
        denied=lambda ground: {"deny_write": tuple(str(ground.workspace / name) for name in ("rules", "deep2"))},
        unknown=("by a pointer with a tag",),
    )
