"""A terminal of the run's own, and the person's behind it: keys go in, what is shown comes out, and nothing else.

The command never holds the person's terminal, so it can neither push keys into it nor change its settings. While a run
is interactive the person's terminal is raw, and the run's own gives the keys their meaning. It is put back on every
way out but SIGKILL, where nobody is left who could; `reset` helps then.
"""

import contextlib
import fcntl
import os
import signal
import termios
from collections.abc import Callable
from types import FrameType

from ..model import Screen
from .escapes import Escapes
from .flows import Budget, Change, Copy, Flow

_LFLAG, _CC = 3, 6  # in what tcgetattr gives
_TIOCGSID = 0x5429


class Terminal:
    """Between the person's terminal and the run's. `send` gives the command a signal; `end` ends the run."""

    def __init__(self, screen: Screen, send: Callable[[int], None], end: Callable[[], None]) -> None:
        self._is_interactive = screen.is_interactive
        self._unfiltered = screen.unfiltered
        self._send, self._end = send, end
        self._outer = next(fd for fd in range(3) if screen.mask >> fd & 1)
        self._screen = next(fd for fd in (1, 2, 0) if screen.mask >> fd & 1)
        self._inner = -1
        self._keys: Copy | None = None
        self._saved: list[object] | None = None
        self._handlers: dict[int, object] = {}

    def attach(self, inner: int, failed: list[OSError], budget: Budget) -> list[Flow]:
        """The run's terminal is there: begin to move bytes."""
        self._inner = inner
        os.set_blocking(inner, False)
        change: Change = bytes if self._unfiltered else Escapes(strict=not self._is_interactive)
        if not self._is_interactive:
            change = _joined(change)
        flows: list[Flow] = [Copy(os.dup(inner), os.dup(self._screen), failed, True, budget, change)]
        if self._is_interactive:
            self._keys = Copy(os.dup(self._outer), os.dup(inner), failed, False, change=self._typed, is_ours=True)
            flows.append(self._keys)
            self._catch(signal.SIGTSTP, self._on_stop)
            self._catch(signal.SIGCONT, self._on_continue)
        self._catch(signal.SIGWINCH, self._on_resize)
        self.look()
        return flows

    def _catch(self, number: int, handle: Callable[[int, FrameType | None], None]) -> None:
        with contextlib.suppress(ValueError):  # not the main thread: then somebody else has the signals
            self._handlers[number] = signal.signal(number, handle)

    def look(self) -> None:
        """Take the keyboard when it is ours to take, which it is not in the background."""
        if not self._is_interactive:
            return
        is_ours = self._is_in_front()
        if self._keys is not None:
            self._keys.is_paused = not is_ours
        if is_ours and self._saved is None:
            self._saved = termios.tcgetattr(self._outer)
            self._set(raw(self._saved))
            self._on_resize()

    def _is_in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self._outer) == os.getpgrp()
        except OSError:  # of another session: whoever handed it to us is at it
            return True

    @property
    def is_waiting(self) -> bool:
        """Whether it is in the background, and has to look again."""
        return self._is_interactive and self._saved is None and self._inner >= 0

    def _set(self, settings: list[object]) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))  # else it would stop us in the background
        try:
            termios.tcsetattr(self._outer, termios.TCSANOW, settings)  # type: ignore[arg-type]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def restore(self) -> None:
        """Give the terminal back as it was. Answers that it was asked for and nobody read are not for the shell."""
        saved, self._saved = self._saved, None
        if saved is not None:
            with contextlib.suppress(termios.error):  # it has gone: its window was closed
                self._set(saved)
                termios.tcflush(self._outer, termios.TCIFLUSH)

    def _on_resize(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._outer, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self._inner, termios.TIOCSWINSZ, size)

    def _typed(self, data: bytes) -> bytes:
        """Keys on their way. The one that suspends is ours where nobody inside could be suspended by it."""
        key = self._suspend_key()
        before, found, after = data.partition(key) if key else (data, b"", b"")
        if not found:
            return data
        with contextlib.suppress(OSError):
            os.write(self._inner, before)
        self.suspend()
        return after

    def type_in(self, keys: bytes) -> bool:
        """Keys for the command, if it has a keyboard."""
        if not self._is_interactive or self._inner < 0:
            return False
        os.write(self._inner, keys)
        return True

    def _suspend_key(self) -> bytes:
        """The key, if the command itself is in the foreground. A shell inside sees to its own jobs; and a program that
        leads its session is an orphan to the kernel, which does not stop it by key."""
        settings = termios.tcgetattr(self._inner)
        if not settings[_LFLAG] & termios.ISIG:
            return b""
        try:
            leader = int.from_bytes(fcntl.ioctl(self._inner, _TIOCGSID, bytes(4)), "little")
        except OSError:  # it is no session's any more, as when the command has just ended
            return b""
        key: bytes = settings[_CC][termios.VSUSP]
        return key if os.tcgetpgrp(self._inner) == leader and key != b"\0" else b""

    def suspend(self, alone: bool = False) -> None:
        """Stop the command and ourselves, with our group if not `alone`, until somebody continues us."""
        self._send(signal.SIGSTOP)
        self.restore()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid() if alone else 0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self.look()
        self._send(signal.SIGCONT)

    def stopped(self) -> None:
        """The command has stopped itself, as who types its key would have it; so whoever started us hears of it.
        In the background that may be who ends us in time, as `timeout` does, and goes on."""
        if signal.SIGTSTP in self._handlers:
            self.suspend(alone=not self._is_in_front())

    def _on_stop(self, *_: object) -> None:
        self.suspend()

    def _on_continue(self, *_: object) -> None:
        """What we have set is left as it is, unless somebody has set it meanwhile: to set it loses what was typed. We
        may be told late, when `suspend` has looked already."""
        try:
            if self._saved is not None and termios.tcgetattr(self._outer) != raw(self._saved):
                self._saved = None
            elif not self._is_in_front():
                self.restore()
            self.look()
        except termios.error:  # it has gone, by which one is continued, too: nobody is at it any more
            self._end()

    def close(self) -> None:
        """Put everything back."""
        self.restore()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._handlers = {}
        if self._inner >= 0:
            os.close(self._inner)
            self._inner = -1


def _joined(change: Change) -> Change:
    """The person's terminal, when it is not raw, ends lines by itself, and need not be told twice."""
    return lambda data: change(data).replace(b"\r\n", b"\n")


def raw(settings: list[object]) -> list[object]:
    """Settings with which every key comes through as it is, and every byte is shown as it is."""
    iflag, oflag, cflag, lflag, *speeds, cc = settings
    assert isinstance(iflag, int)
    assert isinstance(oflag, int)
    assert isinstance(cflag, int)
    assert isinstance(lflag, int)
    assert isinstance(cc, list)
    iflag &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR
        | termios.ICRNL | termios.IXON
    )  # fmt: skip
    oflag &= ~termios.OPOST
    cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    changed = [*cc]
    changed[termios.VMIN], changed[termios.VTIME] = 1, 0
    return [iflag, oflag, cflag, lflag, *speeds, changed]
