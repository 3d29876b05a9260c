"""What it costs to have names judged when they are used: opens, and `git status` over 20,000 files.

Each in three plans: the default one, one whose network is asked for by name, and one with a pattern that denies
something to be read, for which every open is the warden's. The plans take turns in short rounds; each times itself
inside, so that a launch is not in it, and what is shown is the median of ROUNDS (argument, 9) ratios to the default
plan of the same round, with the lower and upper quarter. The network's rows are to show 2 in 100, so they have four
times as many rounds, run on one processor, and are of processor time: the warden has no part in them. The others are
shown on one processor and on two, see processors.py.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import processors
from owner import own

import ringfence

FILES = 20_000
# Opens a file so often, or runs a command so often; the nanoseconds that each of them took, by the clock and of the
# processor.
LOOP = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long long spent(int who) {
  struct rusage of;
  getrusage(who, &of);
  return (of.ru_utime.tv_sec + of.ru_stime.tv_sec) * 1000000000LL +
         (of.ru_utime.tv_usec + of.ru_stime.tv_usec) * 1000LL;
}
int main(int argc, char **argv) {
  struct timespec begin, end;
  int count = argc > 2 ? atoi(argv[1]) : 0;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < count; i++) {
    if (argc > 3) {
      int status, pid = fork();
      if (!pid) {
        dup2(open("/dev/null", O_WRONLY), 1);
        execvp(argv[2], argv + 2);
        _exit(127);
      }
      if (waitpid(pid, &status, 0) < 0 || status) return 1;
      continue;
    }
    int fd = open(argv[2], O_RDONLY);
    if (fd < 0) return 1;
    close(fd);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  count = count ? count : 1;
  printf("%lld %lld\\n", ((end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec) / count,
         (spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN)) / count);
}
"""
OPENS = """
import os, sys, time
begin, used = time.perf_counter_ns(), time.process_time_ns()
for _ in range(20_000):
    os.close(os.open(sys.argv[1], os.O_RDONLY))
print((time.perf_counter_ns() - begin) // 20_000, (time.process_time_ns() - used) // 20_000)
"""
ROWS = {
    "opens in C": (["./loop", "20000", "many/1/1"], 8),
    "opens in C, absolute": (["./loop", "20000", "{cwd}/many/1/1"], 8),
    "opens from Python": (["/usr/bin/python3", "-c", OPENS, "many/1/1"], 8),
    "git status over 20,000 files": (["./loop", "2", "git", "status", "--porcelain"], 3),
}
NETWORK_MARK = 1.02


def prepare(workspace: Path) -> None:
    (workspace / "loop.c").write_text(LOOP)
    script = f"""set -e
    cc -O2 -o loop loop.c
    mkdir many; cd many; for d in $(seq 100); do mkdir $d; (cd $d; seq {FILES // 100} | xargs -n 200 touch); done; cd ..
    git init -q; git config user.name b; git config user.email b@example.org; git add -A; git commit -q -m many"""
    subprocess.run(["sh", "-c", script], cwd=workspace, check=True)
    own(workspace)


def compare(words: list[str], cwd: str, plans: tuple[ringfence.Flags, ringfence.Flags], rounds: int, time: int) -> str:
    """The median and the quarters of the ratios of two plans that take turns, each first every second time; of the
    time by the clock (0) or of the processor (1)."""
    environ = {"PATH": os.environ["PATH"], "HOME": cwd}
    took: list[list[int]] = []
    for number in range(rounds + 1):
        pair = {}
        for which in (0, 1) if number % 2 else (1, 0):
            outcome = ringfence.run(words, workspace=cwd, cwd=cwd, env=environ, flags=plans[which], capture=True)
            assert outcome.ok, outcome
            pair[which] = int((outcome.stdout or b"").split()[time])
        took.append([pair[0], pair[1]])
    ratios = [second / first for first, second in took[1:]]  # the first is not warm
    low, middle, high = statistics.quantiles(ratios, n=4)
    plain = statistics.median(first for first, _ in took[1:])
    return f"{middle:5.3f} x ({low:.3f} to {high:.3f}) of {plain / 1000:,.2f} us"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    which = sys.argv[2] if len(sys.argv) > 2 else ""
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    workspace.chmod(0o755)
    cwd = str(workspace)
    plain = ringfence.Flags(cwd=cwd)
    network = ringfence.Flags(cwd=cwd, allow_host=("example.org",))
    judged = ringfence.Flags(cwd=cwd, deny_read=("**/*.never",))
    everywhere = os.sched_getaffinity(0)
    try:
        prepare(workspace)
        for what, (text, mark) in ROWS.items():
            words = [word.replace("{cwd}", cwd) for word in text]
            if which in ("", "network"):
                os.sched_setaffinity(0, {max(everywhere)})
                seen = compare(words, cwd, (plain, network), 4 * rounds, 1)
                print(f"{what:30} network {seen}   (mark {NETWORK_MARK} x)")
                os.sched_setaffinity(0, everywhere)
            for where, condition in processors.conditions().items() if which in ("", "judged") else ():
                with condition():
                    seen = compare(words, cwd, (plain, judged), rounds, 0)
                print(f"{what:30} judged  {seen}   (mark {mark} x; {where})", flush=True)
    finally:
        shutil.rmtree(workspace)


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
