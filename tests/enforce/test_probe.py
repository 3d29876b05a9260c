"""What probe() says is what the kernel does."""

import concurrent.futures
import ctypes
import errno
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.enforce.conftest import NO_NEW_PRIVS, STREAMS, Site, Walls, execute, launched, plan_of, step

import ringfence
from ringfence import enforce
from ringfence.enforce import enact, enactor
from ringfence.enforce.enactor import Opened
from ringfence.model import Enactor, Exited, Host, LaunchError, StepKind

assert sys.platform == "linux"

NAMESPACES = ("--user", "--map-root-user", "--mount", "--ipc", "--net")
SEE = """
import json, fcntl, socket, struct, sys
from ringfence import enforce
host = enforce.probe()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lo:
    flags, = struct.unpack_from("<H", fcntl.ioctl(lo, 0x8913, struct.pack("16sH22x", b"lo", 0)), 16)
print(json.dumps([host.landlock_abi, host.namespaces, host.namespaces_why, host.detached_mounts, flags & 1]))
"""


def landlock_abi() -> int:
    return max(0, int(ctypes.CDLL(None).syscall(444, None, 0, 1)))


def yama() -> int:
    switch = Path("/proc/sys/kernel/yama/ptrace_scope")
    return int(switch.read_text()) if switch.exists() else 0


def may_make_namespaces() -> bool:
    assert shutil.which("unshare")
    return subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True).returncode == 0


def test_probe_finds_what_the_kernel_has() -> None:
    host = enforce.probe()

    assert host == Host(
        "linux",
        os.uname().machine,
        landlock_abi=landlock_abi(),
        seccomp=True,
        namespaces=may_make_namespaces(),
        namespaces_why=host.namespaces_why,
        detached_mounts=host.detached_mounts,
        fresh_proc=host.fresh_proc,
        yama=yama(),
        core_limit=host.core_limit,
        core_handler=host.core_handler,  # which another test sets for the whole machine, perhaps now
        enactor=Enactor.NATIVE,
        kernel=os.uname().release,
        uid=os.geteuid(),
        gid=os.getegid(),
    )
    assert host.namespaces == (not host.namespaces_why)


