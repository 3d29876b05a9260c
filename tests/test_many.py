"""Many runs, at once and one after the other: none fails, and nothing is left of them."""

import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from tests.backends import on
from tests.looking import until

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import process, watch

AS_ROOT = os.geteuid() == 0
pytestmark = pytest.mark.slow


@pytest.fixture(params=["view", "landlock"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "ws"
    place.mkdir()
    with on(request.param):
        yield place


def run(workspace: Path, number: int) -> tuple[int, bytes | None]:
    flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT)
    script = f"(sleep 60 &) ; echo {number}; exit {number % 7}"  # each leaves somebody behind, if it can
    outcome = ringfence.run(
        ["sh", "-c", script], workspace=str(workspace), flags=flags, capture=True, as_root=AS_ROOT, timeout=50
    )
    return outcome.exit_code, outcome.stdout


def others() -> list[int]:
    """Our processes but ourselves. Whoever is dead and only not counted off yet is no process any more."""
    return [pid for pid in watch.descendants(os.getpid()) if pid != os.getpid() and watch._threads(pid)]


def left_over(workspace: Path, known: Container[int] = ()) -> tuple[list[int], int, list[str], int]:
    """Our processes but ourselves and those that are known, our descriptors, what is in the workspace, our threads."""
    keep.forget_all()
    gc.collect()

    def none_is_left() -> bool:
        process.reap()
        return not [pid for pid in others() if pid not in known]

    until(none_is_left, 0.01)  # what is ending may take a moment
    processes = [pid for pid in others() if pid not in known]
    return processes, len(os.listdir("/proc/self/fd")), os.listdir(workspace), threading.active_count()


@pytest.mark.parametrize("at_once", [2, 8, 32])
def test_two_hundred_runs_leave_nothing(workspace: Path, at_once: int) -> None:
    known = others()  # of other tests, which may end meanwhile
    for number in range(4):  # what is opened once for all runs
        run(workspace, number)
    _, descriptors, names, threads = left_over(workspace, known)

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        found = [*pool.map(lambda number: run(workspace, number), range(200))]

    assert found == [(number % 7, f"{number}\n".encode()) for number in range(200)]
    left = left_over(workspace, known)
    assert (left[0], left[2]) == ([], names)
    assert (left[1] <= descriptors, left[3] <= threads) == (True, True), (left, descriptors, threads)


THOUSAND = """
import os, sys
import msgspec, ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor, watch
host = enforce.probe()
enactor._hosts[os.geteuid()] = msgspec.structs.replace(host, namespaces=sys.argv[2] == "True")
flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT)

def held():
    keep.forget_all()
    with open("/proc/self/statm") as file:
        return len(os.listdir("/proc/self/fd")), int(file.read().split()[1])

def run(times):
    for _ in range(times):
        as_root = len(sys.argv) > 3
        assert ringfence.run(["/bin/true"], workspace=sys.argv[1], flags=flags, capture=True, as_root=as_root).ok
    return held()

run(100)  # what Python and its allocator keep grows for the first thousand, and by an arena for a thread once
one, two, three = run(700), run(700), run(700)
print(three[0] - one[0], min(two[1] - one[1], three[1] - two[1]) * 4, len(watch.descendants(os.getpid())))
"""


@pytest.mark.timeout(240)  # it takes ten seconds on a quiet machine
def test_a_thousand_runs_do_not_make_us_grow(workspace: Path) -> None:
    has_view = str(enforce.probe().namespaces)
    words = [sys.executable, "-c", THOUSAND, str(workspace), has_view, *["root"] * AS_ROOT]

    said = subprocess.check_output(words, text=True)

    descriptors, kilobytes, processes = map(int, said.split())
    assert descriptors == 0
    assert processes < 10  # ourselves, and those that are just ending
    assert kilobytes < 700  # one for each run


FEW = """
import os, resource, sys
import msgspec, ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor
enactor._hosts[os.geteuid()] = msgspec.structs.replace(enforce.probe(), namespaces=sys.argv[2] == "True")
flags = ringfence.Flags(enforcement=ringfence.Enforcement.BEST_EFFORT)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
said = set()

def run(*words):
    return ringfence.run(words, workspace=sys.argv[1], flags=flags, capture=True, as_root=len(sys.argv) > 3)

def run_with(spare):
    for _ in range(3):
        assert run("/bin/true").ok
    run("/bin/sh", "-c", ": > few")  # its warden does not go on, so that another is asked for
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for fd in held[:spare]:
        os.close(fd)
    try:
        said.add(run("/bin/echo", "few").stdout)
    except ringfence.RingfenceError as error:
        said.add(type(error).__name__)
    for fd in held[spare:]:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

def held():
    keep.forget_all()
    return len(os.listdir("/proc/self/fd"))

run_with(8)
before = held()
for spare in range(8):
    run_with(spare)
assert run("/bin/true").ok
print(held() - before, *sorted(map(str, said)))
"""


def test_a_launch_without_room_for_descriptors_says_so_and_leaves_none(workspace: Path) -> None:
    has_view = str(enforce.probe().namespaces)
    words = [sys.executable, "-c", FEW, str(workspace), has_view, *["root"] * AS_ROOT]

    left, *said = subprocess.check_output(words, text=True).split()

    assert left == "0"
    assert "LaunchError" in said
    assert set(said) <= {"LaunchError", "PlanError", "b'few\\n'"}
