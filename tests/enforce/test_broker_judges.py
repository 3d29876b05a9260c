"""The warden under everything at once, and what it tells: nobody waits for ever, nothing is allowed, nothing grows."""

import ctypes
import os
import signal
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.enforce.test_broker import AS_PLAIN, NOBODY
from tests.looking import PATIENCE, children

import ringfence
from ringfence import enforce
from ringfence.job import make_job
from ringfence.model import Observe, Observed
from ringfence.run import launch, make_request

assert sys.platform == "linux"
pytestmark = pytest.mark.needs_userns

# 64 threads that open, make, move and remove, what is denied among it, while children are made by vfork that open too.
FLOOD = """
import os, sys, threading
wrong, ROUNDS = [], 40
def work(number):
    for turn in range(ROUNDS):
        name = f"t{number}-{turn}"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.rename(name, name + "x")
        os.close(os.open(name + "x", os.O_RDONLY))
        os.unlink(name + "x")
        for way in (lambda: os.open(name + ".never", os.O_CREAT | os.O_RDWR), lambda: open("late.never"),
                    lambda: os.rename("late.never", name), lambda: os.link("late.never", name)):
            try:
                way()
            except PermissionError:
                continue
            wrong.append(name)
threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
for thread in threads: thread.start()
for _ in range(20):
    action = [(os.POSIX_SPAWN_OPEN, 1, "spawned", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644),
              (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    child = os.posix_spawn("/bin/echo", ["echo", "x"], os.environ, file_actions=action)
    wrong += [child] * bool(os.waitpid(child, 0)[1])
for thread in threads: thread.join()
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
print(wrong, len(open("spawned").read()), status["VmHWM"].split()[0], status["VmData"].split()[0])
"""


@pytest.fixture
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rf-") as scratch:
        os.chmod(scratch, 0o755)
        root = Path(scratch, "ws")
        root.mkdir()
        if AS_PLAIN:
            os.chown(root, NOBODY, NOBODY)
        yield root


def flags(root: Path) -> ringfence.Flags:
    return ringfence.Flags(cwd=str(root), deny_read=("**/*.never",))


