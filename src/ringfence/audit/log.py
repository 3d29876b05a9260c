"""The writer of the audit log.

    <directory>/000001.jsonl   events, one a line; 000002.jsonl goes on when it is full
    <directory>/head           where the log ends: file, number, size and hash of the last event; also the lock
    <directory>/torn-*         what a writer that was killed left of its last line

A line is `{"n":7,"kind":...,"hash":"..."}`. The hash is the SHA-256 of the hash of the line before it, as text, and of
this line up to its own. A line is written by one call, under a lock; what a killed writer or a full disk left of one
is set aside by the next, which says so in an event of its own.
"""

import _thread
import errno
import fcntl
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..model.event import Event, Noted, written

# hashlib itself would load OpenSSL, which costs a short process more than everything else here.
if sys.version_info >= (3, 12):
    from _sha2 import sha256 as _digest  # type: ignore[import-not-found]
else:
    from _sha256 import sha256 as _digest  # type: ignore[import-not-found]

HEAD = "head"
NOTHING = "0" * 64  # what the first line of all follows
NO_HEAD = "the head of the log was missing or damaged"
LARGEST = 16 << 20  # bytes, of one file
HASH_AT = len(b',"hash":"') + 64 + len(b'"}\n')  # from the end of a line
_HEAD_BYTES = 110


class LogError(Exception):
    """The log cannot be written, or is not ours to trust."""


class Position(NamedTuple):
    """Where the log ends."""

    file: int
    number: int
    size: int
    hash: str


START = Position(1, 0, 0, NOTHING)


def file_name(number: int) -> str:
    return f"{number:06d}.jsonl"


def regular(fd: int, path: str) -> int:
    """The descriptor again, opened without waiting; no pipe or device, which keeps nothing of what is written."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return fd


def sha256(data: bytes) -> str:
    """What identifies these bytes."""
    made: str = _digest(data).hexdigest()
    return made


def now() -> str:
    """The time as events say it."""
    return moment(time.time_ns())


def moment(nanoseconds: int) -> str:
    """A time since 1970 as events say it."""
    global _second
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    kept = _second
    if kept[0] != seconds:
        _second = kept = seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{kept[1]}.{rest // 1000:06d}Z"


_second = 0, ""  # one of them, and how it is said


def chained(events: Sequence[Event | bytes], at: Position) -> tuple[bytes, Position]:
    """The lines of events, some perhaps encoded already, that follow a position, and the position after them."""
    data, (file, number, size, before) = b"", at
    last = before.encode()
    for event in events:
        number += 1
        said = b'{"n":%d,%b' % (number, (event if isinstance(event, bytes) else written(event))[1:-1])
        last = _digest(last + said).hexdigest().encode()
        data += b'%b,"hash":"%b"}\n' % (said, last)
    return data, Position(file, number, size + len(data), last.decode())


def number_of(line: bytes) -> int:
    """The number that a line gives itself; -1 when it is no line of ours."""
    digits = line[5 : line.find(b",")] if line.startswith(b'{"n":') else b""
    return int(digits) if digits.isdigit() and len(digits) < 16 else -1


def hash_of(line: bytes) -> str:
    """The hash at the end of a whole line; "" when there is none."""
    tail = line[-HASH_AT:]
    well_formed = tail.startswith(b',"hash":"') and tail.endswith(b'"}\n') and len(tail) == HASH_AT
    return tail[9:73].decode("ascii", "replace") if well_formed else ""


def follows(line: bytes, last: str) -> bool:
    """Whether a whole line is one of ours, and follows the one with this hash."""
    return hash_of(line) == sha256(last.encode() + line[:-HASH_AT])


def read_head(data: bytes) -> Position | None:
    """What the head says; None when it is no head."""
    words = data.split()
    if len(data) != _HEAD_BYTES or len(words) != 4 or len(words[3]) != 64 or not b"".join(words[:3]).isdigit():
        return None
    return Position(int(words[0]), int(words[1]), int(words[2]), words[3].decode("ascii", "replace"))


class _Due:
    """Events that a thread waits for to be written."""

    __slots__ = ("durable", "events", "fault", "is_over")

    def __init__(self, events: Sequence[Event | bytes], durable: bool) -> None:
        self.events, self.durable = events, durable
        self.is_over = False
        self.fault: Exception | None = None


if TYPE_CHECKING:

    class Brief(Protocol):
        """Who can ask the kernel without letting go of the interpreter's lock, on some devices."""

        near: Set[int]
        read: Callable[[int], bytes]
        links_and_size: Callable[[int], tuple[int, int]]
        lock: Callable[[int], None]
        unlock: Callable[[int], None]


