"""K4, K5, K8: /proc/PID/mem, environ, maps, fd and auxv of another process."""

import pytest
from tests.attacks.conftest import SECRET, Field, Ground

PROGRAM = """
directory = "/proc/" + EXTRA[0]
def opened(path):
    fd = os.open(path, os.O_RDONLY)
    if not path.endswith("/mem"):  # nothing is mapped at its beginning
        os.read(fd, 96)
for name in ("mem", "environ", "maps", "auxv", "smaps", "pagemap", "stack", "syscall", "io", "timerslack_ns"):
    if os.path.exists("/proc/self/" + name):
        attempt(name, lambda: opened(directory + "/" + name))
attempt("fd", lambda: os.listdir(directory + "/fd"))
attempt("a descriptor", lambda: os.close(os.open(directory + "/fd/0", os.O_RDONLY)))
attempt("fdinfo", lambda: os.listdir(directory + "/fdinfo"))
attempt("cwd", lambda: os.readlink(directory + "/cwd"))
attempt("exe", lambda: os.readlink(directory + "/exe"))
attempt("ns", lambda: os.readlink(directory + "/ns/net"))
attempt("write its memory", lambda: os.close(os.open(directory + "/mem", os.O_RDWR)))
attempt("its fate", lambda: write(directory + "/oom_score_adj", "1000"))
"""


def prepare(ground: Ground) -> list[str]:
    pid = ground.victim(environ={"PATH": "/usr/bin:/bin", "API_KEY": SECRET})
    ground.harmed.clear()
    return [str(pid)]


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_proc_tells_nothing_of_others(field: Field) -> None:
    said = "other processes invisible"
    field.repels(
        PROGRAM, prepare, unknown=("stack", "timerslack_ns", "syscall"), gaps={"landlock": {"fd": said}}
    )  # only the numbers show, not what they lead to