def test_a_flood_is_answered_and_nothing_of_it_allowed(workspace: Path) -> None:
    def late(_: object) -> None:
        (workspace / "late.never").write_text("x")

    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", FLOOD], workspace=str(workspace), flags=flags(workspace), capture=True,
        timeout=120, on_start=late,
    )  # fmt: skip

    assert outcome.ok, (outcome.ending, outcome.stderr)
    wrong, spawned, peak, data = (outcome.stdout or b"").decode().rsplit(" ", 3)
    assert (wrong, spawned) == ("[]", "40")
    assert max(int(peak), int(data) // 2) <= 2048, "KB, of all that it ever had"
    assert (workspace / "late.never").read_text() == "x"


def observed(root: Path, script: str, observe: Observe) -> tuple[list[Observed], int]:
    request = make_request(str(root), str(root), flags(root))
    request = msgspec.structs.replace(request, observe=observe)
    job = make_job(["sh", "-c", script], request, {"PATH": "/usr/bin:/bin"}, True, b"")
    with launch(job) as living:
        living.launch.wait(60, b"")
        return living.launch.observed()


def test_what_is_refused_and_what_fails_is_told_of(workspace: Path) -> None:
    (workspace / "there").write_text("x")
    script = "cd /; cat /nonexistent/x; cd -; echo x > a.never; echo x > /usr/made; cat there; cat ./sub/../none; :"

    told, lost = observed(workspace, script, Observe.FAILURES)

    def of(program: str, *verdicts: str) -> list[tuple[str, str, str, int]]:
        found = [one for one in told if one.exe.endswith(program.encode()) and one.verdict in verdicts]
        where = str(workspace).encode()
        return [(one.access, os.fsdecode(one.path.replace(where, b"WS")), one.verdict, one.errno) for one in found]

    assert lost == 0
    assert of("sh", "refused") == [("make", "WS/a.never", "refused", 13)]
    assert ("write", "/usr/made", "failed", 30) in of("sh", "failed")
    assert ("read", "/nonexistent/x", "failed", 2) in of("cat", "failed")
    assert ("read", "WS/./sub/../none", "failed", 2) in of("cat", "failed")
    assert not [one for one in told if one.path.endswith(b"/there")]
    assert all(one.pid > 1 for one in told)


def test_a_move_that_fails_is_told_of_alike_by_each_call_there_is_for_it(workspace: Path) -> None:
    """rename() of the C library is another of them on aarch64, and was told as a change there."""
    moves = ("os.rename('there', '/missing/a')", "os.rename('there', '/missing/b', src_dir_fd=os.open('.', 0))")
    for move in moves:
        (workspace / "there").write_text("x")

        told, _ = observed(workspace, f'/usr/bin/python3 -c "import os; {move}" 2>/dev/null; :', Observe.FAILURES)

        assert [one.access for one in told if one.path.endswith(b"/there")] == ["make"], move


def test_everything_that_is_allowed_is_told_of_where_somebody_learns(workspace: Path) -> None:
    (workspace / "there").write_text("x")

    told, lost = observed(workspace, "cat there > made; rm there; exec true", Observe.EVERYTHING)

    found = {(one.access, one.path.removeprefix(str(workspace).encode())) for one in told if one.verdict == "allowed"}
    assert lost == 0
    assert found >= {("read", b"/there"), ("make", b"/made"), ("remove", b"/there")}


def test_what_nobody_reads_is_counted_and_holds_nobody_up(workspace: Path) -> None:
    """Without anybody who reads all the time, the socket holds what it holds."""
    script = "i=0; while [ $i -lt 3000 ]; do echo x > $i.never; i=$((i+1)); done; :"
    many = f"exec 2>/dev/null; {script}"

    told, lost = observed(workspace, many, Observe.REFUSALS)

    assert len(told) + lost == 3000
    assert 50 < len(told) < 3000


def test_a_denial_by_a_pattern_stands_in_the_outcome(workspace: Path) -> None:
    outcome = ringfence.run(
        ["sh", "-c", "echo x > a.never"], workspace=str(workspace), flags=flags(workspace), capture=True
    )

    found = [(one.access, one.target, one.observed, one.grant) for one in outcome.denials]
    assert found == [("write", f"{workspace}/a.never", True, f"--allow-read {workspace}/a.never")]


def test_a_plan_with_write_rules_alone_traps_no_read(workspace: Path) -> None:
    """The warden is stopped, and reads go on; it goes on when something was read, and then writes do."""
    (workspace / "there").write_text("read\n")
    outer: list[int] = []
    wardens: list[int] = []
    said: list[bytes] = []

    def hear(_: str, data: bytes) -> None:
        if not said:
            wardens.extend(children(outer[-1]))  # of the last: what was refused for a change in /etc is begun again
            os.kill(wardens[0], signal.SIGSTOP)
            (workspace / "go").touch()
        elif len(said) == 1:  # at the third the run may be over
            os.kill(wardens[0], signal.SIGCONT)
        said.append(data)

    only = ringfence.Flags(cwd=str(workspace), deny_write=("**/*.never",))
    words = ["sh", "-c", "echo ready; until test -e go; do :; done; cat there; : >> made; echo late"]
    outcome = ringfence.run(
        words, workspace=str(workspace), flags=only, timeout=30,
        on_start=lambda launched: outer.append(launched.process.pid), on_output=hear,
    )  # fmt: skip

    assert (outcome.ok, b"".join(said)) == (True, b"ready\nread\nlate\n")


def test_a_standby_opens_what_it_is_given_and_the_warden_stays_closed(workspace: Path) -> None:
    """It opens /dev/null anew behind its walls, which is the warden's to do, who must be able to look into
    it, and shares its memory; when the command runs nobody may look into the warden."""
    outer: list[int] = []
    owners: list[int] = []

    def hear(_: str, data: bytes) -> None:
        (warden,) = children(outer[-1])
        owners.append(os.stat(f"/proc/{warden}/environ").st_uid)
        (workspace / "seen").touch()

    def started(launched: enforce.Launch) -> None:
        outer.append(launched.process.pid)

    null = os.open("/dev/null", os.O_RDONLY)
    kept = os.dup(0)
    os.dup2(null, 0)
    try:
        for _ in range(5):
            (workspace / "seen").unlink(missing_ok=True)
            ringfence.run(
                ["sh", "-c", "echo; until test -e seen; do :; done"], workspace=str(workspace),
                flags=flags(workspace), timeout=PATIENCE, on_start=started, on_output=hear,
            )  # fmt: skip
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(null)

    assert owners == [0] * 5, "whoever may not be looked into is root's"


PROGRAMS = r"""
set -e
git init -q r; cd r; git config user.email a@b; git config user.name n; echo x > f; git add f; git commit -qm m
git status --short; git gc -q; git log --oneline | wc -l; cd ..; rm -rf r
mkdir t; echo 1 > t/1; tar cf t.tar t; rm -r t; tar xf t.tar; cat t/1
python3 -c '
import fcntl, os, sqlite3, subprocess, tempfile
c = sqlite3.connect("x.db"); c.execute("create table t(a)"); c.commit()
a = os.open("lock", os.O_CREAT | os.O_RDWR); fcntl.flock(a, fcntl.LOCK_EX); os.close(a)
fcntl.flock(os.open("lock", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
open("prog", "w").write("#!/bin/sh\necho ran\n"); os.chmod("prog", 0o755); print(subprocess.check_output("./prog"))
print(int(open("/proc/self/stat").read().split()[0]) == os.getpid(), len(os.listdir("/proc/self")) > 10)
print(open("/proc/mounts").read() == open("/proc/self/mounts").read(), len(os.listdir("/proc/net")) > 3)
'
ps -e > list; test -s list; cat < <(echo sub); cat /dev/stdin <<< here
mkfifo p; (sleep 0.1; echo fifo > p) & cat p; wait; vim -es -c 'normal ihello' -c wq v; cat v
"""


def test_ordinary_programs_work_where_the_warden_opens_everything(workspace: Path) -> None:
    outcome = ringfence.run(
        ["bash", "-c", PROGRAMS], workspace=str(workspace), flags=flags(workspace), capture=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(workspace)},
    )  # fmt: skip

    assert outcome.ok, outcome.stderr
    assert (outcome.stdout or b"").decode().split() == [
        *("1", "1", "b'ran\\n'", "True", "True", "True", "True", "sub", "here", "fifo", "hello"),
    ]


