"""Looking for names that match patterns: a walk that goes only where a pattern can still match, and ends in time.

What a pattern is, is not known here: a state is handed from a directory to its entries by a function of the caller's.
Breadth first, so that what lies near the top is found even where the tree is too large to be seen whole.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

KERNEL = frozenset(("/proc", "/sys", "/dev"))
MOST_ENTRIES = 100_000
MOST_FOUND = 4_096
MOST_SECONDS = 0.1

State = TypeVar("State")
Step = Callable[[State, str], "tuple[State | None, tuple[int, ...]]"]  # where to go on, and which patterns match here


class Found(NamedTuple):
    """The paths that match, each with the numbers of its patterns; and where the search has not been."""

    paths: tuple[tuple[str, tuple[int, ...]], ...]
    closed: tuple[str, ...]  # directories that let us not look
    unseen: str  # the first directory that was left out because there was too much; "" when all was seen


def walk(starts: Iterable[tuple[str, State]], step: Step[State]) -> Found:
    """Every match below the starting points, or as many as there is time for. Links are found, and not followed."""
    until = time.monotonic() + MOST_SECONDS
    queue = deque(starts)
    seen = {path for path, _ in queue}
    paths: list[tuple[str, tuple[int, ...]]] = []
    closed: list[str] = []
    entries = 0
    while queue:
        path, state = queue.popleft()
        if entries >= MOST_ENTRIES or len(paths) >= MOST_FOUND or time.monotonic() > until:
            return Found(tuple(paths), tuple(closed), path)
        stem = path.rstrip("/")
        try:
            with os.scandir(path) as listing:
                for entry in listing:
                    entries += 1
                    below, matches = step(state, entry.name)
                    if matches:
                        paths.append((f"{stem}/{entry.name}", matches))
                    if below is not None and entry.is_dir(follow_symlinks=False):
                        there = f"{stem}/{entry.name}"
                        if there not in seen and there not in KERNEL:
                            seen.add(there)
                            queue.append((there, below))
                    if entries >= MOST_ENTRIES:
                        break
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            closed.append(path)
    return Found(tuple(paths), tuple(closed), "")
