"""Limits: a tree that crosses one is ended in time, the caller lives, and the reason is named. Each way of holding."""

import contextlib
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends import on

import ringfence
from ringfence import Exceeded
from ringfence.enforce import cgroup
from ringfence.model.policy import LIMITS

AS_ROOT = os.geteuid() == 0
PYTHON = "/usr/bin/python3"


@pytest.fixture(params=["view", "view, no group", "landlock", "landlock, no group"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace for each way of holding; for a plain user who may make no group, two of them are the same."""
    backend, _, group = request.param.partition(", ")
    if group:
        monkeypatch.setattr(cgroup, "_found", {})
    place = tmp_path / "ws"
    place.mkdir()
    with on(backend):
        yield place


def run(workspace: Path, program: str, limits: dict[str, float | str], **more: object) -> ringfence.Outcome:
    flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT)
    options: dict[str, object] = {"flags": flags, "capture": True, "as_root": AS_ROOT, "timeout": 120, **more}
    return ringfence.run([PYTHON, "-c", program], workspace=str(workspace), limits=limits, **options)  # type: ignore[arg-type]


FORKS = """
import subprocess, time
held = [subprocess.Popen(["sleep", "100"]) for _ in range(300)]
time.sleep(100)
"""
THREADS = """
import threading, time
for _ in range(60): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
time.sleep(100)
"""
EATS = """
import time
held = []
while True:
    try: held.append(bytearray(10 << 20))
    except MemoryError: time.sleep(0.1)  # at twice the limit: nobody has looked in time
"""
EAT_TOGETHER = """
import os, time
for _ in range(4): os.fork()
held = bytearray(30 << 20)
held[::4096] = held[::4096]
time.sleep(100)
"""
BESIDE_MANY = """
import os, time
for _ in range(900):
    if os.fork() == 0:
        time.sleep(100)
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(60 << 20)
        held[::4096] = held[::4096]
        time.sleep(100)
time.sleep(100)
"""
FILLS = """
file = open("big", "wb", 0)
while True: file.write(bytes(1 << 20))
"""
FILLS_PRIVATE = """
import contextlib, os
file = open(os.environ["TMPDIR"] + "/big", "wb", 0)
while True:
    with contextlib.suppress(OSError):
        file.write(bytes(1 << 20))
"""
BY_CHILDREN = """
import subprocess, time
for n in range(100): subprocess.run(["head", "-c", "2M", "/dev/zero"], stdout=open(str(n), "wb"))
time.sleep(100)
"""
RESERVES = """
import os, time
os.posix_fallocate(os.open("big", os.O_CREAT | os.O_WRONLY, 0o644), 0, 80 << 20)
time.sleep(100)
"""
TALKS = """
import os
for _ in range(1024): os.write(1, b"x" * (1 << 20))
"""
TALKS_TWICE = """
import os
while True: os.write(1, b"x" * 1000); os.write(2, b"y" * 1000)
"""
BUSY = "while True: pass"
BUSY_CHILDREN = """
import subprocess
while True: subprocess.run(["sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"])
"""
GROWS = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n" + FILLS
QUIET = """
import subprocess, time
open("x", "w").write("x" * 1000)
time.sleep(0.3)
print(subprocess.run(["echo", "hi"]).returncode)
"""
INHERITED = """
import ringfence, sys
words = ["head", "-c", "5000", "/dev/zero"]
print(ringfence.run(words, workspace=sys.argv[1], as_root=len(sys.argv) > 2, limits={"output": 1000}).exit_code)
"""


@pytest.mark.parametrize(
    ("program", "limit", "amount"),
    [
        (FORKS, "processes", 256),
        (THREADS, "processes", 40),
        (EATS, "memory", 200 << 20),
        (EAT_TOGETHER, "memory", 200 << 20),
        (BESIDE_MANY, "memory", 400 << 20),
        (FILLS, "disk", 40 << 20),
        (FILLS_PRIVATE, "disk", 40 << 20),
        (BY_CHILDREN, "disk", 40 << 20),
        (RESERVES, "disk", 40 << 20),
        (TALKS, "output", 10 << 20),
        (TALKS_TWICE, "output", 1 << 20),
        (BUSY, "cpu", 0.5),
        (BUSY_CHILDREN, "cpu", 0.5),
        (GROWS, "fileSize", 4 << 20),
    ],
)
def test_a_tree_that_crosses_a_limit_is_ended_and_the_limit_is_named(
    workspace: Path, program: str, limit: str, amount: float
) -> None:
    outcome = run(workspace, program, {limit: amount})

    assert outcome.ending == Exceeded(limit, amount), outcome
    assert outcome.exit_code == 123
    assert outcome.seconds < 80  # the machine is busy; the tree would take 100 at least


KEEPS_SIZE = """
import contextlib, ctypes, fcntl, os, struct
def by_call(fd):
    ctypes.CDLL(None).fallocate(fd, 1, ctypes.c_long(0), ctypes.c_long(8 << 20))  # FALLOC_FL_KEEP_SIZE
def by_number(number):
    return lambda fd: fcntl.ioctl(fd, number, struct.pack("hhqqiI16x", 0, 0, 0, 8 << 20, 0, 0))
ways = by_call, *map(by_number, (0x40305828, 0x4030582A, 0x40305839))  # FS_IOC_RESVSP, RESVSP64, ZERO_RANGE
for way in ways:
    fd = os.open(f"big{ways.index(way)}", os.O_CREAT | os.O_WRONLY, 0o644)
    with contextlib.suppress(OSError):
        way(fd)
    print(os.fstat(fd).st_blocks * 512 >= 8 << 20)
"""


def _nobody_looks(workspace: Path, seconds: float) -> ringfence.Outcome:
    """A run whose caller has no descriptor left for so long."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    says = "print({!r}, flush=True); time.sleep({})"
    script = f"import time; {says.format('begun', seconds)}; {says.format('over', 1.5)}"
    eaten: list[int] = []

    def said(_stream: str, data: bytes) -> None:
        if b"begun" in data:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, before[1]))
            with contextlib.suppress(OSError):
                while True:
                    eaten.append(os.open("/dev/null", os.O_RDONLY))
        if b"over" in data:
            close()

    def close() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        while eaten:
            os.close(eaten.pop())

    try:
        return run(workspace, script, {"disk": 40 << 20}, capture=False, on_output=said)
    finally:
        close()


