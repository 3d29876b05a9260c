"""Looking at what other processes do. On a busy machine everything takes longer, so nothing is counted in seconds."""

import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PATIENCE = 45.0  # seconds, of which nothing here takes one on a quiet machine

Found = TypeVar("Found")


def until(look: Callable[[], Found], pause: float = 0.005) -> Found:
    """What is there to be seen, as soon as it is; something false when it never comes."""
    end = time.monotonic() + PATIENCE
    while not (found := look()) and time.monotonic() < end:
        time.sleep(pause)
    return found


def children(pid: int) -> list[int]:
    """Of a process that lives: the kernel's list may miss one while another ends."""
    return until(lambda: [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()])


def free_port() -> int:
    """At which nobody listens, and which nobody is given meanwhile: those that the kernel gives are from 32768 on."""
    while True:
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", 10_000 + secrets.randbelow(20_000)))
            port: int = sock.getsockname()[1]
            return port
