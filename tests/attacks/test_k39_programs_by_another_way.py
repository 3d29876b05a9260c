"""K39: a program is started by the loader, from memory, or as a copy; it stays inside all the same."""

from tests.attacks.conftest import Field

PROGRAM = """
import glob, shutil
loader = (glob.glob("/lib64/ld-linux*") + glob.glob("/lib/ld-linux-aarch64*"))[0]
touch = shutil.which("touch")
def from_memory():
    fd = os.memfd_create("touch", 0)
    with open(touch, "rb") as file:
        os.write(fd, file.read())
    status = os.spawnv(os.P_WAIT, "/proc/self/fd/%d" % fd, ["touch", OUTSIDE + "/b"])
    if status:
        raise OSError(errno.EACCES, "refused")
attempt("by the loader", lambda: sh(loader + " " + touch + " " + OUTSIDE + "/a"))
attempt("from memory", from_memory)
attempt("as a copy", lambda: (shutil.copy(touch, "copy"), sh("./copy " + OUTSIDE + "/c")))
attempt("by an interpreter", lambda: sh("perl -e 'open(F, \\">" + OUTSIDE + "/d\\") or exit 1'"))
"""


def test_a_program_stays_inside_however_it_is_started(field: Field) -> None:
    field.repels(PROGRAM)
