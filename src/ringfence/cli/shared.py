"""0 to 2, which whoever started us shares with the command: as they were when the command has ended.

A terminal on standard input alone is the person's own, for another program may read from it (`| less`). So the command
has it for reading only: what it wrote there would pass nobody who takes out what reaches beyond the screen, and a
terminal that is asked something answers by typing.
"""

import _signal as signal  # type: ignore[import-not-found]  # as in run.py
import fcntl
import os
from typing import Any

from ..model import Screen
from .options import say

_EXCLUSIVE = 0x80045440  # TIOCGEXCL


class Shared:
    """A context: the streams of one run that has this screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._terminal: _Terminal | None = None

    def __enter__(self) -> "Shared":
        if not (self._screen.mask & 1 or self._screen.unfiltered) and os.isatty(0):
            self._terminal = _Terminal()
            _only_read()
        self._flags = [fcntl.fcntl(fd, fcntl.F_GETFL) if _is_open(fd) else -1 for fd in range(3)]
        return self

    def __exit__(self, *_error: object) -> None:
        """One that no longer blocks fails the next command that writes to it."""
        for fd, flags in enumerate(self._flags):
            if flags >= 0 and _is_open(fd) and fcntl.fcntl(fd, fcntl.F_GETFL) != flags:
                fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        if self._terminal is not None:
            self._terminal.give_back()


class _Terminal:
    """The settings of the one on standard input: to read from it is enough to change them."""

    def __init__(self) -> None:
        self._before = _settings()

    def give_back(self) -> None:
        import termios

        if not os.isatty(0):  # it has gone
            return
        kept = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # in the background we would be stopped
        try:
            modes, size, is_exclusive = self._before
            now = _settings()
            if not is_exclusive and now[2]:
                fcntl.ioctl(0, termios.TIOCNXCL)
            if now[1] != size:
                fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            if now[0] != modes:
                termios.tcsetattr(0, termios.TCSANOW, modes)
            termios.tcflow(0, termios.TCOON)
        except (OSError, termios.error) as error:
            say(f"ringfence: the terminal's settings could not be given back: {error}; `reset` helps")
        finally:
            signal.signal(signal.SIGTTOU, kept)


def _settings() -> tuple[list[Any], bytes, bool]:
    import termios

    size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
    try:
        is_exclusive = any(fcntl.ioctl(0, _EXCLUSIVE, bytes(4)))
    except OSError:
        is_exclusive = False  # nobody can say, so it is let go of
    return termios.tcgetattr(0), size, is_exclusive


def _only_read() -> None:
    """Standard input, opened again."""
    if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return
    try:
        # By this name it is the one we have, though its own may be another's here, as in a container.
        path = "/proc/self/fd/0" if os.path.exists("/proc/self/fd/0") else os.ttyname(0)
        fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        say(f"ringfence: not given: the terminal on standard input, for reading alone: {error.strerror}")
        fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(fd, 0)
    os.close(fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
