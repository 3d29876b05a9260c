"""What the warden does for the command makes nobody wait, and leaves nobody behind: pipes, sockets, denials."""

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enforce.conftest import Walls, bare, step
from tests.enforce.test_broker import AS_PLAIN, NOBODY
from tests.enforce.test_broker_fuzzed import Watched, asking

import ringfence
from ringfence.enforce import pauses, wire
from ringfence.enforce.enactor import Opened
from ringfence.model import StepKind

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
# Two pipes, one each way, as a shell opens them for a coprocess: each waits for the other, and nobody has written yet.
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
# More wait than the warden has places for: who comes too late is told so, and all others get what they wait for.
MANY = """
import errno, os, socket, threading, time
late = []
def attempt(what):
    try:
        os.close(what())
    except OSError as error:
        late.append(errno.errorcode[error.errno])
def connected():
    client = socket.socket(socket.AF_UNIX)
    client.connect("sock")
    return client.detach()
os.mkfifo("pipe")
server = socket.socket(socket.AF_UNIX)
server.bind("sock"), server.listen(0)  # one fits in
for what, count in ((lambda: os.open("pipe", os.O_WRONLY | os.O_CREAT), 64), (connected, 257)):
    threads = [threading.Thread(target=attempt, args=(what,)) for _ in range(count + 6)]
    for thread in threads: thread.start()
    while len(late) < 6: time.sleep(0.01)
    reader = os.open("pipe", os.O_RDONLY) if count == 64 else None
    for _ in range(count if reader is None else 0):
        server.accept()[0].close()
    for thread in threads: thread.join()
    print(late)
    late.clear()
"""
# As many as there are places wait for an answer from outside; what comes when that is known is told at once.
CROWD = """
import os, resource, socket, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
threading.stack_size(1 << 17)  # aarch64 takes no less
late = []
def attempt():
    while True:
        was_full = os.path.exists("full")
        try:
            WHAT
        except OSError as error:
            if was_full:
                late.append(error.errno)
                return
for _ in range(1024 + 6): threading.Thread(target=attempt, daemon=True).start()
while len(late) < 6: time.sleep(0.01)
print(late, flush=True)
os._exit(0)
"""
# What is opened by its name is what is read there: a file or a directory, and of no process.
NAMED = """
import errno, os
def attempt(path, flags):
    try:
        os.close(os.open(path, flags))
    except OSError as error:
        return errno.errorcode[error.errno]
for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDONLY | os.O_CREAT):
    print(*(attempt(name + ".never", flags) for name in NAMES))
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


def test_who_comes_too_late_to_wait_is_told_and_everybody_else_gets_through(workspace: Path) -> None:
    late = ["EAGAIN"] * 6

    assert said(workspace, MANY) == f"{late}\n{late}\nexited with 0"


@pytest.mark.parametrize(
    ("kind", "what", "errno"),
    [
        (StepKind.PAUSE, 'open("late.never")', 13),
        (StepKind.ASK, 'socket.socket().connect(("192.0.2.1", 80))', 11),
    ],
)
def test_no_more_wait_for_somebody_outside_than_there_are_places(
    kind: StepKind, what: str, errno: int, sanitized: Opened, tmp_path: Path
) -> None:
    asked: set[bytes] = set()
    listeners: list[threading.Thread] = []

    def hear(tag: int, fd: int) -> None:
        def listen() -> None:
            with socket.socket(fileno=fd) as end:
                while question := end.recv(1 << 16):
                    asked.add(question[:8])
                    if len(asked) == 1024:
                        (tmp_path / "site" / "full").touch()

        if tag == wire.OBSERVED:
            os.close(fd)
            return
        listeners.append(threading.Thread(target=listen))
        listeners[-1].start()

    site = Watched(tmp_path / "site", True)
    (site.path / "crowd.py").write_text(CROWD.replace("WHAT", what))
    plan = site.plan(Walls(view=True), "exec python3 -S crowd.py")
    site.come()
    before = StepKind.COMMAND if kind is StepKind.PAUSE else StepKind.VIEW
    at = next(number for number, one in enumerate(plan.steps) if one.kind is before)
    ran = bare(sanitized, wire.encode((*plan.steps[:at], step(kind), *plan.steps[at:])), handed=hear)
    for thread in listeners:
        thread.join()
    site.close()

    assert (ran.out, ran.records[-1]) == (f"{[errno] * 6}\n".encode(), (wire.ENDED, 0, 1, 0))
    assert len(asked) == 1024


def test_a_name_that_was_granted_is_a_file_or_a_directory_and_is_read(native: Opened, tmp_path: Path) -> None:
    names = ("README", ".", "link", "/proc/1/environ", "/proc/1/status", "/dev/null", "pipe")
    site = Watched(tmp_path / "site", True)
    (site.path / "README").touch()
    (site.path / "link").symlink_to("README")
    os.mkfifo(site.path / "pipe")
    listeners: list[threading.Thread] = []

    def hear(tag: int, fd: int) -> None:
        def listen() -> None:
            with socket.socket(fileno=fd) as end:
                while data := end.recv(1 << 16):
                    asked = pauses.decode(data)
                    number = int(Path(os.fsdecode(asked.path)).stem or 0)
                    given = os.fsencode(os.path.normpath(site.path / names[number]))
                    end.send(pauses.VERDICT.pack(asked.id, 0, pauses.IS_NAMED) + given)

        if tag == wire.OBSERVED:
            os.close(fd)
            return
        listeners.append(threading.Thread(target=listen))
        listeners[-1].start()

    numbers = [str(number) for number in range(len(names))]
    for number in numbers:
        (site.path / f"{number}.never").touch()
    (site.path / "named.py").write_text(NAMED.replace("NAMES", repr(numbers)))
    steps = asking(site.plan(Walls(view=True), "exec python3 -S named.py").steps)
    ran = bare(native, wire.encode(steps), handed=hear)
    for thread in listeners:
        thread.join()
    site.close()

    refused = " ".join(["EACCES"] * len(names))
    assert ran.out.decode() == f"None None ELOOP EACCES EACCES EACCES EACCES\n{refused}\n{refused}\n"


def test_sockets_stand_where_the_caller_meant(workspace: Path) -> None:
    assert said(workspace, SOCKETS) == "['one', 'two'] [3, 5, 60]\nexited with 0"


def test_a_thread_is_asked_for_what_is_its_own(workspace: Path) -> None:
    assert said(workspace, ALONE) == "0o100600 ['file', 'other']\nexited with 0"
    assert os.listdir(workspace) == ["sock"]


def test_a_thousand_denials_make_nobody_wait(workspace: Path) -> None:
    denied = tuple(str(workspace / f"n{number}") for number in range(1000))

    assert said(workspace, DENIED, deny_write=denied) == "1000\nexited with 0"
