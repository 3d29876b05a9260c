"""`make bench`: what the sandbox costs, as ratios measured in one run, interleaved.

Each row names its mark; a row over it is shown as such, and the exit code says whether any was. These machines are
noisy: look at the median of many, never at one run of one thing. Words after the program's name choose among its parts:
spawns, launches, many, command, ballast, steady; and landlock or view where a part has both.
"""

import concurrent.futures
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from owner import AS_OWNER, OWNER, own

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor
from ringfence.model import Plan, Step, StepKind
from ringfence.run import make_request, plan_for

# Started by root, the commands run as a plain owner of the workspace, as they would for a plain user.
TIMES = int(os.environ.get("BENCH_TIMES", "100"))
COMMAND = [str(Path(sys.executable).with_name("ringfence")), "run"]
OPENS = """
import sys, time
begin = time.perf_counter()
for _ in range(100_000):
    open(sys.argv[1]).close()
print(time.perf_counter() - begin)
"""
# The same calls as the loop in C, with some Python around them.
BARE_OPENS = OPENS.replace("import sys", "import os, sys").replace(
    "open(sys.argv[1]).close()", "os.close(os.open(sys.argv[1], 0))"
)
FORKS = """
import subprocess, time
begin = time.perf_counter()
for _ in range(2_000):
    subprocess.run(["/bin/true"])
print(time.perf_counter() - begin)
"""
STATUS = """
import subprocess, time
begin = time.perf_counter()
subprocess.run(["git", "status", "--short"], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin)
"""
LOOP = """
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
  struct timespec a, b; (void)argc;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < 100000; i++) close(open(argv[1], O_RDONLY));
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%f\\n", (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
}
"""


def wants(word: str) -> bool:
    """Whether something was chosen: it, or nothing of its kind."""
    alike = ({"landlock", "view"} if word in ("landlock", "view") else set(PARTS)) & set(sys.argv[1:])
    return not alike or word in alike


