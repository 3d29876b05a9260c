"""Looking at what other processes do, and where. On a busy machine all takes longer: nothing is counted in seconds."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PROJECT = Path(__file__).resolve().parent.parent
HOME = Path.home()  # before a test has one of its own
PATIENCE = 45.0  # seconds, of which nothing here takes one on a quiet machine

Found = TypeVar("Found")


def until(look: Callable[[], Found], pause: float = 0.005) -> Found:
    """What is there to be seen, as soon as it is; something false when it never comes."""
    end = time.monotonic() + PATIENCE
    while not (found := look()) and time.monotonic() < end:
        time.sleep(pause)
    return found


def remove_tree(place: Path) -> None:
    """Remove what a test made, whatever modes it left; mostly none that would be in the way."""
    try:
        shutil.rmtree(place)
    except PermissionError:
        subprocess.run(["chmod", "-R", "u+rwX", "--", place], capture_output=True)
        shutil.rmtree(place)


def common_place() -> Path:
    """Where others can go, and that is not private to a run: the project, or else for root /opt, and for others their
    home, which is theirs alone."""
    is_open = os.geteuid() != 0 or all(place.stat().st_mode & 0o001 for place in (PROJECT, *PROJECT.parents))
    is_private = any(PROJECT.is_relative_to(place) for place in ("/tmp", "/var/tmp", "/dev/shm"))
    return PROJECT if is_open and not is_private else Path("/opt") if os.geteuid() == 0 else HOME


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
