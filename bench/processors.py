"""What two processes that wait for each other hang on: whether they share a processor, and how fast an idle one wakes.

An answer with a descriptor wakes whoever asked on an idle processor, if there is one. A virtual machine's may have
halted by then, and the host takes its time; whether a kernel polls for a while first is a setting of the machine
(`guest_halt_poll_ns`), which `/dev/cpu_dma_latency` overrules as long as root holds it open.
"""

import contextlib
import os
import statistics
import struct
import time
from collections.abc import Callable, Iterator

LATENCY = "/dev/cpu_dma_latency"


@contextlib.contextmanager
def as_they_are() -> Iterator[None]:
    yield


@contextlib.contextmanager
def one() -> Iterator[None]:
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(everywhere)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


@contextlib.contextmanager
def awake() -> Iterator[None]:
    fd = os.open(LATENCY, os.O_WRONLY)
    try:
        os.write(fd, struct.pack("i", 0))
        yield
    finally:
        os.close(fd)


def conditions() -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    """Those that can be had here."""
    found: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {"one processor": one}
    if os.access(LATENCY, os.W_OK):
        found["two, kept awake"] = awake
    return {**found, "two, as they are": as_they_are}


def wake_time(times: int = 500) -> float:
    """Microseconds from a byte written on one processor to its being read on another that was idle: the median."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    (ask, asked), (answer, answered) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, {second})
        while os.read(ask, 1) == b"x":
            os.write(answered, b"x")
        os._exit(0)
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {first})
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        os.write(asked, b"x")
        os.read(answer, 1)
        took.append((time.perf_counter() - begin) / 2 * 1e6)
    os.write(asked, b".")
    os.waitpid(child, 0)
    os.sched_setaffinity(0, everywhere)
    for fd in (ask, asked, answer, answered):
        os.close(fd)
    return statistics.median(took)
