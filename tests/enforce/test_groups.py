"""Control groups of version 2, by the kernel, in a mount namespace in which they stand where the product looks.

A group is made in the machine's own hierarchy, delegated to root or to a plain user, and taken away again. Of the
controllers those are tried that the hierarchy has; where the machine uses them in version 1, that is processor time
alone.
"""

import os
import subprocess
from pathlib import Path

import pytest
from tests.attacks.everybody import BASE, NOBODY, RUN
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace

from ringfence.enforce import cgroup

WITHIN = """
import json, os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
uid, top = int(sys.argv[2]), f"/sys/fs/cgroup/ringfence-test-{os.getpid()}"
if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)
os.mkdir(top)
pid = os.fork()
if pid:
    status = os.waitpid(pid, 0)[1]
    left = [name for name in os.listdir(top) if os.path.isdir(f"{top}/{name}") and name != "ringfence-callers"]
    for _ in range(500):  # whose parent was killed is reaped by others
        for path in (f"{top}/ringfence-callers", top):
            if os.path.isdir(path):
                try:
                    os.rmdir(path)
                except OSError:
                    time.sleep(0.01)
    sys.exit(os.waitstatus_to_exitcode(status) or (f"left: {left}" if left or os.path.isdir(top) else 0))
try:
    open(f"{top}/cgroup.procs", "w").write("0")
    if uid:
        for path in (top, f"{top}/cgroup.procs", f"{top}/cgroup.subtree_control"):
            os.chown(path, uid, uid)
        os.setgroups([]), os.setgid(uid), os.setuid(uid)
    else:
        os.setxattr(top, "trusted.delegate", b"1")
    there = {"cpu"} | {"memory", "pids"} & {*open(f"{top}/cgroup.controllers").read().split()}
    from ringfence.enforce import cgroup
    from ringfence.model import Exceeded, Limit
    import ringfence

    def groups():
        return sorted(name for name in os.listdir(top) if os.path.isdir(f"{top}/{name}"))

    def run(program, **limits):
        words = ["/usr/bin/python3", "-c", program]
        return ringfence.run(words, workspace=os.getcwd(), limits=limits, capture=True, timeout=60)

    exec(sys.argv[3])
except BaseException:
    import traceback

    traceback.print_exc()
    os._exit(1)
sys.stdout.flush()
os._exit(0)
"""

pytestmark = [pytest.mark.needs_cgroup2, pytest.mark.usefixtures("installed")]


