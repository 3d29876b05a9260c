"""Asks the person at the terminal that a run has, while the run waits.

The command never holds this terminal; what it writes passes the supervisor. While a question is open that moves
nothing, so nothing is written over the question, and no key that was meant for the command answers it. A word that only
this terminal was shown, before the command began, is in every question: whoever imitates one does not know it.
"""

import os
import select
import signal
import socket
import termios
import threading
from collections.abc import Callable

from ..airlock.lines import Lines
from ..enforce import Launch
from .desk import Desk

# End whatever sequence the command has begun; no attributes, plain letters, a cursor to be seen; a new line.
CLEAN = b"\x18\x1b\\\x1b[0m\x1b(B\x0f\x1b[?25h\r\n"
INTERRUPT = b"\x03"
AGAIN_SECONDS = 1.0
_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6


def prompter() -> Callable[[socket.socket, Launch], None] | None:
    """Who asks at our terminal, if there is one; says the word that its questions carry."""
    try:
        tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    mark = os.urandom(2).hex()
    os.write(tty, f"ringfence: every question of ours carries the word {mark}\n".encode())

    def prompt(end: socket.socket, launched: Launch) -> None:
        _Prompt(tty, mark, end, launched).run()

    return prompt


class _Prompt:
    def __init__(self, tty: int, mark: str, end: socket.socket, launched: Launch) -> None:
        self._tty, self._lines, self._launched = tty, Lines(end, ""), launched
        self._desk = Desk(mark)
        self._workspace = ""
        self._before: list[object] | None = None  # the terminal's settings, while it is ours
        self._rest = 0.0

    def run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._give_back()

    def _turn(self) -> bool:
        """Wait for something, and see to it; whether there is more to come."""
        wanted = [self._lines.fileno(), *([self._tty] if self._before is not None else [])]
        wait = self._rest or self._desk.wait() if self._desk.open and self._before is None else None
        ready = select.select(wanted, [], [], wait)[0]
        if self._lines.fileno() in ready and not self._hear():
            return False
        if self._before is not None and self._tty in ready:
            self._read()
        elif self._before is None and self._desk.open and (not ready or not (self._rest or self._desk.wait())):
            self._rest = 0.0
            if os.tcgetpgrp(self._tty) == os.getpgrp():
                self._take()
                self._write(self._desk.show())
            else:  # in the background it is somebody else's terminal
                self._rest = AGAIN_SECONDS
        return True

    def _hear(self) -> bool:
        said = self._lines.read()
        for line in said or ():
            if line.get("state") == "hello":
                self._workspace = str(line.get("workspace"))
            told = self._desk.hear("", self._workspace, line)
            if told and self._before is not None:
                self._write(told + "\n")
                self._go_on()
        return said is not None

    def _go_on(self) -> None:
        """Show what is left, or give the terminal back."""
        if self._desk.shown or (self._desk.open and not self._desk.wait()):
            self._write(self._desk.show())
        else:
            self._give_back()

    def _read(self) -> None:
        text = os.read(self._tty, 4096)
        if INTERRUPT in text:
            self._desk.shown = []
            self._rest = AGAIN_SECONDS  # whoever does not mind is asked about again
            self._give_back()
            if self._launched.supervisor is not None:
                self._launched.supervisor.interrupt()
            return
        answers = self._desk.typed(text.decode("utf-8", "replace") if text else "d")
        for _, line in answers:
            self._lines.send(line)
        if not answers:
            self._write(self._desk.show())

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._tty, data) :]

    # ---- Whose terminal it is ----

    def _take(self) -> None:
        self._hold(True)
        self._before = termios.tcgetattr(self._tty)
        self._set(_asking(self._before), termios.TCSAFLUSH)  # what was typed before was for the command
        os.write(self._tty, CLEAN)

    def _give_back(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            self._set(before, termios.TCSAFLUSH)
            self._hold(False)

    def _set(self, settings: list[object], when: int) -> None:
        old = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
        try:
            termios.tcsetattr(self._tty, when, settings)  # type: ignore[arg-type]
        except termios.error:
            pass  # it is gone
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def _hold(self, is_held: bool) -> None:
        """Have the supervisor move nothing, or go on; back when it does so."""
        done, supervisor = threading.Event(), self._launched.supervisor
        if supervisor is not None and supervisor.hold(is_held, done.set):
            done.wait(5.0)


def _asking(settings: list[object]) -> list[object]:
    """Whole lines, echoed, and no key that sends a signal: the one that would interrupt ends a line at once instead."""
    found = [*settings]
    cc = settings[_CC]
    assert isinstance(cc, list)
    found[_IFLAG] = termios.ICRNL
    found[_OFLAG] = termios.OPOST | termios.ONLCR
    found[_LFLAG] = termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK
    changed = [*cc]
    changed[termios.VEOL] = INTERRUPT
    found[_CC] = changed
    return found
