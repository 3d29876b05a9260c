"""What runs now, written down before it runs: a run whose ringfence is killed has its event all the same.

    <directory of the log>/running-*   of one process: locked while it lives, with a place for each of its runs

A place says which run it is, and since when; then, while the command runs, the events that are known so far. When the
run's own events stand in the log it is emptied, or the next run's is written over it; it holds them if they could not
be written. A file that nobody holds any more is a process's that has ended: of what is left in it, and not in the log,
somebody writes the events, and then removes it.
"""

import _thread
import atexit
import fcntl
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

MOST_SWEPT = 128  # files at once
SIZE = 4096  # of a place: a page, so that it is written whole
_FIRST = len(b"0123456789abcdef 0123456789012345678\n")
_EMPTY = b"\0"


class Left(msgspec.Struct, frozen=True):
    """A run whose process has ended: which, since when (nanoseconds), and what was known of it, a line each."""

    run: str
    begun: int
    lines: tuple[bytes, ...]


class _Held:
    """The file of this process."""

    def __init__(self, directory: str) -> None:
        self.fd, self.path = _made(directory)
        self.busy: set[int] = set()
        self.free: list[int] = []  # whoever has one out of here has it alone
        self._over: set[int] = set()  # of these, the ones that still name a run that is over
        self._more = itertools.count()

    def take(self) -> int:
        try:
            number = self.free.pop()
        except IndexError:
            number = next(self._more)
        self.busy.add(number)
        self._over.discard(number)
        return number

    def give_back(self, number: int) -> None:
        """While others run it is left as it is, for the next will be written over it: a call less for each of many.
        Nothing is left when nobody runs."""
        self.busy.discard(number)
        if not (self.busy or self._over):  # nobody runs, and nobody else's is left: most often, one after the other
            _write(self.fd, _EMPTY, number * SIZE)
            self.free.append(number)
            return
        self._over.add(number)
        self.free.append(number)
        if not self.busy:
            self._empty()

    def _empty(self) -> None:
        for number in list(self._over):
            try:
                self.free.remove(number)
            except ValueError:
                continue  # a run has it again, or another thread empties it
            self._over.discard(number)
            _write(self.fd, _EMPTY, number * SIZE)
            self.free.append(number)


class Place(msgspec.Struct, frozen=True):
    """Of one run."""

    held: _Held
    number: int

    def say(self, lines: Sequence[bytes]) -> None:
        """What is known of it."""
        text = _fitting(lines)
        if text != _EMPTY:
            _write(self.held.fd, text, self.number * SIZE + _FIRST)

    def end(self) -> None:
        """Its events are in the log."""
        self.held.give_back(self.number)


def _fitting(lines: Sequence[bytes]) -> bytes:
    """The lines, but for those from the first on that does not fit, and what ends them."""
    text = b"\n".join((*lines, _EMPTY))
    while len(text) > SIZE - _FIRST:
        lines = lines[:-1]
        text = b"\n".join((*lines, _EMPTY))
    return text


_held: dict[str, _Held] = {}
_mutex = _thread.allocate_lock()


def is_busy(directory: str) -> bool:
    """Whether other runs of this process are under way."""
    held = _held.get(directory)
    return held is not None and bool(held.busy)


def begin(directory: str, run: str, lines: Sequence[bytes] = ()) -> Place | None:
    """A place for a run that is about to begin, with what is known of it already; none where nothing can be written,
    which is said at its end."""
    try:
        held = _held.get(directory) or _hold(directory)
    except OSError:
        return None
    place = Place(held, held.take())
    try:
        os.pwrite(held.fd, b"%b %019d\n%b" % (run.encode(), time.time_ns(), _fitting(lines)), place.number * SIZE)
    except OSError:
        place.end()
        return None
    return place


def _hold(directory: str) -> _Held:
    with _mutex:
        if directory not in _held:
            _held[directory] = _Held(directory)
        return _held[directory]


def _write(fd: int, data: bytes, at: int) -> None:
    try:
        os.pwrite(fd, data, at)
    except OSError:
        pass  # a full disk: that the run is there is written already, and its end is told in the outcome


def _made(directory: str) -> tuple[int, str]:
    """A new file, locked. Who sweeps at the same moment may have taken it for one that was left."""
    os.makedirs(directory, 0o700, exist_ok=True)
    while True:
        path = f"{directory}/running-{os.getpid()}-{os.urandom(4).hex()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if _is_locked(fd):
            return fd, path
        os.close(fd)


def _is_locked(fd: int) -> bool:
    """Whether it is ours now, and still there."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(fd).st_nlink == 1


@atexit.register
def _leave() -> None:
    """Our file goes with us, unless a run is left in it."""
    for held in _held.values():
        if not held.busy:
            try:
                os.unlink(held.path)
            except OSError:
                pass  # whoever sweeps next removes it
    _held.clear()


def _disown() -> None:
    """In a fork of our caller's: the file is its parent's."""
    global _mutex
    _mutex = _thread.allocate_lock()
    for held in _held.values():
        os.close(held.fd)
    _held.clear()


os.register_at_fork(after_in_child=_disown)


def sweep(directory: str, tell: Callable[[Sequence[Left]], None]) -> None:
    """Have everything told that processes left which have ended, each once: what is told is removed."""
    try:
        names = [name for name in os.listdir(directory) if name.startswith("running-")]
    except OSError:
        return  # there is none yet; or it is closed, and then the log beside it is too, which is said
    own, swept, found = {held.path for held in _held.values()}, dict[int, str](), list[Left]()
    try:
        for path in (f"{directory}/{name}" for name in names):
            if path in own:
                continue
            try:
                fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue  # somebody else has swept it
            if not _is_locked(fd):
                os.close(fd)
                continue
            swept[fd] = path
            found += _left(fd)
            if len(swept) == MOST_SWEPT:
                break  # the others are told by the next
        if found:
            tell(found)
        for path in swept.values():
            os.unlink(path)
    finally:
        for fd in swept:
            os.close(fd)


def _left(fd: int) -> Iterator[Left]:
    at = 0
    while data := os.pread(fd, SIZE, at):
        at += SIZE
        first, *lines = data.partition(_EMPTY)[0].split(b"\n")
        run, _, begun = first.partition(b" ")
        if len(run) == 16 and begun.isdigit():
            yield Left(run.decode("ascii", "replace"), int(begun), tuple(line for line in lines if line))
