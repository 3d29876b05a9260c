"""What a living run needs while it lives: its streams moved, its clock and its limits watched, its end seen.

A `Supervisor` has no loop. It says which descriptors it waits for and until when, and is told what happened; `drive`
waits by poll, and `start.py` by asyncio. So there is one implementation for both.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all
import contextlib
import os
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..model import Broken, Ending, Exceeded, TimedOut
from .flows import Budget, Copy, Flow, Give, Sink, Take
from .process import GRACE, open_pidfd

if TYPE_CHECKING:
    from .linux import Launch
    from .terminal import Terminal
    from .watch import Watch

DAY = 86400.0  # poll(2) waits for 24 of them at most, and who is woken early looks at the clock
INTERVAL = 0.1  # how often the limits are looked at that nothing else holds
HURRY = 0.5  # the same, once the time is up
MOST_BLIND = 10  # looks, one after the other, that could not be taken


def flows_of(launch: "Launch", sink: Sink | None, data: bytes, finish: bool, budget: Budget) -> list[Flow]:
    """What moves the streams of a launch: what it reads, what is captured, and what passes us between descriptors."""
    feed, *taken = launch.process.pipes
    flows: list[Flow] = [] if feed is None else [Give(feed, data, finish)]
    for number, fd in enumerate(taken, 1):
        if fd is not None:
            flows.append(Take(fd, number, sink or (lambda _number, _data: None), budget))
    for source, target, is_output in launch.copies:
        copy = Copy(source, target, launch.failed, is_output, budget if is_output else None)
        copy.heard = launch.heard if is_output else None
        flows.append(copy)
    return flows


class Supervisor:
    """Watches one launch until it is over."""

    def __init__(
        self, launch: "Launch", flows: list[Flow], budget: Budget, timeout: float | None, watch: "Watch | None"
    ) -> None:
        self.launch = launch
        self.flows = flows
        self.crossed: Ending | None = None  # the limit that ended it
        self._budget = budget
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout
        self._watch = watch if watch is not None and watch.is_needed else None
        self._look_at = None if self._watch is None else time.monotonic()
        self._blind = 0  # how often it could not be looked
        self._kill_at: float | None = None
        self._drain_until: float | None = None
        self._has_ended = False
        self._terminal: Terminal | None = None
        self._wishes: list[tuple[bool, Callable[[], None]]] = []
        self._wake = os.pipe() if launch.plan.asks else None
        self._pidfd = -1
        if launch.process.is_child:
            self._pidfd = open_pidfd(launch.process.pid)
            if self._pidfd < 0:
                self._see_end()

    def add_terminal(self, terminal: "Terminal", inner: int) -> None:
        """The run has a terminal of its own: move bytes between it and the person's."""
        self._terminal = terminal
        made = terminal.attach(inner, self.launch.failed, self._budget)
        for flow in made:
            if isinstance(flow, Copy) and flow.is_output:
                flow.heard = self.launch.heard
        self.flows += made

    def hold(self, is_held: bool, done: Callable[[], None]) -> bool:
        """Move nothing to a terminal or from it, or go on; `done` is called when that is so. From any thread, of a run
        that asks; False: nothing is moved any more."""
        wake = self._wake
        if wake is None:
            return False
        self._wishes.append((is_held, done))
        with contextlib.suppress(OSError):  # it has just ended
            os.write(wake[1], b"\0")
        return True

    def interrupt(self) -> None:
        """What the key does that interrupts: a signal to whoever is in the foreground; from any thread."""
        if self._terminal is None or not self._terminal.type_in(b"\x03"):
            self.launch.signal(signal.SIGINT)

    def stop(self) -> None:
        """The command has stopped itself: what it wrote before is shown, and we stop with it."""
        for flow in self.flows:
            if flow.is_output and flow.wants():
                flow.move(-1, 0)
        if self._terminal is not None:
            self._terminal.stopped()

    def _obey(self) -> None:
        while self._wishes:
            is_held, done = self._wishes.pop(0)
            for flow in self.flows:
                if isinstance(flow, Copy):
                    flow.is_held = is_held
            done()

    @property
    def is_over(self) -> bool:
        """The process has ended and there is no more output."""
        return self._has_ended and not any(flow.is_output and not flow.is_over for flow in self.flows)

    @property
    def input(self) -> Give | None:
        """What gives the command its standard input, if we do."""
        return next((flow for flow in self.flows if isinstance(flow, Give)), None)

    def pause(self, is_paused: bool) -> None:
        """Take no more of what is captured, or go on."""
        for flow in self.flows:
            if isinstance(flow, Take):
                flow.is_paused = is_paused

    def wants(self) -> dict[int, int]:
        """The descriptors to wait for, with their events; 0 is the end alone."""
        found: dict[int, int] = {}
        wake = self._wake[0] if self._wake else -1
        for fd in (self._pidfd, self.launch.status_fd(), -1 if self.crossed else self.launch.needs, wake):
            if fd >= 0:
                found[fd] = select.POLLIN
        for flow in self.flows:
            for fd, events in flow.wants().items():
                found[fd] = found.get(fd, 0) | events
        return found

    def deadline(self) -> float | None:
        """When to call `tick` if nothing happens before."""
        again = time.monotonic() + INTERVAL if self._terminal is not None and self._terminal.is_waiting else None
        times = (self._until, self._kill_at, self._look_at, self._drain_until, again)
        return min((at for at in times if at is not None), default=None)

    def happened(self, fd: int, events: int) -> None:
        """Something did, on one of the descriptors."""
        if fd == self._pidfd:
            self._see_end()
        elif self._wake is not None and fd == self._wake[0]:
            os.read(fd, 64)
            self._obey()
        elif fd == self.launch.status_fd():
            self.launch.read_status()
            if self.launch.process.returncode is not None:
                self._see_end()
        elif fd == self.launch.needs:
            self.cross(Broken("the process that dials for it has ended"))
        else:
            for flow in [flow for flow in self.flows if fd in flow.wants()]:
                flow.move(fd, events)
        if self._budget.is_spent:
            self.cross(Exceeded("output", self._budget.most or 0))

    def tick(self) -> None:
        """The deadline has come."""
        now = time.monotonic()
        if self._terminal is not None and self._terminal.is_waiting:
            self._terminal.look()
        if self._drain_until is not None and now >= self._drain_until:  # somebody who outlived the command holds it
            self._drain_until = now + GRACE
            for flow in self.flows:
                if not flow.held:
                    flow.close()
        if self._watch is not None and self._look_at is not None and now >= self._look_at:
            self._look_at = now + INTERVAL
            found = self._sampled(self._watch)
            if found is not None:
                self.cross(found)
        if self._until is not None and now >= self._until:
            self._until = None
            self.crossed = self.crossed or TimedOut(self._timeout or 0.0)
            self.end(HURRY)
        if self._kill_at is not None and now >= self._kill_at:
            self.kill()

    def _sampled(self, watch: "Watch") -> Ending | None:
        """The limit that is crossed now; or that nobody has seen for a second whether one is."""
        try:
            found = watch.sample()
        except OSError as error:
            self._blind += 1
            return Broken(f"nobody can look at its limits: {error.strerror}") if self._blind >= MOST_BLIND else None
        self._blind = 0
        return found

    def end(self, grace: float = GRACE) -> None:
        """SIGTERM, and SIGKILL for what is left after a moment."""
        if self._kill_at is None and self.launch.process.returncode is None:
            self._kill_at = time.monotonic() + grace
            self.launch.terminate()

    def kill(self) -> None:
        """SIGKILL, now."""
        self._until = self._kill_at = self._look_at = None
        self.launch.kill()

    def cross(self, ending: Ending) -> None:
        """A limit was crossed: the tree ends at once."""
        if self.crossed is None:
            self.crossed = ending
            if not self._has_ended:
                self.kill()

    def _see_end(self) -> None:
        if not self.launch.process.poll():
            return
        self._forget()
        self.launch.read_to_end()  # a short run may be over before we hear of its terminal, which holds what it wrote
        self._until = self._kill_at = self._look_at = None
        self._has_ended = True
        if not self.launch.plan.has_warden:  # with one nobody is left who could write, so the end is certain
            self._drain_until = time.monotonic() + GRACE
        for flow in self.flows:
            if not flow.is_output:
                flow.close()

    def close(self) -> None:
        """Let go of every descriptor."""
        self._forget()
        for flow in self.flows:
            flow.close()
        wake, self._wake = self._wake, None
        for fd in wake or ():
            os.close(fd)

    def _forget(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def drive(supervisor: Supervisor) -> None:
    """Wait until it is over."""
    poller, registered = select.poll(), dict[int, int]()
    try:
        while not supervisor.is_over:
            wanted = supervisor.wants()
            for fd in registered.keys() - wanted.keys():
                poller.unregister(fd)
            for fd, events in wanted.items():
                if registered.get(fd) != events:
                    poller.register(fd, events)
            registered = wanted
            until = supervisor.deadline()
            left = None if until is None else min(max(0.0, until - time.monotonic()), DAY) * 1000
            ready = poller.poll(left)
            if not ready:
                supervisor.tick()
            for fd, events in ready:
                supervisor.happened(fd, events)
            if until is not None and time.monotonic() >= until:
                supervisor.tick()
    finally:
        supervisor.close()
