"""What a new name costs: 20,000 files made in memory, an archive unpacked, and a checkout on disk, inside and bare.

Each is timed by itself, the two taking turns; the medians of ROUNDS (argument, 5). Files in memory are made on one
processor and on two, see processors.py. On disk each goes to a directory of its own, and nothing is taken away before
the end: ext4 gives no number out again that became free in the last minutes, and to look for one that did not took up
to thirty times as long as the file itself.
"""

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import processors
from owner import AS_OWNER, own

import ringfence

FILES, EACH = 20_000, 200  # so many in a directory
NUMBERS = itertools.count()
MAKE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char name[32];
  if (argc < 3 || chdir(argv[1])) return 1;
  for (int i = 0; i < atoi(argv[2]); i++) {
    int fd = open((sprintf(name, "made-%d", i), name), O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (fd < 0) return 2;
    close(fd);
  }
}
"""
PYTHON = "import sys; [open(f'{sys.argv[1]}/made-{i}', 'w').close() for i in range(20000)]"
CHECKOUT = "mkdir NEW && git --git-dir {}.git --work-tree NEW checkout -q main -- ."
# Each with where it works: PLACE in memory, NEW on disk.
ROWS = {
    "20,000 creations in memory, from Python": (f'python3 -c "{PYTHON}" PLACE', 2.5),
    "20,000 creations in memory, by touch": ("cd PLACE && seq -f made-%.0f 20000 | xargs touch", 2.5),
    "20,000 creations in memory, in C": ("./make PLACE 20000", 2.5),
    "an archive of 20,000 empty files": ("mkdir NEW && tar xf empty.tar -C NEW", 1.5),
    "the same, of 4 KiB each": ("mkdir NEW && tar xf full.tar -C NEW", 1.5),
    "a checkout of 20,000 empty files": (CHECKOUT.format("empty"), 1.5),
    "the same, of 4 KiB each (checkout)": (CHECKOUT.format("full"), 1.5),
}


def prepare(workspace: Path) -> None:
    (workspace / "make.c").write_text(MAKE)
    script = f"""set -e
    cc -O2 -o make make.c
    head -c {4096 * EACH} /dev/urandom >blob
    for d in $(seq {FILES // EACH}); do
        mkdir -p empty/$d full/$d
        (cd empty/$d; seq {EACH} | xargs touch)
        (cd full/$d; split -b 4096 -a 3 ../../blob)
    done
    for kind in empty full; do
        tar cf $kind.tar $kind
        export GIT_DIR=$PWD/$kind.git GIT_WORK_TREE=$PWD/$kind
        git init -q -b main
        git add -A
        git -c user.name=b -c user.email=b@example.org commit -q -m many
    done"""
    subprocess.run(["sh", "-c", script], cwd=workspace, check=True)
    own(workspace)


def timed(call: Callable[[str], None], script: str) -> float:
    script = script.replace("NEW", f"new-{next(NUMBERS)}")
    begin = time.perf_counter()
    call(script)
    return time.perf_counter() - begin


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    workspace = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    memory = tempfile.mkdtemp(prefix="ringfence-bench-", dir="/dev/shm")
    workspace.chmod(0o755)
    own(workspace)
    own(memory)
    environ = {"PATH": os.environ["PATH"], "HOME": str(workspace)}

    def bare(script: str) -> None:
        words = ["sh", "-c", script.replace("PLACE", memory)]
        subprocess.run(words, cwd=workspace, check=True, env=environ, **AS_OWNER)  # type: ignore[call-overload]

    def inside(script: str) -> None:
        words = ["sh", "-c", script.replace("PLACE", "/tmp")]
        outcome = ringfence.run(
            words, workspace=str(workspace), cwd=str(workspace), env=environ, flags=ringfence.Flags(cwd=str(workspace))
        )
        assert outcome.ok, outcome

    try:
        prepare(workspace)
        for what, (script, mark) in ROWS.items():
            in_memory = "PLACE" in script
            where = processors.conditions() if in_memory else {"two, as they are": processors.as_they_are}
            for condition in where:
                seen: dict[str, list[float]] = {"bare": [], "inside": []}
                with where[condition]():
                    for _ in range(rounds):
                        for name, run in (("bare", bare), ("inside", inside)):
                            seen[name].append(timed(run, script))
                            bare("find PLACE -name 'made-*' -delete")
                one, other = (statistics.median(seen[name]) for name in ("bare", "inside"))
                each = f"{one / FILES * 1e6:.1f} and {other / FILES * 1e6:.1f} us each"
                print(f"{what:40} {other / one:5.2f} x   {each}   (mark {mark} x; {condition})", flush=True)
    finally:
        shutil.rmtree(workspace)
        shutil.rmtree(memory)


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
