"""What two processes that wait for each other hang on: whether they share a processor, and how fast an idle one wakes.

An answer with a descriptor wakes whoever asked on an idle processor, if there is one. A virtual machine's halts when it
is idle, and has to be woken by the host; whether a kernel polls for a while first is a setting of the machine
(`guest_halt_poll_ns`, 0 on ours), which `/dev/cpu_dma_latency` overrules as long as root holds it open.
"""

import contextlib
import os
import struct
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
