"""What it costs to have names judged when they are used: 100,000 opens and `git status` over 20,000 files.

Each in three plans: the default one, one whose network is asked for by name, and one with a pattern that denies
something to be read, for which every open is the warden's. Ratios to the first; the three take turns, and the medians
of ROUNDS (argument, 5) are shown.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ringfence

FILES = 20_000
OWNER = (65534, 65534) if os.geteuid() == 0 else None
LOOP = """
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
  for (int i = 0; i < 100000; i++) {
    int fd = open(argv[argc - 1], O_RDONLY);
    if (fd < 0) return 1;
    close(fd);
  }
}
"""
OPENS = """
import os, sys
for _ in range(100_000):
    os.close(os.open(sys.argv[1], os.O_RDONLY))
"""
ROWS = {
    "100,000 opens in C": (["./loop", "many/1/1"], 1.02, 8),
    "100,000 opens from Python": (["/usr/bin/python3", "-c", OPENS, "many/1/1"], 1.02, 8),
    "git status over 20,000 files": (["git", "status", "--porcelain"], 1.02, 3),
}


def prepare(workspace: Path) -> None:
    (workspace / "loop.c").write_text(LOOP)
    script = f"""set -e
    cc -O2 -o loop loop.c
    mkdir many; cd many; for d in $(seq 100); do mkdir $d; (cd $d; seq {FILES // 100} | xargs -n 200 touch); done; cd ..
    git init -q; git config user.name b; git config user.email b@example.org; git add -A; git commit -q -m many"""
    subprocess.run(["sh", "-c", script], cwd=workspace, check=True)
    if OWNER:
        subprocess.run(["chown", "-R", f"{OWNER[0]}:{OWNER[1]}", str(workspace)], check=True)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    workspace.chmod(0o755)
    cwd = str(workspace)
    flags = {
        "plain": ringfence.Flags(cwd=cwd),
        "network": ringfence.Flags(cwd=cwd, allow_host=("example.org",)),
        "judged": ringfence.Flags(cwd=cwd, deny_read=("**/*.never",)),
    }
    environ = {"PATH": os.environ["PATH"], "HOME": cwd}
    try:
        prepare(workspace)
        for what, (words, *marks) in ROWS.items():
            seen: dict[str, list[float]] = {name: [] for name in flags}
            for _ in range(rounds + 1):
                for name, chosen in flags.items():
                    begin = time.perf_counter()
                    outcome = ringfence.run(words, workspace=cwd, cwd=cwd, env=environ, flags=chosen, capture=True)
                    seen[name].append(time.perf_counter() - begin)
                    assert outcome.ok, outcome
            plain, *others = (statistics.median(times[1:]) for times in seen.values())  # the first is not warm
            ratios = (
                f"{name} {other / plain:5.2f} x (mark {mark} x)"
                for name, other, mark in zip(("network", "judged"), others, marks, strict=True)
            )
            print(f"{what:30} {plain * 1000:7.1f} ms   {'   '.join(ratios)}", flush=True)
    finally:
        shutil.rmtree(workspace)
    return 0


if __name__ == "__main__":
    sys.exit(main())
