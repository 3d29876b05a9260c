"""K9: the warden makes calls for the command, and could be asked to look into itself, where the command may not.

Bare, its part is played by a process of the same user: what that one has open, and its memory, are anybody's of his.
"""

import subprocess
import time
from pathlib import Path

from tests.attacks.conftest import Field, Ground, as_user

# O_CREAT, though it is there: such an open is made by the warden.
PROGRAM = """
pid = int(EXTRA[0]) if os.path.exists("/proc/" + EXTRA[0]) else 1
def created(path, **more):
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT, **more))
for name in ("maps", "smaps", "environ", "auxv", "fdinfo/0", "task/PID/maps"):
    path = name.replace("PID", str(pid))
    attempt(name, lambda: created(f"/proc/{pid}/{path}"))
    held = os.open(f"/proc/{pid}", os.O_PATH)
    attempt(name + " from its directory", lambda: created(path, dir_fd=held))
    def reopened():
        fd = os.open(f"/proc/{pid}/{path}", os.O_PATH)
        created(f"/proc/self/fd/{fd}")
    attempt(name + " opened anew", reopened)
attempt("mem", lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CREAT))
attempt("its directory", lambda: created(f"/proc/{pid}/cwd/etc/hostname"))
attempt("its descriptor", lambda: created(f"/proc/{pid}/fd/0"))
"""


def prepare(ground: Ground) -> list[str]:
    process = subprocess.Popen([*as_user(ground.uid), "sleep", "60"], cwd="/", stdin=subprocess.DEVNULL)
    ground.stack.callback(process.wait)
    ground.stack.callback(process.kill)
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
        time.sleep(0.005)
    return [str(process.pid)]


def test_the_warden_does_not_look_into_itself_for_others(field: Field) -> None:
    field.repels(PROGRAM, prepare)


# Where a pattern denies something to be read, every open is made by the warden.
PLAIN = (
    PROGRAM.replace("os.O_RDONLY | os.O_CREAT", "os.O_RDONLY")
    + """
attempt("its descriptors listed", lambda: os.listdir(f"/proc/{pid}/fd"))
attempt("its threads' descriptors", lambda: os.listdir(f"/proc/{pid}/task/{pid}/fdinfo"))
attempt("itself, by a link", lambda: (os.symlink(f"/proc/{pid}/maps", "way"), created("way")))
"""
)


def test_nor_where_it_opens_everything(field: Field) -> None:
    field.repels(PLAIN, prepare, denied=lambda ground: {"deny_read": ("**/*.never",)})
