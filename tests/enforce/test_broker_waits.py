"""What the warden does for the command makes nobody wait, and leaves nobody behind: pipes, sockets, denials."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enforce.test_broker import AS_PLAIN, NOBODY

import ringfence

assert sys.platform == "linux"
pytestmark = pytest.mark.needs_userns

# Forty writers of a named pipe, killed before anybody read: none of them is left when somebody does.
KILLED = """
import os, select, subprocess, time
os.mkfifo("pipe")
for _ in range(2):
    writers = [subprocess.Popen(["sh", "-c", "echo x > pipe"], stderr=subprocess.DEVNULL) for _ in range(40)]
    time.sleep(0.3)
    print(len([1 for writer in writers if writer.poll() is None]))
    for writer in writers:
        writer.kill(), writer.wait()
    time.sleep(0.2)
read = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
print(len(select.select([read], [], [], 0.2)[0]))
alive = subprocess.Popen(["sh", "-c", "echo x > pipe"])
select.select([read], [], [])
print(os.read(read, 9), alive.wait())
"""
INTERRUPTED = """
import os, signal, time
os.mkfifo("pipe")
class Late(Exception): pass
def late(number, frame): raise Late
signal.signal(signal.SIGALRM, late)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    os.open("pipe", os.O_WRONLY | os.O_CREAT)
except Late:
    print("late")
seen = []
signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))  # Python goes on by itself then
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.2)
if os.fork() == 0:
    time.sleep(0.6)
    os._exit(os.read(os.open("pipe", os.O_RDONLY), 1) != b"x")
os.write(os.open("pipe", os.O_WRONLY | os.O_CREAT), b"x")
print(len(seen), os.wait()[1])
"""
# Two pipes, one each way, as a shell opens them for a coprocess: each end waits for the other, and nobody has written yet.
BOTH_WAYS = """
import os
os.mkfifo("there"), os.mkfifo("back")
if os.fork() == 0:
    write, read = os.open("there", os.O_WRONLY), os.open("back", os.O_RDONLY)
    os.write(write, os.read(read, 9))
    os._exit(0)
read, write = os.open("there", os.O_RDONLY), os.open("back", os.O_WRONLY)
os.write(write, b"x")
print(os.read(read, 9), os.wait()[1])
"""
SOCKETS = """
import os, socket
os.mkdir("sub")
fd = os.open("sub", os.O_RDONLY)
for name in (f"/proc/self/fd/{fd}/one", "sub/two", "/proc/self/cwd/three", "./" + "s" * 60):
    made = socket.socket(socket.AF_UNIX)
    made.bind(name); made.listen()
    socket.socket(socket.AF_UNIX).connect(name)
print(sorted(os.listdir("sub")), sorted(len(name) for name in os.listdir(".")))
"""
# The first thread of a process ends before the others: what is left has its directory, its descriptors and its mask.
ALONE = """
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None)
def go_on():
    time.sleep(0.1)
    made = socket.socket(socket.AF_UNIX)
    made.bind("sock")
    libc.unshare(0x600)  # CLONE_FS and CLONE_FILES: from here on its own
    os.chdir("/tmp"), os.umask(0o077)
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, 0o666))
    fd = os.open("/", os.O_RDONLY)
    other = socket.socket(socket.AF_UNIX)
    other.bind("other")
    print(oct(os.stat("/tmp/file").st_mode), sorted(n for n in os.listdir(".") if "pytest" not in n), flush=True)
    os._exit(0)
threading.Thread(target=go_on).start()
libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""
DENIED = """
import os
refused = 0
for number in range(1000):
    try:
        os.open(f"n{number}", os.O_WRONLY | os.O_CREAT)
    except PermissionError:
        refused += 1
print(refused)
"""


@pytest.fixture
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rf-") as scratch:
        path = Path(scratch, "ws")
        path.mkdir()
        os.chmod(scratch, 0o755)
        if AS_PLAIN:
            os.chown(path, NOBODY, NOBODY)
        yield path


def said(workspace: Path, program: str, **flags: tuple[str, ...]) -> str:
    outcome = ringfence.run(
        ["/usr/bin/python3", "-I", "-S", "-c", program], workspace=str(workspace), cwd=str(workspace), capture=True,
        flags=ringfence.Flags(cwd=str(workspace), **flags), timeout=60,  # type: ignore[arg-type]
    )  # fmt: skip
    return f"{(outcome.stdout or b'').decode()}{(outcome.stderr or b'').decode()}{outcome.ending}"


def test_who_was_killed_while_it_waited_for_a_pipe_is_not_its_other_end(workspace: Path) -> None:
    assert said(workspace, KILLED) == "40\n40\n0\nb'x\\n' 0\nexited with 0"


def test_who_waits_for_a_pipe_hears_its_signals(workspace: Path) -> None:
    assert said(workspace, INTERRUPTED) == "late\n1 0\nexited with 0"


def test_who_opens_a_pipe_to_read_waits_for_a_writer_and_not_for_a_word(workspace: Path) -> None:
    """Where something may not be read, it is the warden who opens it."""
    assert said(workspace, BOTH_WAYS, deny_read=("**/*.never",)) == "b'x' 0\nexited with 0"


def test_sockets_stand_where_the_caller_meant(workspace: Path) -> None:
    assert said(workspace, SOCKETS) == "['one', 'two'] [3, 5, 60]\nexited with 0"


def test_a_thread_is_asked_for_what_is_its_own(workspace: Path) -> None:
    assert said(workspace, ALONE) == "0o100600 ['file', 'other']\nexited with 0"
    assert os.listdir(workspace) == ["sock"]


def test_a_thousand_denials_make_nobody_wait(workspace: Path) -> None:
    denied = tuple(str(workspace / f"n{number}") for number in range(1000))

    assert said(workspace, DENIED, deny_write=denied) == "1000\nexited with 0"
