"""K9: the warden makes calls for the command, and could be asked to look into itself, where the command may not.

Bare, its part is played by a process of the same user: what that one has open, and its memory, are anybody's of his.
"""

import subprocess
import time
from pathlib import Path

import pytest
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


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
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


@pytest.mark.needs_yama(0)  # above, the kernel refuses it bare
def test_nor_where_it_opens_everything(field: Field) -> None:
    field.repels(PLAIN, prepare, denied=lambda ground: {"deny_read": ("**/*.never",)})


# And where a pattern denies something to be written, it changes what is there.
CHANGED = """
pid = int(EXTRA[0]) if os.path.exists("/proc/" + EXTRA[0]) else 1
def second_name(path, other):
    syscall(NR.linkat, -100, path.encode(), -100, other.encode(), 0x400)
for number in range(3):
    path = f"/proc/{pid}/fd/{number}"
    attempt(f"the mode of {number}", lambda: os.chmod(path, 0o640))
    attempt(f"the owner of {number}", lambda: os.chown(path, os.getuid(), -1))
    attempt(f"the time of {number}", lambda: os.utime(path, (1, 1)))
    attempt(f"a second name of {number}", lambda: second_name(path, f"src/{number}"))
"""


def prepare_held(ground: Ground) -> list[str]:
    held = ground.file("outside/held")
    ground.own()
    with held.open("r+b") as file:
        words = [*as_user(ground.uid), "sleep", "60"]
        process = subprocess.Popen(words, cwd="/", stdin=file, stdout=file, stderr=file)
    ground.stack.callback(process.wait)
    ground.stack.callback(process.kill)
    while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
        time.sleep(0.005)
    return [str(process.pid)]


def test_nor_where_it_changes_what_is_there(field: Field) -> None:
    field.repels(CHANGED, prepare_held, denied=lambda ground: {"deny_write": ("**/*.never",)})