# Each time a directory of the new name would be held otherwise, so the file goes by itself.
MOVES = """
import os
def show(*names):
    found = [os.readlink(name) if os.path.islink(name) else open(name).read() for name in names]
    print(*found, *(str(os.stat(name, follow_symlinks=False).st_nlink) for name in names))
for name in ("file", "lock", "second"):
    open(name, "w").write(name)
os.symlink("nowhere", "link")
os.mkfifo("pipe")
os.rename("file", "config")
show("config")
os.rename("lock", "config")
show("config")
os.link("second", "sub/config")
os.rename("second", "sub/config")
show("second", "sub/config")
os.rename("config", "back")
os.rename("link", "config")
show("back", "config")
os.mkdir("closed")
open("closed/file", "w").close()
os.chmod("closed", 0o555)
os.rename("pipe", "config")
for way in (
    lambda: os.rename("back", "sub"), lambda: os.rename("nothing", "config"),
    lambda: os.rename("closed/file", "config"),  # which stays what it is
):
    try:
        way()
    except OSError as error:
        print(type(error).__name__)
print(os.listdir("closed"), os.stat("config").st_mode >> 12, sorted(os.listdir(".")), sorted(os.listdir("sub")))
"""


def test_a_file_moves_as_ever_where_a_directory_would_not(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    if AS_PLAIN:
        os.chown(workspace / "sub", NOBODY, NOBODY)
    denied = ringfence.Flags(cwd=str(workspace), deny_read=("**/config/*.key",))
    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", MOVES], workspace=str(workspace), flags=denied, capture=True, input=b""
    )
    assert (outcome.stdout or b"").decode().splitlines() == [
        "file 1",
        "lock 1",
        "second second 2 2",
        "lock nowhere 1 1",
        "IsADirectoryError",
        "FileNotFoundError",
        "PermissionError",
        "['file'] 1 ['back', 'closed', 'config', 'second', 'sub'] ['config']",
    ], outcome.stderr


# By what it is, too. What the warden names it by meanwhile nobody makes, or it would move something else.
REPLACES = """
import ctypes, os, threading
libc, missing, stop = ctypes.CDLL(None), [], []
open("config", "w").close()
os.symlink("nowhere", "link")
def look():
    while not stop:
        missing.extend([1] * (not os.path.exists("config")))
looking = threading.Thread(target=look)
looking.start()
for number in range(300):
    open("new", "w").close()
    os.rename("new", "config")
stop.append(1)
looking.join()
name = ".ringfence-moves-1"
for way in (
    lambda: os.symlink("nowhere", name), lambda: os.rename("link", name), lambda: os.mkdir(name),
    lambda: os.link("link", name, follow_symlinks=False),
):
    try:
        way()
    except PermissionError:
        missing.append(0)
exchanged = libc.renameat2(-100, b".ringfence-moves-2", -100, b"link", 2)
print(sum(missing), missing.count(0), exchanged, sorted(os.listdir(".")))
"""


