"""`python bench/scaling.py`: what many rules, large trees and patterns add to a launch.

`cold` is the processor time of planning anew, `warm` that of asking again, `launch` a whole run of /bin/true by the
clock, the median of a few. Rules of names that do not exist go to the warden's table, those of files become mounts.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ringfence
from ringfence import enforce, keep
from ringfence.run import make_request

OWNER = (65534, 65534) if os.geteuid() == 0 else None
ROUNDS = 5
IN_A_DIRECTORY = 100


def own(path: Path) -> None:
    if OWNER:
        for above, _, names in os.walk(path):
            for name in ("", *names):
                os.chown(os.path.join(above, name), *OWNER)


def processor_ms(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return (time.process_time() - begin) * 1000


def row(what: str, workspace: Path, **given: tuple[str, ...]) -> None:
    """One line: planning cold and warm, and a launch."""
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT, **given)  # type: ignore[arg-type]
    request = make_request(str(workspace), str(workspace), flags)
    keep.load_policy(request)
    cold = []
    for _ in range(ROUNDS):
        keep.forget_all()
        cold.append(processor_ms(lambda: keep.prepare(request)))
    time.sleep(0.1)  # directories that were just changed are asked again
    keep.prepare(request)
    warm = processor_ms(lambda: keep.prepare(request))
    took = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        outcome = ringfence.run(["/bin/true"], workspace=str(workspace), flags=flags)
        took.append((time.perf_counter() - begin) * 1000)
        assert outcome.ok, outcome
    keep.forget_all()
    times = f"cold {statistics.median(cold):7.1f} ms   warm {warm:5.2f} ms   launch {statistics.median(took):7.1f} ms"
    print(f"{what:44} {times}", flush=True)


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


def main() -> int:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    enforce.probe(OWNER)
    base = Path(tempfile.mkdtemp(prefix="ringfence-bench-", dir="/var/tmp"))
    base.chmod(0o755)
    try:
        for files in (0, 10_000, most):
            workspace = base / str(files)
            workspace.mkdir()
            paths = tree(workspace, files)
            own(workspace)
            row(f"{files:,} files, the default policy", workspace)
            if files:
                row(f"{files:,} files, denyRead **/*.pem", workspace, deny_read=("**/*.pem",))
            if files != 10_000:
                continue
            for count in (10, 100, 1000, 5000):
                row(
                    f"{count:,} unwritable names that do not exist",
                    workspace,
                    deny_write=tuple(f"{p}.no" for p in paths[:count]),
                )
                row(f"{count:,} unwritable files", workspace, deny_write=tuple(paths[:count]))
                row(f"{count:,} hidden files", workspace, deny_read=tuple(paths[:count]))
    finally:
        shutil.rmtree(base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
