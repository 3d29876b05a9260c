"""Reading the audit log, and finding what was changed in it.

What can be found: a line that was edited, inserted, removed or moved, anywhere; a file that is missing; what was cut
off at the end, by the head beside it. Whoever can write both the log and its head can make a whole new chain; that is
found only by a hash that somebody kept elsewhere, which `verify` takes.
"""

import fcntl
import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from .log import HEAD, NO_HEAD, NOTHING, Position, file_name, follows, hash_of, number_of, read_head, regular

MOST_FAULTS = 100
_CLOCKS = 60_000_000_000  # nanoseconds, by which a file's time may lag behind
_SURELY = 2  # files that are read whatever their time: a clock may be set back by more while a run goes on


class Report(msgspec.Struct, frozen=True):
    """What was found. No faults: every line is as it was written, and none is missing."""

    events: int
    files: int
    head: str  # the hash of the last event
    faults: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults


def numbers(directory: str) -> list[int]:
    """The files of a log, in order."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name[:-6]) for name in names if name.endswith(".jsonl") and name[:-6].isdigit())


def snapshot(directory: str) -> tuple[Position | None, dict[int, int]]:
    """The head, and the size of each file at the same moment."""
    try:
        fd = os.open(f"{directory}/{HEAD}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, _sizes(directory)
    regular(fd, f"{directory}/{HEAD}")
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        return read_head(os.pread(fd, 4096, 0)), _sizes(directory)
    finally:
        os.close(fd)


def _sizes(directory: str) -> dict[int, int]:
    return {number: os.stat(f"{directory}/{file_name(number)}").st_size for number in numbers(directory)}


def opened(directory: str, number: int) -> BinaryIO:
    """One file, to be read."""
    path = f"{directory}/{file_name(number)}"
    return os.fdopen(regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path), "rb")


def lines(directory: str, number: int, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of one file, from an offset on; the last may be torn, without its newline."""
    with opened(directory, number) as file:
        file.seek(start)
        while line := file.readline():
            if end is not None and start + len(line) > end:
                line = line[: end - start]
            if line:
                yield start, line
            start += len(line)
            if end is not None and start >= end:
                return


def has_run(directory: str, run: str, since: int) -> bool:
    """Whether the event of a run is there that began then (nanoseconds)."""
    told = b'"run":"%b"' % run.encode()
    for back, number in enumerate(reversed(numbers(directory))):
        with opened(directory, number) as file:
            if back >= _SURELY and os.fstat(file.fileno()).st_mtime_ns < since - _CLOCKS:
                return False
            data = file.read()
        at = data.find(told)
        while at >= 0:
            end = data.find(b"\n", at)
            if end >= 0 and b'"kind":"run"' in data[data.rfind(b"\n", 0, at) + 1 : at]:
                return True
            at = data.find(told, at + 1)
    return False


def is_said(line: bytes, what: str) -> bool:
    """Whether a line is the writer's own word about the log."""
    return line[line.find(b",") :].startswith(b',"kind":"log",') and b'"what":"%b",' % what.encode() in line


class _Walk:
    """Goes through a log from its first line to its last."""

    def __init__(self, kept: str) -> None:
        self.faults: list[str] = []
        self.remarks: list[str] = []
        self.events = self.number = 0
        self.hash = NOTHING
        self.kept = kept
        self.torn: tuple[int, int] | None = None  # where a line begins that was not finished

    def fault(self, what: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(what)

    def take(self, place: str, line: bytes) -> None:
        number, found = number_of(line), hash_of(line)
        if number < 0 or not found:
            self.fault(f"{place}: is not a line of the log")
            return
        if number != self.number + 1:
            gone = f"{self.number + 1} to {number - 1}" if number > self.number + 1 else ""
            self.fault(
                f"{place}: event {number} follows event {self.number}" + (f": {gone} are missing" if gone else "")
            )
        elif not follows(line, self.hash):
            self.fault(f"{place}: event {number} was changed, or the one before it")
        elif number > 2 and is_said(line, NO_HEAD):  # who was killed as the log began left one event and no head
            self.fault(f"{place}: {NO_HEAD}: whether something was cut off before cannot be known")
        self.events += 1
        self.number, self.hash = number, found
        if found == self.kept:
            self.kept = ""


def verify(directory: str, kept: str = "") -> Report:
    """Go through the whole log. `kept` is the hash of an event that was its last at some time, noted elsewhere."""
    head, sizes = snapshot(directory)
    walk = _Walk(kept)
    hash_at_head = NOTHING
    for expected, number in enumerate(sizes, 1):
        if number != expected and walk.number == 0:
            walk.fault(f"{file_name(number)} is the first file there is: what came before is missing")
        elif number - 1 not in sizes and number > 1:
            walk.fault(f"{file_name(number - 1)} is missing")
        try:
            for count, (offset, line) in enumerate(lines(directory, number, 0, sizes[number]), 1):
                if not line.endswith(b"\n"):
                    walk.torn = number, offset
                    break
                walk.take(f"{file_name(number)}:{count}", line)
                if head and walk.number == head.number:
                    hash_at_head = walk.hash
        except OSError as error:
            walk.fault(f"{file_name(number)}: {error.strerror}")
    _compare(walk, head, hash_at_head, bool(sizes))
    if walk.kept:
        walk.fault(f"no event has the hash {walk.kept}: the log is another one, or was cut")
    return Report(walk.events, len(sizes), walk.hash, tuple(walk.faults), tuple(walk.remarks))


def _compare(walk: _Walk, head: Position | None, hash_at_head: str, is_there: bool) -> None:
    """The end of the log with what its head says of it."""
    if head is None:
        if is_there:
            walk.fault("the head is missing or damaged: whether something was cut off at the end cannot be known")
        return
    if head.number > walk.number:
        walk.fault(f"the head knows of event {head.number}, and the last is {walk.number}: the end was cut off")
    elif head.number and hash_at_head != head.hash:
        walk.fault(f"event {head.number} is not the one that the head knows")
    if walk.torn is not None:
        number, offset = walk.torn
        if (number, offset) == (head.file, head.size) or walk.number > head.number:
            walk.remarks.append(f"{file_name(number)} ends in an unfinished line; the next event sets it aside")
        else:
            walk.fault(f"{file_name(number)} ends in the middle of a line")