def test_on_a_machine_whose_calls_are_not_known_nothing_runs_and_it_is_said(
    python: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container for 32-bit ARM on an Apple machine; and any kernel may say that it is another (setarch)."""
    said = os.uname_result(("Linux", *os.uname()[1:4], "armv8l"))
    monkeypatch.setattr(os, "uname", lambda: said)
    found = [enactor._answer(None, *enactor._start_probe(one, None)) for one in (enactor.open_enactor(), python)]
    monkeypatch.setattr(enforce, "probe", lambda *_: found[0])
    monkeypatch.setattr(platform, "machine", lambda: "armv8l")

    with pytest.raises(ringfence.Unenforceable, match="armv8l"):
        ringfence.run(["true"], workspace=str(tmp_path), as_root=True, capture=True)
    with pytest.raises(OSError, match="seccomp") as unknown:
        enact.call("seccomp")

    assert [one.seccomp for one in found] == [False, False]
    assert unknown.value.errno == errno.ENOSYS


@pytest.mark.needs_userns
def test_detached_mounts_are_said_to_work_where_a_view_is_built_with_them(site: Site) -> None:
    host = enforce.probe()

    ending, _ = launched(site.plan(Walls(view=True, detached=host.detached_mounts)))

    assert ending == Exited(0)


def test_the_python_enactor_finds_the_same_but_no_view(python: Opened) -> None:
    found = enactor._answer(None, *enactor._start_probe(python, None))

    assert (found.landlock_abi, found.seccomp, found.namespaces) == (landlock_abi(), True, False)
    assert (found.namespaces_why, found.detached_mounts) == ("", False)  # it cannot try


def inside(prelude: str, *unshared: str) -> list[object]:
    """What probe says in namespaces where a line of shell was run first."""
    script = f'{prelude}\nexec "$@"'
    command = ["unshare", *unshared, "sh", "-euc", script, "sh", sys.executable, "-c", SEE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.mark.needs_userns
def test_where_no_user_namespace_may_be_made_the_reason_is_said_and_nothing_is_touched() -> None:
    found = inside("echo 0 > /proc/sys/user/max_user_namespaces", *NAMESPACES)

    # The last is the loopback of whoever asked: it was down, and a probe leaves it so.
    assert found == [landlock_abi(), False, "namespaces: No space left on device", False, 0]


@pytest.mark.needs_userns
def test_where_one_level_of_them_is_all_there_is_nothing_of_it_is_used() -> None:
    found = inside("echo 1 > /proc/sys/user/max_user_namespaces", *NAMESPACES)

    detached = enforce.probe().detached_mounts
    assert found == [landlock_abi(), False, "namespaces further in: No space left on device", detached, 0]


@pytest.mark.needs_userns
def test_in_a_namespace_where_others_may_be_made_there_is_no_reason() -> None:
    abi, namespaces, why, _, loopback = inside(":", *NAMESPACES)

    assert (abi, namespaces, why, loopback) == (landlock_abi(), True, "", 0)


@pytest.mark.needs_bwrap
def test_bubblewrap_without_user_namespaces_leaves_none_to_us() -> None:
    command = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", sys.executable, "-c", SEE]

    done = subprocess.run(command, capture_output=True, text=True, timeout=30)

    assert (done.returncode, json.loads(done.stdout)[1:4]) == (0, [False, "namespaces: No space left on device", False])


@pytest.mark.parametrize(
    "walls",
    [
        pytest.param(Walls(view=True), id="view", marks=pytest.mark.needs_userns),
        pytest.param(Walls(view=False), id="no view", marks=pytest.mark.needs_landlock(1)),
    ],
)
def test_sixty_four_launches_at_once_do_not_disturb_one_another(walls: Walls, site: Site) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 64 surveys hold some thousands of objects
    plans = [site.plan(walls, f"echo {number}; exit {number}") for number in range(64)]

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        found = [*pool.map(launched, plans)]

    assert found == [(Exited(number), f"{number}\n".encode()) for number in range(64)]


@pytest.mark.parametrize(("number", "way_out"), [(errno.EAGAIN, "ulimit -u"), (errno.EACCES, "noexec")])
def test_an_enactor_that_cannot_be_started_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, number: int, way_out: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(enactor, "Process", refuse)
    with pytest.raises(LaunchError, match=os.strerror(number)) as raised:
        enactor._start_probe(enactor.open_enactor(), None)

    assert way_out in raised.value.hint


INNER = """
import sys
from ringfence import enforce
from ringfence.model import Enforcement, Plan, Step, StepKind
words = (b"/bin/echo", b"/bin/echo", b"inner")
steps = [Step(StepKind(kind), "") for kind in (80, 131, 150)] + [Step(StepKind.EXEC, "", (2,), words)]
plan = Plan(tuple(steps), (), Enforcement.REQUIRED, ("echo",), "/", ())
with enforce.start(plan, enforce.encode(steps), capture=True, feed=True) as launch:
    print(launch.wait(20, b"")[:2])
"""


def test_inside_itself_there_is_no_capability_left_to_drop_and_that_is_no_failure() -> None:
    capabilities = step(StepKind.CAPABILITIES)
    outer = plan_of(NO_NEW_PRIVS, STREAMS, capabilities, execute(sys.executable, "-c", INNER))

    assert launched(outer) == (Exited(0), b"(Exited(code=0), b'inner\\n')\n")


def test_a_launch_leaves_no_descriptor_behind(site: Site) -> None:
    def count() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    plan = plan_of(STREAMS, execute("/bin/true"))
    launched(plan)
    before = count()
    for _ in range(10):
        launched(plan)

    assert count() <= before


ANSWERED = """
import ctypes, struct, sys
number, answer = map(int, sys.argv[1:])
rows = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | answer), (0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(rows), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, program, 0, 0)
from ringfence import enforce, model
try:
    host = enforce.probe()
    print(host.landlock_abi, host.is_inside)
except model.LaunchError as error:
    print(error)
"""


def probed_where(number: int, answer: int) -> tuple[str, str]:
    """What is said by a probe that gets this answer to one call."""
    command = [sys.executable, "-c", ANSWERED, str(number), str(answer)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.stdout, done.stderr


@pytest.mark.parametrize(("answer", "said"), [(errno.ENOSYS, "0 False\n"), (errno.EOPNOTSUPP, "0 True\n")])
def test_a_kernel_without_landlock_is_not_taken_for_another_sandbox(answer: int, said: str) -> None:
    """Inside a run its filter says EOPNOTSUPP; a kernel without Landlock that holds nobody says ENOSYS."""
    assert probed_where(444, answer) == (said, "")


@pytest.mark.needs_userns
@pytest.mark.needs_landlock(1)
@pytest.mark.parametrize(
    ("number", "answer", "what"),
    [
        (430, errno.ENOMEM, "tmpfs: Cannot allocate memory"),  # fsopen
        (430, errno.ENFILE, "tmpfs: Too many open files in system"),
        (446, errno.ENOMEM, "Landlock domains: Cannot allocate memory"),  # landlock_restrict_self
    ],
)
def test_what_there_is_too_little_of_now_is_no_fact_about_the_machine(number: int, answer: int, what: str) -> None:
    """It is kept for as long as we live, and with less there would be fewer walls."""
    assert probed_where(number, answer) == (f"probe: {what}\n", "")