def test_a_limit_that_nobody_can_look_at_ends_the_tree_and_one_for_a_moment_does_not(workspace: Path) -> None:
    """It was as if nothing were used: `--disk` held nothing, and nobody said so."""
    assert _nobody_looks(workspace, 60).ending == ringfence.Broken("nobody can look at its limits: Too many open files")
    assert _nobody_looks(workspace, 0.3).ending == ringfence.Exited(0)


@pytest.mark.parametrize(("limits", "said"), [({}, b"True\n"), ({"disk": "1G"}, b"False\n")])
def test_no_room_is_taken_that_is_not_counted(workspace: Path, limits: dict[str, float | str], said: bytes) -> None:
    assert run(workspace, KEEPS_SIZE, limits).stdout == 4 * said


def test_who_never_exits_and_hears_nothing_is_ended_in_time(workspace: Path) -> None:
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"

    outcome = run(workspace, deaf, {"timeout": "500ms"}, timeout=None)

    assert outcome.ending == ringfence.TimedOut(0.5)
    assert outcome.seconds < 30  # a second and a half, but for a busy machine


def test_what_was_written_before_the_limit_is_kept_and_marked(workspace: Path) -> None:
    outcome = run(workspace, "print('x' * 5000)", {"output": 1000})

    assert (outcome.stdout, outcome.stderr, outcome.is_truncated) == (b"x" * 1000, b"", True)


