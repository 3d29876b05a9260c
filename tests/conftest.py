"""What a test needs, found by trying; and in CI, no skip that this machine need not make.

A need is met, or it cannot be met here (an older kernel, not root), or somebody forgot to install something. The
second is a skip. The third is a skip for a person and a failure in CI, and so is every skip without a marker.
"""

import contextlib
import ctypes
import fcntl
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from typing import NamedTuple

import hypothesis
import pytest

IN_CI = os.environ.get("CI") == "true"
LANDLOCK_CREATE_RULESET, VERSION_FLAG = 444, 1

# Debian keeps PostgreSQL's servers beside the path.
os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *map(str, pathlib.Path("/usr/lib/postgresql").glob("*/bin"))])

for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # in the background whatever we start would ignore it
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)

# A loaded machine is not a failing test, however long an example takes to be made or tried.
_UNHURRIED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# CI tries the same examples each time: `make fuzz` looks for new ones, and what it finds is no accident of one change.
hypothesis.settings.register_profile("default", _UNHURRIED, derandomize=IN_CI)
hypothesis.settings.register_profile("fuzz", _UNHURRIED, max_examples=20_000)
hypothesis.settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _caches_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """What runs keep goes with the tests', and not to the home of whoever runs them."""
    before = {name: os.environ.get(name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    for name in before:
        os.environ[name] = str(tmp_path_factory.mktemp("kept"))
    yield
    for name, value in before.items():
        del os.environ[name]
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def settled() -> Generator[None, None, None]:
    """Nobody makes or removes a user meanwhile: that replaces files which a plan names, and a plan holds for what it
    saw. Other tests do, at the same time; useradd waits for this lock."""
    with contextlib.ExitStack() as stack:
        if os.geteuid() == 0:
            lock = stack.enter_context(open("/etc/.pwd.lock", "r+b"))
            for _ in range(3000):  # useradd waits for fifteen seconds only: who waits already goes first
                if not _is_awaited(os.fstat(lock.fileno()).st_ino):
                    break
                time.sleep(0.01)
            fcntl.lockf(lock, fcntl.LOCK_SH)
        yield


def _is_awaited(inode: int) -> bool:
    rows = pathlib.Path("/proc/locks").read_text().splitlines()
    return any(f":{inode} " in row and "-> POSIX" in row for row in rows)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared is kept for as long as a test takes: on a busy machine the four runs after which enactors stand
    by took longer than it is relied on otherwise."""
    monkeypatch.setattr("ringfence.keep.FRESH_SECONDS", 600.0)


class Unmet(NamedTuple):
    """Why a test cannot run here."""

    reason: str
    excused: bool  # nobody could change it on this machine


@functools.cache
def landlock_abi() -> int:
    """The kernel's Landlock ABI, 0 when there is none."""
    return max(0, int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, VERSION_FLAG)))


@functools.cache
def tried(*command: str) -> Unmet | None:
    """Whether a command that does nothing works."""
    if shutil.which(command[0]) is None:
        return Unmet(f"{command[0]} is not installed", excused=False)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return Unmet(f"{' '.join(command)}: {done.stderr.strip()}", excused=True) if done.returncode else None


def needs_landlock(abi: int) -> Unmet | None:
    return None if landlock_abi() >= abi else Unmet(f"Landlock ABI {landlock_abi()}, needs {abi}", excused=True)


def needs_yama(most: int) -> Unmet | None:
    """From 1 on it refuses by itself who looks into a sibling; above 1 no warden looks in where there is no view."""
    switch = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    scope = int(switch.read_text()) if switch.exists() else 0
    return None if scope <= most else Unmet(f"Yama at {scope}, needs {most} at most", excused=True)


def needs_a_closed_process() -> Unmet | None:
    """The first one: root may look into it, but in many a container."""
    try:
        os.readlink("/proc/1/root")
    except PermissionError:
        return None
    return Unmet("every process may be looked into", excused=True)


def needs_userns() -> Unmet | None:
    return tried("unshare", "--user", "--map-root-user", "--mount", "--ipc", "--net", "true")