@pytest.fixture(params=[0, NOBODY], ids=["root", "a plain user"])
def uid(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def within(uid: int, workspace: Path, program: str) -> str:
    """Whatever a program says that is in a group that was delegated to a user."""
    words = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "/usr/bin/python3",
        "-I",
        "-c",
        WITHIN,
        str(BASE / "lib"),
    ]
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    ran = subprocess.run([*words, str(uid), program], cwd=workspace, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_delegated_group_is_divided_and_hands_down_what_there_is(uid: int, workspace: Path) -> None:
    said = within(
        uid,
        workspace,
        """
own = lambda: open("/proc/self/cgroup").read().splitlines()[-1].removeprefix("0::")
assert own() == top.removeprefix(cgroup.ROOT)
assert {*cgroup.controllers()} == there, (cgroup.controllers(), there)
assert {*cgroup._found.values()} == {top}
assert own() == f"{top.removeprefix(cgroup.ROOT)}/ringfence-callers"
assert groups() == ["ringfence-callers"]
found, cgroup._found = cgroup._found, None
assert {*cgroup.controllers()} == there and cgroup._found == found, "who comes next stands beside"
print("done")
""",
    )

    assert said == "done\n"


def test_a_run_is_held_by_it_and_it_is_gone_afterwards(uid: int, workspace: Path) -> None:
    said = within(
        uid,
        workspace,
        """
ended = {"cpu": run("while True: pass", cpu=0.5).ending}
if "pids" in there:
    forks = "import os, time\\nfor _ in range(60): os.fork() or (time.sleep(100), os._exit(0))"
    ended["processes"] = run(forks, processes=20).ending
if "memory" in there:
    ended["memory"] = run("held = []\\nwhile True: held.append(bytearray(10 << 20))", memory="100M").ending
assert all(isinstance(ending, Exceeded) and ending.limit == name for name, ending in ended.items()), ended
quiet = run("print('ran')", cpu=20, **{"processes": 20, "memory": "100M"})
assert quiet.stdout == b"ran\\n", quiet
said = {line.split()[1]: line for line in quiet.in_force if line.startswith("limit: ")}
held = {name: "control group" in said[name] for name in said}
names = {"cpu": "cpu", "processes": "pids", "memory": "memory"}
assert held == {name: names[name] in there for name in said}, (said, there)
assert groups() == ["ringfence-callers"]
print(*sorted(ended))
""",
    )

    assert "cpu" in said.split()


def test_what_a_killed_supervisor_left_is_empty_and_swept(uid: int, workspace: Path) -> None:
    within(
        uid,
        workspace,
        """
cgroup.controllers()
child = os.fork()
if not child:
    run("import time\\nopen('begun', 'w').close()\\ntime.sleep(100)", cpu=50)
    os._exit(0)
while not os.path.exists("begun"):
    time.sleep(0.01)
(left,) = set(groups()) - {"ringfence-callers"}
assert left.startswith(f"ringfence-{child}-")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
until = time.monotonic() + 30
while cgroup._count(f"{top}/{left}/cgroup.events", "populated") and time.monotonic() < until:
    time.sleep(0.01)
cgroup._sweep(top)
assert groups() == ["ringfence-callers"], cgroup._members(f"{top}/{left}")
""",
    )


def test_whoever_is_left_in_a_group_ends_with_it_however_fast_he_forks(uid: int, workspace: Path) -> None:
    within(
        uid,
        workspace,
        """
cgroup.controllers()
group = cgroup.Group(("cpu",), (Limit("cpu", 50, "test"),))
(path,) = group._paths.values()
(list_fd,) = group.open_lists()
for _ in range(8):
    if not os.fork():
        os.write(list_fd, b"0")
        while True:  # each forks the next, and ends
            if os.fork():
                os._exit(0)
until = time.monotonic() + 30
while not cgroup._members(path) and time.monotonic() < until:
    time.sleep(0.001)
assert cgroup._members(path)
group.close()
assert groups() == ["ringfence-callers"]
""",
    )


@pytest.mark.parametrize(("own", "asked", "held"), [("60", 100, 60), ("200", 100, 100), ("max", 100, 100)])
def test_beside_our_own_group_its_limits_hold_too(
    own: str, asked: int, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a tree that is laid out as the kernel's: which of its controllers this machine has for us is not sure."""
    (tmp_path / "slice/ours").mkdir(parents=True)
    (tmp_path / "slice/run").mkdir()
    for name, text in (("pids.max", own), ("cpu.max", "50000 100000")):
        (tmp_path / "slice/ours" / name).write_text(f"{text}\n")
        (tmp_path / "slice/run" / name).touch()
    monkeypatch.setattr(cgroup, "ROOT", str(tmp_path))
    monkeypatch.setattr(cgroup, "_own_groups", lambda: {"": "/slice/ours"})

    path = tmp_path / "slice/run/pids.max"

    cgroup._carry_over(str(path.parent))
    cgroup._lower(str(path), asked)

    assert int(path.read_text()) == held
    assert (path.parent / "cpu.max").read_text() == "50000 100000"


# In namespaces of its own, the group that it is in is the top of what it mounts.
ENDS_ALL = """
import ctypes
libc = ctypes.CDLL(None)
libc.unshare(0x10000000 | 0x20000 | 0x2000000)
libc.mount(b"none", b"/tmp", b"cgroup2", 0, None)
open("/tmp/cgroup.kill", "w").write("1")
"""


@pytest.mark.needs_userns
def test_a_sandbox_inside_ends_nobody_else_of_the_group(uid: int, workspace: Path) -> None:
    policy = workspace.parent / "nesting.json"
    policy.write_text('{"allowNestedSandbox": true}')
    policy.chmod(0o644)
    inside = [*RUN, "--policy", str(policy), "--", "/usr/bin/python3", "-c", ENDS_ALL]
    said = within(
        uid,
        workspace,
        f"""
def survives(words):
    join = lambda: open(f"{{top}}/sub/cgroup.procs", "w").write("0")
    other = subprocess.Popen(["sleep", "60"], preexec_fn=join)
    subprocess.run(words, preexec_fn=join, stderr=subprocess.DEVNULL)
    try:
        return other.wait(0.5)
    except subprocess.TimeoutExpired:
        return "survives"
    finally:
        other.kill()
        other.wait()

os.mkdir(f"{{top}}/sub")
bare = survives(["/usr/bin/python3", "-c", {ENDS_ALL!r}])
found = survives({inside!r})
os.rmdir(f"{{top}}/sub")
print(bare, found)
""",
    )

    assert said == "-9 survives\n"


@pytest.mark.parametrize(("of", "mode", "written"), [(7, 0o755, True), (8, 0o755, False), (8, 0o757, True)])
def test_a_group_below_ours_counts_too(
    of: int, mode: int, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    os.chown(below, of, of)
    below.chmod(mode)
    monkeypatch.setattr(cgroup, "_own_directories", lambda: [str(tmp_path)])

    assert cgroup.is_written_by(7, 7, False) is written
    assert cgroup.is_written_by(0, 0, False)
    monkeypatch.setattr(cgroup, "_found", {"pids": "here"})
    assert cgroup.is_written_by(8, 8, True), "what a run has of its own is the caller's"


def test_groups_that_are_not_mounted_here_may_be_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "_own_groups", lambda: {"": "/of/a/user"})
    monkeypatch.setattr(cgroup, "ROOT", str(tmp_path))

    assert cgroup.is_written_by(7, 7, False)
    (tmp_path / "of/a/user").mkdir(parents=True)
    (tmp_path / "of/a/user/cgroup.procs").touch()
    assert not cgroup.is_written_by(7, 7, False)