class _Plain:
    """The same by `os`, anywhere."""

    @staticmethod
    def read(fd: int) -> bytes:
        return os.pread(fd, _HEAD_BYTES + 1, 0)

    @staticmethod
    def links_and_size(fd: int) -> tuple[int, int]:
        facts = os.fstat(fd)
        return facts.st_nlink, facts.st_size

    @staticmethod
    def lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)

    @staticmethod
    def unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


class Log:
    """A log to append to. It may be shared by threads; a fork needs its own, for locks are shared by forks."""

    def __init__(self, directory: str, brief: "Brief | None" = None) -> None:
        self.directory = directory
        self._brief, self._device = brief, -1
        self._mutex, self._due = _thread.allocate_lock(), deque[_Due]()
        self._head = self._file = self._at = -1
        self._number = 0  # of the file that is open
        self._last: tuple[bytes, Position] = b"", START  # the head as we wrote it: most often nobody else did since
        self._open()

    def _open(self) -> None:
        if not os.path.isdir(self.directory):
            os.makedirs(self.directory, 0o700, exist_ok=True)
        self._at = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        facts = os.fstat(self._at)
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            self.close()
            raise LogError(f"{self.directory} can be written by others")
        self._device = facts.st_dev
        self._head = self._opened(HEAD, os.O_RDWR)

    def _opened(self, name: str, flags: int) -> int:
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return regular(os.open(name, flags, 0o600, dir_fd=self._at), f"{self.directory}/{name}")

    def close(self) -> None:
        for fd in (self._file, self._head, self._at):
            if fd >= 0:
                os.close(fd)
        self._head = self._file = self._at = -1

    def append(self, events: Sequence[Event | bytes], durable: bool = False) -> None:
        """Write events, all or none. With `durable` they outlive the machine's power too, and not only this process."""
        if not self._due and self._mutex.acquire(False):  # most often nobody else writes
            try:
                self._put(events, durable)
            finally:
                self._mutex.release()
            return
        mine = _Due(events, durable)
        self._due.append(mine)
        with self._mutex:
            if not mine.is_over:
                self._write_due(mine)
        if mine.fault is not None:
            raise mine.fault

    def _write_due(self, mine: _Due) -> None:
        """What all who wait by now have to write, by one call; if that fails each by itself, for a part may fit."""
        taken = [self._due.popleft() for _ in range(len(self._due))]
        try:
            try:
                self._put([event for due in taken for event in due.events], any(due.durable for due in taken))
            except (LogError, OSError) as fault:
                for due in taken:
                    due.fault = self._fault_of(due) if len(taken) > 1 else fault
                    due.is_over = True
        except BaseException:  # we are told to end: the others write what is theirs, and is not written yet
            self._due.extendleft(due for due in reversed(taken) if due is not mine and not due.is_over)
            raise
        for due in taken:
            due.is_over = True

    def _fault_of(self, due: "_Due") -> Exception | None:
        try:
            self._put(due.events, due.durable)
        except (LogError, OSError) as fault:
            return fault
        return None

    def _calls(self) -> "Brief | type[_Plain]":
        """How the kernel is asked for what nobody waits for."""
        return self._brief if self._brief is not None and self._device in self._brief.near else _Plain

    def _put(self, events: Sequence[Event | bytes], durable: bool) -> None:
        calls = self._calls()
        if self._head < 0 or not calls.links_and_size(self._head)[0]:  # somebody removed it under us
            self.close()
            self._open()
            calls = self._calls()
        calls.lock(self._head)
        try:
            said, at = self._last
            is_ours = self._file >= 0 and self._number == at.file and at.size < LARGEST
            # The log alone does not say that nobody has written since: what somebody wrote may have been cut off.
            if not is_ours or calls.read(self._head) != said or not self._is_as_left(*calls.links_and_size(self._file)):
                at = self._go_on()
            data, after = chained(events, at)
            self._write(data, at.size)
            self._set_head(after)
            if durable:
                os.fsync(self._file)
        finally:
            calls.unlock(self._head)

    def _is_as_left(self, links: int, size: int) -> bool:
        return links > 0 and size == self._last[1].size

    def _go_on(self) -> Position:
        """Where the next line goes, and the file for it open. What is not as the head says is put right, and told."""
        said = os.pread(self._head, _HEAD_BYTES + 1, 0)
        at = read_head(said)
        if at is None:
            return self._start()
        size = self._turn_to(at.file)
        if size != at.size:
            at = self._recover(at, size)
        if at.size >= LARGEST:
            os.fsync(self._file)
            at = at._replace(file=at.file + 1, size=0)
            size = self._turn_to(at.file)
            os.fsync(self._at)
            if size:
                raise LogError(f"{self.directory}/{file_name(at.file)} is there already, and is not ours")
            self._set_head(at)
        return at

    def _turn_to(self, number: int) -> int:
        """Have the file of this number open; its size."""
        if self._number == number and self._file >= 0:
            facts = os.fstat(self._file)
            if facts.st_nlink:
                return facts.st_size
        if self._file >= 0:
            os.close(self._file)
            self._file = -1  # if the next cannot be opened: the number may be another file's by then
        self._file, self._number = self._opened(file_name(number), os.O_RDWR | os.O_APPEND), number
        return os.fstat(self._file).st_size

    def _start(self) -> Position:
        """There is no head: a new log, or one that lost it. It gets its room first: each try would add a line else."""
        if os.pwrite(self._head, b" " * _HEAD_BYTES, 0) != _HEAD_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{self.directory}/{HEAD}")
        files = [name for name in os.listdir(self._at) if name.endswith(".jsonl") and name[:-6].isdigit()]
        self._turn_to(max((int(name[:-6]) for name in files), default=1))
        if not files:
            what = "the log begins"
            return self._note(START, what)
        size, at = os.fstat(self._file).st_size, START._replace(file=self._number)
        for line in os.pread(self._file, size, 0).split(b"\n")[:-1]:
            whole = line + b"\n"
            if hash_of(whole):
                at = at._replace(number=max(number_of(whole), at.number), hash=hash_of(whole))
        return self._note(at._replace(size=self._cut_torn(size)), NO_HEAD)

    def _recover(self, at: Position, size: int) -> Position:
        """The log does not end where its head says: a writer was killed, or somebody changed the log."""
        if size < at.size:  # its number and hash stay the head's, so that whoever verifies finds what is missing
            what = f"{file_name(at.file)} had {at.size} bytes and has {size}: something was cut off"
            return self._note(at._replace(size=self._cut_torn(size)), what)
        number, last, strange = at.number, at.hash, 0
        for line in os.pread(self._file, size - at.size, at.size).split(b"\n")[:-1]:
            whole = line + b"\n"
            if number_of(whole) == number + 1 and follows(whole, last):
                number, last = number + 1, hash_of(whole)
            else:
                strange += 1
        end = self._cut_torn(size)
        at = Position(at.file, number, end, last)
        if strange:
            at = self._note(at, f"{strange} lines were added to {file_name(at.file)} that are not ours")
        return at if end == size else self._note(at, f"{size - end} bytes of an unfinished line were set aside")

    def _cut_torn(self, size: int) -> int:
        """Set aside what follows the last whole line; the size that is left."""
        tail, start = b"", size
        while start and b"\n" not in tail:
            start = max(0, start - 65536)
            tail = os.pread(self._file, size - start, start)
        torn = tail.rpartition(b"\n")[2]
        end = size - len(torn)
        if torn:
            aside = self._opened(f"torn-{self._number:06d}-{end}", os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(aside, torn)
            finally:
                os.close(aside)
            os.ftruncate(self._file, end)
        return end

    def _note(self, at: Position, what: str) -> Position:
        note = Noted(at=now(), uid=os.getuid(), pid=os.getpid(), what=what)
        data, after = chained([note], at)
        self._write(data, at.size)
        self._set_head(after)
        return after

    def _write(self, data: bytes, size: int) -> None:
        """All of it, or nothing."""
        try:
            written = os.write(self._file, data)
            while written < len(data):  # the disk is nearly full: the next call says so
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def _set_head(self, at: Position) -> None:
        data = b"%010d %016d %016d %b\n" % (at.file, at.number, at.size, at.hash.encode())
        if os.pwrite(self._head, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{self.directory}/{HEAD}")
        self._last = data, at
