"""`python bench/scaling.py [files]`: what many rules, large trees and patterns add to a launch.

`cold` is the processor time of reading and planning anew, `warm` that of asking again, `launch` a run of /bin/true by
the clock with the plan at hand and no enactor waiting, the fastest of a few; `each` is what one rule more adds to that;
`whole` is both together, by the clock; `again` is such a run, one of many with the same policy, one after another: the
median.
Rules of names that do not exist go to the warden's table, those of files become mounts, and without a view all of them
become Landlock's. The largest tree is of so many files, 100,000 when nothing is said, and stands in memory.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from owner import OWNER, own

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import enactor
from ringfence.run import make_request

ROUNDS = 5
IN_A_DIRECTORY = 100
FEW = 10


def processor_ms(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return (time.process_time() - begin) * 1000


def row(what: str, workspace: Path, few: float = 0, count: int = 0, **given: tuple[str, ...]) -> float:
    """One line: planning cold and warm, a launch, and what each of `count` rules costs beyond one with `FEW`, which
    took `few`. The launch's milliseconds."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT, **given)  # type: ignore[arg-type]
    request = make_request(str(workspace), str(workspace), flags)
    cold, took, whole = [], [], []
    for number in range(ROUNDS):
        keep.forget_all()
        new = msgspec.structs.replace(flags, allow_env=(f"WHOLE{number}",))
        begin = time.perf_counter()
        ringfence.run(["/bin/true"], workspace=str(workspace), flags=new)
        whole.append((time.perf_counter() - begin) * 1000)
        keep.forget_all()
        more = msgspec.structs.replace(request, flags=msgspec.structs.replace(flags, allow_env=(f"ROUND{number}",)))
        cold.append(processor_ms(lambda more=more: keep.prepare(more)))  # type: ignore[misc]
        begin = time.perf_counter()
        outcome = ringfence.run(["/bin/true"], workspace=str(workspace), flags=more.flags)
        took.append((time.perf_counter() - begin) * 1000)
        assert outcome.ok, outcome
    keep.prepare(request)
    time.sleep(0.1)  # directories that were just changed are asked again
    keep.prepare(request)
    warm = processor_ms(lambda: keep.prepare(request))
    again = []
    for _ in range(3 + ROUNDS):  # from the third on, whoever stands by was forked by a nursery
        begin = time.perf_counter()
        ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags)
        again.append((time.perf_counter() - begin) * 1000)
    keep.forget_all()
    launch = min(took)
    each = f"   each {(launch - few) / (count - FEW) * 1000:5.1f} µs" if count > FEW else ""
    planned = f"cold {statistics.median(cold):7.1f} ms   warm {warm:5.2f} ms"
    ran = f"launch {launch:7.1f} ms   whole {min(whole):7.1f} ms   again {statistics.median(again[3:]):7.1f} ms"
    print(f"{what:44} {planned}   {ran}{each}", flush=True)
    return launch


def tree(workspace: Path, files: int) -> list[str]:
    """So many empty files, a hundred in a directory."""
    paths = []
    for number in range(files):
        directory = workspace / "t" / str(number // IN_A_DIRECTORY)
        if number % IN_A_DIRECTORY == 0:
            directory.mkdir(parents=True)
        paths.append(f"{directory}/{number}")
        os.close(os.open(paths[-1], os.O_CREAT | os.O_WRONLY))
    return paths


def rules(workspace: Path, paths: list[str]) -> None:
    """More and more rules, of each kind."""
    few: dict[str, float] = {}
    for count in (FEW, 100, 1000, 5000):
        for what, given in (
            ("unwritable names that do not exist", {"deny_write": tuple(f"{path}.no" for path in paths[:count])}),
            ("unwritable files", {"deny_write": tuple(paths[:count])}),
            ("hidden files", {"deny_read": tuple(paths[:count])}),
        ):
            took = row(f"{count:,} {what}", workspace, few.get(what, 0), count, **given)
            few.setdefault(what, took)


def without_view(workspace: Path, paths: list[str]) -> None:
    """The same by Landlock alone: every second file, so that the other is granted by a rule of its own."""
    uid = OWNER[0] if OWNER else os.geteuid()
    host = enforce.probe(OWNER)
    enactor._hosts[uid] = msgspec.structs.replace(host, namespaces=False, bubblewrap="")
    few = 0.0
    for count in (FEW, 100, 1000, 5000):
        took = row(
            f"{count:,} files granted beside hidden ones, Landlock", workspace, few, count,
            deny_read=tuple(paths[: 2 * count : 2]),
        )  # fmt: skip
        few = few or took
    enactor._hosts[uid] = host


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    enforce.probe(OWNER)
    base = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    large = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/dev/shm"))
    try:
        for files in dict.fromkeys((0, 10_000, most)):
            workspace = (large if files > 100_000 else base) / str(files)
            workspace.parent.chmod(0o755)
            workspace.mkdir()
            paths = tree(workspace, files)
            own(workspace)
            row(f"{files:,} files, the default policy", workspace)
            if files:
                row(f"{files:,} files, denyRead **/*.pem", workspace, deny_read=("**/*.pem",))
            if files == 10_000:
                rules(workspace, paths)
                without_view(workspace, paths)
    finally:
        shutil.rmtree(base)
        shutil.rmtree(large)


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
