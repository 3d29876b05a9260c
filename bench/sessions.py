"""What a session costs, beside `git worktree add` alone, on a repository of 20,000 files.

    .venv/bin/python bench/sessions.py [files] [rounds]

The two take turns, and the median counts: a machine that others use is slow for both. In memory, unless BENCH_DIR names
another place: what a disk adds is the same for both, and hides what we add.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ringfence.session import Session, opened

AS_ROOT = os.geteuid() == 0


def make_repository(place: Path, files: int) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", place], check=True)
    rows = [b"commit refs/heads/main\ncommitter n <e@x> 0 +0000\ndata 0\n"]
    for number in range(files):
        data = f"file {number} of a project\n".encode() * 40
        rows.append(b"M 644 inline d%d/f%d\ndata %d\n%s\n" % (number // 100, number, len(data), data))
    subprocess.run(["git", "fast-import", "--quiet"], input=b"".join(rows), cwd=place, check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=place, check=True)


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def names(repo: Path) -> list[str]:
    with opened(str(repo)) as found:
        return found.ledger.names()


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(prefix="rf-bench-", dir=os.environ.get("BENCH_DIR", "/dev/shm")) as base:
        os.environ["HOME"] = base
        Path(base, ".gitconfig").write_text("[user]\n\tname = n\n\temail = e@x\n")
        repo = Path(base, "project")
        make_repository(repo, files)
        times: dict[str, list[float]] = {}

        def note(name: str, act: Callable[[], object]) -> None:
            times.setdefault(name, []).append(timed(act))

        for number in range(rounds):
            git = ["git", "-C", str(repo), "worktree", "add", "-q", "-b", f"w{number}", f"{base}/w{number}"]
            session = Session(str(repo), f"s{number}", as_root=AS_ROOT)
            both = [
                ("git worktree add", lambda git=git: subprocess.run(git, check=True)),
                ("session start", session.start),
            ]
            for name, act in both[:: 1 if number % 2 else -1]:
                note(name, act)
            note("run true, first", lambda session=session: session.run(["true"]))
            note("run true, again", lambda session=session: session.run(["true"]))
            Path(session.path, "new").write_text("work\n")
            note("session end", session.end)
            note(
                "git worktree remove",
                lambda number=number: subprocess.run(
                    ["git", "-C", str(repo), "worktree", "remove", "--force", f"{base}/w{number}"], check=True
                ),
            )
            note("session list", lambda: names(repo))
        bare = statistics.median(times["git worktree add"])
        print(f"{files} files, {rounds} rounds, median")
        for name, seen in times.items():
            median = statistics.median(seen)
            print(f"{name:22} {median * 1000:9.1f} ms   {median / bare:5.2f} × git worktree add")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