def test_output_that_is_inherited_is_counted_too(workspace: Path) -> None:
    words = [sys.executable, "-c", INHERITED, str(workspace), *["root"] * AS_ROOT]

    done = subprocess.run(words, capture_output=True, check=True)

    assert done.stdout == bytes(1000) + b"123\n"


def test_who_stays_below_every_limit_is_not_disturbed(workspace: Path) -> None:
    limits: dict[str, float | str] = {
        "timeout": "100s", "cpu": 10, "memory": "1G", "processes": 20, "files": 64, "fileSize": "1M", "disk": "10M",
        "output": "1K",
    }  # fmt: skip

    outcome = run(workspace, QUIET, limits)

    assert (outcome.ending, outcome.stdout) == (ringfence.Exited(0), b"hi\n0\n"), outcome.stderr


@pytest.mark.parametrize(("limit", "timeout"), [("720h", None), (None, float("inf"))])
def test_more_time_than_the_kernel_waits_at_once_may_be_given(
    workspace: Path, limit: str | None, timeout: float | None
) -> None:
    """poll(2) takes no more than 24 days."""
    outcome = run(workspace, "pass", {"timeout": limit} if limit else {}, timeout=timeout)

    assert outcome.ok, outcome


def test_no_more_files_than_allowed_can_be_open(workspace: Path) -> None:
    outcome = run(workspace, "held = [open('/dev/null') for _ in range(40)]", {"files": 32})

    assert b"Too many open files" in (outcome.stderr or b"")


def test_few_open_files_are_enough_beside_many_descriptors_on_their_way(workspace: Path) -> None:
    """The kernel counts those of all processes of a user against the limit of whoever sends one more."""
    ours, theirs = socket.socketpair()
    with ours, theirs, open("/dev/null") as null:
        for _ in range(100):
            socket.send_fds(ours, [b"x"], [null.fileno()])
        arrive = threading.Timer(0.5, theirs.close)

        outcome = run(workspace, "print('ran')", {"files": 64}, on_start=lambda _: arrive.start())
        arrive.join()

    assert outcome.stdout == b"ran\n", outcome


def test_every_limit_says_in_the_plan_what_holds_it(workspace: Path) -> None:
    outcome = run(workspace, "", dict.fromkeys(LIMITS, 100 << 20))

    said = [sentence for sentence in outcome.in_force if sentence.startswith("limit: ")]
    assert [sentence.split()[1] for sentence in said] == [*LIMITS]
    assert all("held by" in sentence for sentence in said)


def groups() -> list[str]:
    found = [path for name in cgroup.controllers() for path in (cgroup._found or {}).values() if name]
    return [name for path in {*found} for name in os.listdir(path) if name.startswith(f"ringfence-{os.getpid()}-")]


def test_no_group_is_left(workspace: Path) -> None:
    for program in ("", EATS, FORKS):
        run(workspace, program, {"memory": "100M", "processes": 50})

    assert groups() == []


@pytest.mark.needs_root
def test_a_group_that_a_killed_supervisor_left_is_swept() -> None:
    if not cgroup.controllers():
        return  # no group can be made here
    above = next(iter((cgroup._found or {}).values()))
    with subprocess.Popen(["true"]) as gone:
        pass
    left = Path(above) / f"ringfence-{gone.pid}-0123"
    left.mkdir()

    cgroup._sweep(above)

    assert not left.exists()


def test_processor_time_that_cannot_be_read_is_not_none_used(tmp_path: Path) -> None:
    """Then the processes themselves are asked; a nought would be a limit that nobody ever reaches."""
    group = object.__new__(cgroup.Group)
    group._paths = {"cpu": str(tmp_path)}

    assert group.cpu_seconds() is None
    (tmp_path / "cpuacct.usage").write_text("2000000000\n")
    assert group.cpu_seconds() == 2
