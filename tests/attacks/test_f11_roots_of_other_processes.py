"""F11: the root and the directory of a process outside are ways in."""

from tests.attacks.conftest import Field, Ground

PROGRAM = """
victim = EXTRA[0]
attempt("its root", lambda: read("/proc/" + victim + "/root" + HOME + "/.ssh/id_ed25519"))
attempt("its directory", lambda: read("/proc/" + victim + "/cwd/.ssh/id_ed25519"))
attempt("write through its root", lambda: write("/proc/" + victim + "/root" + OUTSIDE + "/canary"))
def any_process():
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                return read("/proc/" + name + "/root" + HOME + "/.ssh/id_ed25519")
            except OSError:
                pass
    raise OSError(errno.ENOENT, "none lets us in")
attempt("the root of any process", any_process)
"""


def prepare(ground: Ground) -> list[str]:
    pid = ground.victim(cwd=str(ground.home))
    ground.harmed.clear()  # it is only looked through
    return [str(pid)]


def test_no_process_lends_its_root_or_directory(field: Field) -> None:
    field.repels(PROGRAM, prepare)