def clock(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def interleaved(calls: dict[str, Callable[[], object]], times: int = TIMES) -> dict[str, float]:
    """The median seconds of each call, one of each in turn."""
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(times):
        for name, call in calls.items():
            seen[name].append(clock(call))
    return {name: statistics.median(values) for name, values in seen.items()}


@contextlib.contextmanager
def without_view() -> Iterator[None]:
    """Plans of Landlock and seccomp alone, as on a machine without user namespaces."""
    host = enforce.probe(OWNER)
    enactor._hosts[host.uid] = msgspec.structs.replace(
        host, namespaces=False, namespaces_why="switched off by the bench"
    )
    keep.forget_all()
    try:
        yield
    finally:
        enactor._hosts[host.uid] = host
        keep.forget_all()


class Sheet:
    """The rows as they come."""

    def __init__(self) -> None:
        self.failed = False

    def row(self, what: str, ratio: float, mark: float, unit: str = "x") -> None:
        good = ratio <= mark
        self.failed |= not good
        print(f"{'ok  ' if good else 'OVER'} {what:58} {ratio:8.3f} {unit}   (at most {mark} {unit})", flush=True)


def spawns(sheet: Sheet, workspace: Path, label: str) -> None:
    """Bare, and from Python."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)

    def run() -> None:
        outcome = ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags)
        assert outcome.ok, outcome

    def compare() -> float:
        run()
        seen = interleaved({"bare": lambda: subprocess.run(["/bin/true"], check=True), "inside": run})
        return seen["inside"] / seen["bare"]

    if wants("landlock"):
        with without_view():
            sheet.row(f"ringfence.run, Landlock and seccomp alone{label}", compare(), 1.3)
    if wants("view"):
        sheet.row(f"ringfence.run, with the view{label}", compare(), 3.3)


# What a view of mounts alone does without: the other namespaces, and the warden that stays in them.
MORE_THAN_MOUNTS = {
    StepKind.LOOPBACK,
    StepKind.WARDEN,
    StepKind.PROC,
    StepKind.PARENT,
    StepKind.NAME,
    StepKind.COMMAND,
    StepKind.SCOPE,
}
OWN = (StepKind.STREAMS, StepKind.DIRECTORY, StepKind.EXEC)  # what a standby is handed
OWN_MOUNTS = 0x10020000  # CLONE_NEWUSER and CLONE_NEWNS


def mounts_alone(whole: Plan) -> Plan:
    """The same plan with user and mount namespaces and no others."""
    changed = {StepKind.NAMESPACES: (OWN_MOUNTS,), StepKind.SECCOMP: (0,)}
    steps = tuple(
        msgspec.structs.replace(step, numbers=changed.get(step.kind, step.numbers))
        for step in whole.steps
        if step.kind not in MORE_THAN_MOUNTS
    )
    return msgspec.structs.replace(whole, steps=steps, has_warden=False)


def mounts_from_a_nursery(whole: Plan) -> Callable[[], None]:
    """The same mounts, but behind a warden without a pid namespace, for it is a warden who tells of a standby's end."""
    more = [step for step in whole.steps if step.kind in (StepKind.COMMAND, StepKind.SCOPE)]
    more.append(Step(StepKind.WARDEN, "a warden", (0,)))
    steps = sorted((*mounts_alone(whole).steps, *more), key=lambda step: step.kind)
    own = [step for step in steps if step.kind in OWN]
    walls = [step for step in steps if step.kind not in OWN]
    plan = msgspec.structs.replace(whole, steps=tuple(own))
    data = enforce.encode(plan.steps)
    nursery = enforce.Nursery(
        msgspec.structs.replace(whole, steps=tuple(walls)), b"".join(map(enforce.encode_step, walls)), len(walls)
    )

    def launch() -> None:
        standby = nursery.take()
        with enforce.start(plan, data, standby=standby) as launched:
            nursery.ask()
            ending = launched.wait()[0]
        assert ending == ringfence.Exited(0), ending

    return launch


def bubblewrap_words(request: keep.Request) -> list[str]:
    """The same mounts, as bubblewrap is told them."""
    host = enforce.probe(OWNER)
    there = msgspec.structs.replace(host, namespaces=False, bubblewrap="/usr/bin/bwrap")
    enactor._hosts[host.uid] = there
    keep.forget_all()
    try:
        steps = keep.prepare(request).walls.head
    finally:
        enactor._hosts[host.uid] = host
        keep.forget_all()
    words = [word.decode() for step in steps if step.kind is StepKind.BUBBLEWRAP for word in step.strings]
    return [word for word in words if word != "--as-pid-1"]


def launches(sheet: Sheet, workspace: Path) -> None:
    """A launch from Python, by what it sets up, beside bubblewrap with the same mounts."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    request = make_request(str(workspace), str(workspace), flags)
    words = bubblewrap_words(request)
    own_proc = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--proc /proc", "--remount-ro /proc")
    fewer = " ".join(words)
    for left_out in own_proc:
        fewer = fewer.replace(left_out, "")
    whole = plan_for(request, ["/bin/true"], {"PATH": "/usr/bin:/bin"})
    mounts = mounts_alone(whole)
    bytes_of_mounts = enforce.encode(mounts.steps)

    def with_mounts() -> None:
        with enforce.start(mounts, bytes_of_mounts) as launch:
            ending = launch.wait()[0]
        assert ending == ringfence.Exited(0), ending

    def with_all() -> None:
        outcome = ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags)
        assert outcome.ok, outcome

    from_a_nursery = mounts_from_a_nursery(whole)
    from_a_nursery()
    with_all()
    seen = interleaved(
        {
            "bare": lambda: subprocess.run(["/bin/true"], check=True),
            "mounts": with_mounts,
            "mounts, from a nursery": from_a_nursery,
            "all": with_all,
            "bubblewrap, mounts": lambda: subprocess.run([*fewer.split(), "/bin/true"], check=True, **AS_OWNER),  # type: ignore[call-overload]
            "bubblewrap": lambda: subprocess.run([*words, "/bin/true"], check=True, **AS_OWNER),  # type: ignore[call-overload]
        }
    )
    print("     " + ", ".join(f"{name} {value * 1000:.2f} ms" for name, value in seen.items()))
    sheet.row("a launch with a view of mounts alone, from nothing", seen["mounts"] / seen["bare"], 2.2)
    sheet.row("the same, from a nursery", seen["mounts, from a nursery"] / seen["bare"], 2.2)
    sheet.row("ringfence.run with all namespaces", seen["all"] / seen["bare"], 3.3)
    sheet.row("mounts alone, of bubblewrap's", seen["mounts"] / seen["bubblewrap, mounts"], 0.5)
    sheet.row("all namespaces, of bubblewrap's", seen["all"] / seen["bubblewrap"], 0.5)


def many(sheet: Sheet, workspace: Path) -> None:
    """200 runs, so many at a time: the whole time beside that of the bare commands."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)

    def run(_number: int) -> None:
        assert ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags).ok

    def bare(_number: int) -> None:
        subprocess.run(["/bin/true"], check=True)

    def all_of(call: Callable[[int], None], at_once: int) -> Callable[[], object]:
        def start() -> None:
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                list(pool.map(call, range(200)))

        return start

    def compare(at_once: int) -> float:
        run(0)
        seen = interleaved({"bare": all_of(bare, at_once), "inside": all_of(run, at_once)}, 15)
        return seen["inside"] / seen["bare"]

    for at_once in (2, 8, 32):
        if wants("landlock"):
            with without_view():
                sheet.row(f"200 runs, {at_once} at a time, Landlock", compare(at_once), 1.5)
        if wants("view"):
            sheet.row(f"200 runs, {at_once} at a time, with the view", compare(at_once), 4.5)


