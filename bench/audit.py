"""What the audit log costs: one event, one event written through to the disk, a whole run's record, and verifying.

    .venv/bin/python bench/audit.py [directory]

The directory says which disk is measured; by default where the state of whoever calls is kept.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ringfence.audit import Log
from ringfence.audit.chain import verify
from ringfence.audit.log import now
from ringfence.model import Exited
from ringfence.model.event import Ran

TIMES = int(os.environ.get("BENCH_TIMES", "2000"))


def event() -> Ran:
    return Ran(at=now(), run="0123456789abcdef", workspace="/work/project", argv=("sh", "-c", "make test"),
               cwd="/work/project", ending=Exited(0), seconds=0.01)  # fmt: skip


def show(name: str, times: int, act: Callable[[], object]) -> None:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    taken.sort()
    print(
        f"{name:42} median {statistics.median(taken) * 1e6:8.1f} µs, 99 in 100 {taken[times * 99 // 100] * 1e6:8.1f} µs"
    )


def main() -> None:
    above = sys.argv[1] if len(sys.argv) > 1 else str(Path.home())
    with tempfile.TemporaryDirectory(dir=above) as place:
        log = Log(f"{place}/audit")
        show("an event", TIMES, lambda: log.append([event()]))
        show("an event, written through", max(TIMES // 10, 20), lambda: log.append([event()], True))
        log.close()
        begun = time.perf_counter()
        report = verify(f"{place}/audit")
        print(f"{'verifying':42} {report.events / (time.perf_counter() - begun):8.0f} events a second")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
