"""`make bench`: what the sandbox costs, as ratios measured in one run, interleaved.

Each row names its mark; a row over it is shown as such, and the exit code says whether any was. These machines are
noisy: look at the median of many, never at one run of one thing.
"""

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

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor

# Started by root, the commands run as a plain owner of the workspace, as they would for a plain user.
OWNER = (65534, 65534) if os.geteuid() == 0 else None
TIMES = int(os.environ.get("BENCH_TIMES", "100"))
COMMAND = [str(Path(sys.executable).with_name("ringfence")), "run"]
OPENS = """
import os, sys, time
begin = time.perf_counter()
for _ in range(100_000):
    os.close(os.open(sys.argv[1], os.O_RDONLY))
print(time.perf_counter() - begin)
"""
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
    """Bare, from Python, and as a command."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)

    def run() -> None:
        outcome = ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags)
        assert outcome.ok, outcome

    with without_view():
        run()
        seen = interleaved({"bare": lambda: subprocess.run(["/bin/true"], check=True), "landlock": run})
    sheet.row(f"ringfence.run, Landlock and seccomp alone{label}", seen["landlock"] / seen["bare"], 1.3)
    run()
    seen = interleaved({"bare": lambda: subprocess.run(["/bin/true"], check=True), "view": run})
    sheet.row(f"ringfence.run, with the view{label}", seen["view"] / seen["bare"], 3.3)


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
    who = {"user": OWNER[0], "group": OWNER[1], "extra_groups": []} if OWNER else {}
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        argv, cwd=workspace, capture_output=True, check=True, stdin=subprocess.DEVNULL, env=environ, **who
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
    python = "/usr/bin/python3"
    many = workspace / "many"
    for number in range(200):
        directory = many / str(number)
        directory.mkdir(parents=True)
        for name in range(100):
            (directory / str(name)).write_text(str(number * name))
    git = ["git", "-c", f"safe.directory={workspace}", "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "many"]):
        subprocess.run([*git, *words], cwd=workspace, check=True)
    if OWNER:
        subprocess.run(["chown", "-R", f"{OWNER[0]}:{OWNER[1]}", str(workspace)], check=True)
    with without_view():
        sheet.row(
            "100,000 opens in C, Landlock with every right", ratio(workspace, [str(workspace / "loop"), target]), 1.35
        )
        sheet.row(
            "100,000 opens from Python, Landlock with every right", ratio(workspace, [python, "-c", OPENS, target]), 1.2
        )
        sheet.row("2,000 fork and exec from Python, Landlock", ratio(workspace, [python, "-c", FORKS], 5), 1.1)
        sheet.row("git status over 20,000 files, Landlock", ratio(workspace, [python, "-c", STATUS], 15), 1.05)
    sheet.row("100,000 opens in C, with the view", ratio(workspace, [str(workspace / "loop"), target]), 1.35)
    sheet.row("100,000 opens from Python, with the view", ratio(workspace, [python, "-c", OPENS, target]), 1.2)
    sheet.row("2,000 fork and exec from Python, with the view", ratio(workspace, [python, "-c", FORKS], 5), 1.1)
    sheet.row("git status over 20,000 files, with the view", ratio(workspace, [python, "-c", STATUS], 15), 1.05)


def main() -> int:
    sheet = Sheet()
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    workspace.chmod(0o755)
    if OWNER:
        os.chown(workspace, *OWNER)
    try:
        spawns(sheet, workspace, "")
        command(sheet, workspace)
        ballast = bytearray(800 << 20)
        ballast[::4096] = b"x" * len(ballast[::4096])
        stop = threading.Event()
        threads = [threading.Thread(target=stop.wait) for _ in range(32)]
        for thread in threads:
            thread.start()
        spawns(sheet, workspace, ", 800 MB and 32 threads")
        stop.set()
        del ballast
        steady(sheet, workspace)
    finally:
        shutil.rmtree(workspace)
    return 1 if sheet.failed else 0


if __name__ == "__main__":
    sys.exit(main())