def needs_root() -> Unmet | None:
    return None if os.geteuid() == 0 else Unmet("not started by root", excused=True)


@functools.cache
def needs_crash_programs() -> Unmet | None:
    """The kernel looks for a program that it starts for a crash below its own root, which need not be ours."""
    if os.geteuid() != 0:
        return needs_root()
    with tempfile.TemporaryDirectory() as base, open("/proc/sys/kernel/core_pattern", "r+") as pattern:
        program = pathlib.Path(base, "started")
        program.write_text(f'#!/bin/sh\ncat > /dev/null\n: > "{base}/told"\n')
        program.chmod(0o755)
        fcntl.flock(pattern, fcntl.LOCK_EX)
        before = pattern.read()
        try:
            pathlib.Path(pattern.name).write_text(f"|{program}")
            subprocess.run(["sh", "-c", "kill -SEGV $$"], check=False)
            for _ in range(300):
                if os.path.exists(f"{base}/told"):
                    return None
                time.sleep(0.01)
        finally:
            pathlib.Path(pattern.name).write_text(before)
    return Unmet("the kernel finds no program of ours for a crash", excused=True)


def needs_audit() -> Unmet | None:
    """That it was on once costs every later process at each call, until the machine is started anew."""
    if (unmet := needs_root() or needs_landlock(7)) is not None:
        return unmet
    from ringfence.enforce import logged

    log = logged.listen(landlock_abi())
    if log is not None:
        log.close()
    if log is not None or os.environ.get("RINGFENCE_TEST_AUDIT") == "1":
        return None
    return Unmet("audit is off; with RINGFENCE_TEST_AUDIT=1 it is on meanwhile, and costs until the next boot", True)


def needs_agents() -> Unmet | None:
    root = pathlib.Path(__file__).parent.parent
    if (root / ".agents" / "bin").is_dir():
        return None
    why = root / ".agents.why"  # scripts/agents tried, and could not
    return Unmet(why.read_text() if why.exists() else "scripts/agents was not run", excused=why.exists())


def needs_strace() -> Unmet | None:
    return tried("strace", "-o", "/dev/null", "true")


def needs_cgroup2() -> Unmet | None:
    """A hierarchy of version 2, beside whatever the machine has: mounted where nobody else sees it."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):  # they stand there already
        can = os.access("/sys/fs/cgroup", os.W_OK)
        return needs_root() or (None if can else Unmet("control groups are read-only here", excused=True))
    return needs_root() or tried("unshare", "--mount", "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")


def needs_bwrap() -> Unmet | None:
    return tried("bwrap", "--ro-bind", "/", "/", "true")


def needs_program(*names: str) -> Unmet | None:
    """Programs that are tried where they are at hand, like databases and compilers; setup installs them if it may."""
    missing = [name for name in names if shutil.which(name) is None]
    return Unmet(f"not at hand: {', '.join(missing)}", excused=True) if missing else None


NEEDS: tuple[Callable[..., Unmet | None], ...] = (
    needs_landlock,
    needs_yama,
    needs_a_closed_process,
    needs_userns,
    needs_root,
    needs_strace,
    needs_cgroup2,
    needs_bwrap,
    needs_agents,
    needs_audit,
    needs_crash_programs,
    needs_program,
)
EXCUSED = pytest.StashKey[bool]()


# Few tests each, and a minute or more: at the end one process would work on them, and the others wait.
FIRST = (
    "test_truth test_faults test_real_agents test_many test_crowds test_hostile_askers test_killed test_large".split()
)


@pytest.hookimpl(trylast=True)  # after those who shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in FIRST)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in NEEDS:
        for mark in item.iter_markers(need.__name__):
            unmet = need(*mark.args)
            if unmet:
                item.stash[EXCUSED] = unmet.excused
                pytest.skip(unmet.reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and not item.stash.get(EXCUSED, False):
        _forbid(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if IN_CI and report.skipped:
        _forbid(report)
    return report


def _forbid(report: pytest.TestReport | pytest.CollectReport) -> None:
    report.outcome = "failed"
    report.longrepr = f"a skip that this machine need not make: {report.longrepr}"