def command(sheet: Sheet, workspace: Path) -> None:
    words = [*COMMAND, "--", "/bin/true"]
    seen = interleaved(
        {
            "bare": lambda: subprocess.run(["/bin/true"], check=True),
            "command": lambda: subprocess.run(words, cwd=workspace, check=True),
        }
    )
    sheet.row("ringfence run -- true, beyond bare", (seen["command"] - seen["bare"]) * 1000, 50, "ms")


def inside(workspace: Path, argv: list[str]) -> float:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    outcome = ringfence.run(argv, workspace=str(workspace), capture=True, flags=flags)
    assert outcome.ok, outcome
    return float((outcome.stdout or b"").split()[-1])


def outside(workspace: Path, argv: list[str]) -> float:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        argv, cwd=workspace, capture_output=True, check=True, stdin=subprocess.DEVNULL, env=environ, **AS_OWNER
    )  # type: ignore[call-overload]
    return float(done.stdout.split()[-1])


def ratio(workspace: Path, argv: list[str], rounds: int = 7) -> float:
    """Inside against outside, interleaved."""
    pairs = [(inside(workspace, argv), outside(workspace, argv)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def steady(sheet: Sheet, workspace: Path) -> None:
    """What holds while a command runs."""
    (workspace / "loop.c").write_text(LOOP)
    subprocess.run(["cc", "-O2", "-o", "loop", "loop.c"], cwd=workspace, check=True)
    target = str(workspace / "loop.c")
    many = workspace / "many"
    for number in range(200):
        directory = many / str(number)
        directory.mkdir(parents=True)
        for name in range(100):
            (directory / str(name)).write_text(str(number * name))
    git = ["git", "-c", f"safe.directory={workspace}", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "many"]):
        subprocess.run([*git, *words], cwd=workspace, check=True)
    own(workspace)
    if wants("landlock"):
        with without_view():
            loops(sheet, workspace, target, "Landlock")
    if wants("view"):
        loops(sheet, workspace, target, "with the view")


def loops(sheet: Sheet, workspace: Path, target: str, label: str) -> None:
    python = "/usr/bin/python3"
    sheet.row(f"100,000 opens in C, {label}", ratio(workspace, [str(workspace / "loop"), target]), 1.35)
    sheet.row(f"100,000 opens from Python, {label}", ratio(workspace, [python, "-c", OPENS, target]), 1.2)
    print(f"     by os.open and os.close alone, {label}: {ratio(workspace, [python, '-c', BARE_OPENS, target]):.3f} x")
    sheet.row(f"2,000 fork and exec from Python, {label}", ratio(workspace, [python, "-c", FORKS], 5), 1.1)
    sheet.row(f"git status over 20,000 files, {label}", ratio(workspace, [python, "-c", STATUS], 15), 1.05)


def with_ballast(sheet: Sheet, workspace: Path) -> None:
    """The same launches from a large process with many threads."""
    ballast = bytearray(800 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(32)]
    for thread in threads:
        thread.start()
    spawns(sheet, workspace, ", 800 MB and 32 threads")
    stop.set()


PARTS: dict[str, Callable[[Sheet, Path], None]] = {
    "spawns": lambda sheet, workspace: spawns(sheet, workspace, ""),
    "launches": launches,
    "many": many,
    "command": command,
    "ballast": with_ballast,
    "steady": steady,
}


@contextlib.contextmanager
def through_a_pipe() -> Iterator[None]:
    """A command does not have a file of its caller's as its output; what we print comes by way of another process."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        assert cat.stdin is not None
        kept = [os.dup(fd) for fd in (1, 2)]
        for fd in (1, 2):
            os.dup2(cat.stdin.fileno(), fd)
        try:
            yield
        finally:
            sys.stdout.flush()
            for fd, before in zip((1, 2), kept, strict=True):
                os.dup2(before, fd)


def main() -> int:
    with through_a_pipe():
        return measured()


def measured() -> int:
    sheet = Sheet()
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    workspace.chmod(0o755)
    own(workspace)
    try:
        for part, measure in PARTS.items():
            if wants(part):
                measure(sheet, workspace)
    finally:
        shutil.rmtree(workspace)
    return 1 if sheet.failed else 0


if __name__ == "__main__":
    sys.exit(print(__doc__) if "--help" in sys.argv else main())