def test_what_a_move_replaces_is_there_until_then(workspace: Path) -> None:
    (workspace / ".ringfence-moves-2").touch()
    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", REPLACES], workspace=str(workspace), capture=True, input=b"",
        flags=ringfence.Flags(cwd=str(workspace), deny_write=("**/config/x",)),
    )  # fmt: skip
    assert (outcome.stdout or b"").decode() == "0 4 -1 ['.ringfence-moves-2', 'config', 'link']\n", outcome.stderr


# What stands at a name may be a directory or a link by the time it is moved, put there by another run. So a file is
# given its new name by what it is, and the old one is taken away: whoever watches sees no move.
APART = """
import ctypes, errno, os, sys
coming = sys.argv[1]
os.makedirs("sub", exist_ok=True)
open(coming, "w").close()
os.rename(coming, "conf")
open(coming, "w").close()
exchanged = ctypes.CDLL(None, use_errno=True).renameat2(-100, coming.encode(), -100, b"conf", 2)
print(exchanged, ctypes.get_errno() == errno.EXDEV)
"""
CREATED, MOVED = 0x100, 0xC0


@pytest.mark.parametrize(
    ("denied", "coming"),
    [
        pytest.param({"deny_write": ("conf*/app.json",)}, "coming", id="a directory would be held otherwise"),
        pytest.param({"deny_write": ("**/conf/app.json",)}, "sub/conf", id="a link would lead past the pattern"),
        pytest.param({"deny_read": ("**/conf/*.key",)}, "coming", id="what is read would be held otherwise"),
    ],
)
def test_a_file_is_moved_by_what_it_is_and_not_by_its_name(
    workspace: Path, denied: dict[str, tuple[str, ...]], coming: str
) -> None:
    libc = ctypes.CDLL(None)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    libc.inotify_add_watch(events, os.fsencode(workspace), CREATED | MOVED)
    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", APART, coming], workspace=str(workspace), capture=True, input=b"",
        flags=msgspec.structs.replace(ringfence.Flags(cwd=str(workspace)), **denied),
    )  # fmt: skip
    data, seen = os.read(events, 4096), []
    os.close(events)
    while data:
        _, kind, _, size = struct.unpack_from("iIII", data)
        seen.append((data[16 : 16 + size].rstrip(b"\0").decode(), kind))
        data = data[16 + size :]
    assert (outcome.stdout or b"").decode() == "-1 True\n", outcome.stderr
    assert [kind for name, kind in seen if name == "conf"] == [CREATED]


# A second name of a link would lead past the pattern as the link does, however it is named; one of a file does not.
LINKED = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
os.mkdir("evil")
os.symlink("evil", "link")
open("file", "w").close()
held = b"/proc/self/fd/%d" % os.open("link", os.O_PATH | os.O_NOFOLLOW)
def said(name, *words):
    return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*words) else "done"
print(said("linkat", -100, b"link", -100, b"conf", 0), said("linkat", -100, held, -100, b"conf", 0x400))
print(said("renameat2", -100, b"file", -100, b"moved", 4), sorted(os.listdir(".")))  # which would leave a device there
os.link("file", "conf")
print(os.stat("conf").st_nlink)
"""


def test_a_second_name_of_a_link_does_not_lead_past_a_pattern(workspace: Path) -> None:
    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", LINKED], workspace=str(workspace), capture=True, input=b"",
        flags=ringfence.Flags(cwd=str(workspace), deny_write=("conf*/app.json",)),
    )  # fmt: skip
    said = (outcome.stdout or b"").decode()
    assert said == "EACCES EACCES\nEINVAL ['evil', 'file', 'link']\n2\n", outcome.stderr


PIPED = """
import os, sys, time
while "late.never" not in os.listdir("."):
    time.sleep(0.001)
for way in ("late.never", "./../" + os.path.basename(os.getcwd()) + "/late.never"):
    for flags in (0, os.O_NONBLOCK):
        try:
            print(os.read(os.open(way, os.O_RDONLY | flags), 9))
        except PermissionError:
            print("refused")
"""


def test_a_pipe_that_comes_later_is_not_read_either(workspace: Path) -> None:
    held = []

    def late(_: object) -> None:
        os.mkfifo(workspace / "new", 0o666)
        held.append(os.open(workspace / "new", os.O_RDWR))
        os.write(held[-1], b"x" * 99)
        (workspace / "new").rename(workspace / "late.never")

    outcome = ringfence.run(
        ["/usr/bin/python3", "-c", PIPED], workspace=str(workspace), flags=flags(workspace), capture=True, input=b"",
        on_start=late,
    )  # fmt: skip
    os.close(held[-1])
    assert (outcome.stdout or b"").decode().split() == ["refused"] * 4, outcome.stderr
