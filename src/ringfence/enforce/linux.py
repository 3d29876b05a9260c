"""Launching a plan, and waiting for what becomes of it."""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all, in half a millisecond
import _socket  # what `socket` adds is not needed here, and costs the hot path
import contextlib
import errno
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..model import Ending, Exited, LaunchError, Observe, Observed, Plan, Signalled, Step, StepKind
from . import enactor, process, wire
from .process import GRACE, PIPE, Process, Streams, TimeoutExpired, is_silent, open_pidfd, reap, sealed, shut
from .streams import Pumps
from .wire import encode_step

if TYPE_CHECKING:  # only where there are limits, or a terminal
    from .cgroup import Group
    from .flows import Sink
    from .observe import Observer
    from .standby import Begun, Nursery, Standby
    from .supervise import Supervisor
    from .terminal import Terminal
    from .watch import Watch


class Launch:
    """A living process tree. A context manager; leaving it ends the tree."""

    # Defaults for what most runs never set: to set each of them in every run would cost something.
    was_standby = False
    was_told = False  # somebody asked for its end, or for another signal
    has_ended = False  # the warden has said so
    group: "Group | None" = None
    seen: _socket.socket | None = None  # where the warden tells what it sees, until somebody listens
    home: "Nursery | None" = None  # where a warden is given back that goes on
    on_seen: Callable[[Observed], None] | None = None  # told of what the warden tells, as it comes
    needs = -1  # another process, whose end is the run's too
    own_steps: Callable[[], tuple[Step, ...]] | None = None  # those of the plan, where it is one for a standby
    on_paused: Callable[[int], None] | None = None  # given the socket on which calls wait for an answer
    supervisor: "Supervisor | None" = None  # who moves the streams and watches
    _terminal: "Terminal | None" = None
    _watch: "Watch | None" = None
    _observer: "Observer | None" = None
    _records = b""
    _all_told = False
    is_quiet = False  # the warden has had nothing to answer, and the next command's process stands by
    is_plain = False  # there is nothing to move and nothing to watch: it is given a command and its end is heard
    begun: "Begun | None" = None  # who knows whether it has, where no record says so
    copies: Sequence[tuple[int, int, bool]] = ()  # what we move between descriptors: source, sink, is output

    def __init__(self, process: Process, status: int, plan: Plan) -> None:
        self.process = process
        self.plan = plan
        self.failed: list[OSError] = []  # what stopped one of them before its end
        self.heard = bytearray()  # the end of what it wrote, where that passed us
        self._status = status
        _lifelines.add(status)

    def __enter__(self) -> "Launch":
        return self

    def __exit__(self, *_error: object) -> None:
        if self.is_plain and self.is_quiet and self._is_given_back():
            return
        if self.process.returncode is None:
            self.end()
        if self._terminal is not None:
            self._terminal.close()
        if self._observer is not None:
            self._observer.close()
        if self.supervisor is not None:
            self.supervisor.close()
        if self.needs >= 0:
            os.close(self.needs)
        for source, sink, _ in self.copies:
            os.close(source)
            os.close(sink)
        self.copies = ()
        self.process.close()
        if not self._is_given_back():
            self._let_go()
            if self.seen is not None:
                self.seen.close()
        if self.group is not None:
            self.group.close()
        self.home = self.begun = None  # who supervised it knows us, and so it would be kept

    def _is_given_back(self) -> bool:
        """Whether the warden goes on, and its nursery has it and its channels again."""
        if self.home is None or self.seen is None:
            return False
        if not self.is_quiet:
            self.home.lose()
            return False
        with process.sending:  # what another thread tells meanwhile reaches this command or nobody
            status, self._status = self._status, -1
            home, channel = self.home, self.seen
        if home is not None and home.take_back(self.process.pid, status, channel):
            self.seen = None
            return True
        self._status = status
        return False

    def _let_go(self) -> None:
        """Close the status channel, which is the warden's lifeline too: it ends, and everything with it."""
        with process.sending:
            status, self._status = self._status, -1  # first: a signal handler of ours may come in between
            if status < 0:
                return
            if self.plan.has_warden and not self.has_ended:
                shut(status)
            _lifelines.discard(status)
            os.close(status)

    def signal(self, number: int) -> None:
        """Send a signal to the command, and to its group when it has one of its own."""
        if not self.plan.has_warden:
            self.process.send(number, group=self.plan.is_detached)
        elif not self.process.poll():
            self.was_told = True
            with process.sending, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has just ended
                self.home = None  # what is told now must not reach the next command
                if self._status >= 0:
                    os.write(self._status, bytes((number,)))

    def forward(self, number: int) -> None:
        """Pass a signal on. At a terminal its keys have reached the command already, for it is in our own group. One
        that has stopped hears it only when it goes on."""
        if self.plan.is_detached or number not in (signal.SIGINT, signal.SIGQUIT):
            self.signal(number)
            self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end."""
        self.forward(signal.SIGTERM)

    def kill(self) -> None:
        """End it now, and with a warden everything in the run."""
        self.home, self.was_told = None, True
        if not self.plan.has_warden:
            self.signal(signal.SIGKILL)
        elif self.process.is_child:
            self._let_go()
        else:
            with process.sending:
                if self._status >= 0:
                    shut(self._status, _socket.SHUT_WR)  # what is left to read says when it is over

    def end(self) -> None:
        """SIGTERM, and SIGKILL for what is left after a moment."""
        self.terminate()
        try:
            self.outlast(GRACE)
        except (TimeoutExpired, OSError):  # or there is no descriptor left to wait with
            self.kill()
            self.outlast()

    def outlast(self, timeout: float | None = None) -> None:
        """Wait until all of the run is gone; no stream is moved and no limit watched meanwhile."""
        if self.process.is_child:
            self.process.wait(timeout)
        if self.process.returncode is not None:
            return
        until = None if timeout is None else time.monotonic() + timeout
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        while self.process.returncode is None:
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            if not poller.poll(left):
                raise TimeoutExpired
            self.read_status()

    def end_with(self, pid: int) -> None:
        """Have the run end when another process does."""
        self.is_plain, self.needs = False, open_pidfd(pid)
        if self.needs < 0:
            raise LaunchError("gate", "has ended", "run it again")

    def supervise(
        self,
        sink: "Sink | None" = None,
        data: bytes = b"",
        timeout: float | None = None,
        output: int | None = None,
        finish: bool = True,
    ) -> "Supervisor":
        """Who moves the streams and watches. `sink` is given what is captured, `output` is the most of it; `finish`
        closes the input after `data`."""
        from .flows import Budget
        from .supervise import Supervisor, flows_of

        if self.plan.observe > Observe.REFUSALS:  # else the channel holds what there is until the end
            self._listen()
        budget = Budget(output)
        flows = flows_of(self, sink, data, finish, budget)
        self.process.pipes, self.copies = Process.pipes, ()  # the flows close them
        self.supervisor = Supervisor(self, flows, budget, timeout, self.watched())
        return self.supervisor

    def watched(self) -> "Watch | None":
        """Who counts what it uses, where that has a limit."""
        if self.plan.limits and self._watch is None:
            from .watch import Watch

            self._watch = Watch(self.process.pid, self.plan.limits, self.group, 2 if self.plan.has_warden else 0)
        return self._watch

    def wait(
        self, timeout: float | None = None, data: bytes = b"", sink: "Sink | None" = None, output: int | None = None
    ) -> tuple[Ending, bytes | None, bytes | None]:
        """Wait for the end; what was captured, and not given to `sink`, comes with it."""
        good = self._hear_good() if self.is_plain and timeout is None else None
        if good is not None:
            return good, None, None
        plan = self.plan
        is_bare = timeout is None and not self.copies and not plan.limits and self.needs < 0
        is_bare = is_bare and not (plan.screen.mask or plan.observe > Observe.REFUSALS or plan.asks)
        if is_bare and not any(fd is not None for fd in self.process.pipes):
            if plan.has_warden:
                self._hear_out()
            self.outlast()
            reap()
            return self.ending(), None, None
        captured = [None if fd is None or sink else bytearray() for fd in self.process.pipes]

        def keep(number: int, data: bytes) -> None:
            held = captured[number]
            if held is not None:
                held += data

        supervisor = self.supervise(sink or keep, data, timeout, output)
        from .supervise import drive

        drive(supervisor)
        _, out, err = (None if held is None else bytes(held) for held in captured)
        return self.ending(), out, err

    def status_fd(self) -> int:
        """Where records still come from, or -1."""
        return -1 if self._all_told else self._status

    def _hear_good(self) -> Ending | None:
        """How it ended, if the two records of an ordinary run (begun, ended) are all that is told; else None."""
        data = self._hear(wire.GOOD.size if self.begun is None else wire.RECORD.size)
        if self.begun is not None and data[:4] == wire.END and (data[12:] == wire.GOES_ON or self.begun.is_told()):
            data, self.begun = wire.BEGUN + data, None
        if len(data) == wire.GOOD.size:
            ready, _, _, _, ended, number, has_exited, goes_on = wire.GOOD.unpack(data)
            if ready == wire.READY and ended == wire.ENDED:
                self._records, self.has_ended, self.is_quiet = data, True, goes_on == 1
                self.process.leave()
                return Exited(number) if has_exited else Signalled(number)
        self._tell(data)
        return None

    def _look_whether_begun(self) -> None:
        if self.begun is not None and self.begun.is_told():
            self._records, self.begun = wire.BEGUN + self._records, None

    def _hear_out(self) -> None:
        """Take records until nobody is left; what comes with a descriptor comes before them."""
        if self.plan.observe and self._observer is None and self.seen is None:
            self.read_status()
        while self.process.returncode is None and not self._all_told:
            self._tell(self._hear(wire.RECORD.size if self._records else wire.GOOD.size))

    def _hear(self, size: int) -> bytes:
        """So many bytes of records, or fewer at the end; a single record always comes whole."""
        try:
            if size == wire.RECORD.size:
                return os.read(self._status, size)
            channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, self._status)
            try:
                return channel.recv(size, _socket.MSG_WAITALL)
            finally:
                channel.detach()
        except ConnectionResetError:  # a signal that the warden did not read any more: the records came before
            return b""

    def read_status(self) -> None:
        """Take what records there are."""
        try:
            is_handed = self.plan.screen.mask or self.plan.observe or self.plan.asks
            self._tell(self._receive() if is_handed else os.read(self._status, 256))
        except ConnectionResetError:  # as above
            self._tell(b"")

    def read_to_end(self) -> None:
        """Take every record of a run that is over."""
        while not self._all_told and not self.has_ended and self._status >= 0:
            self.read_status()

    def _tell(self, data: bytes) -> None:
        """Take in records; no bytes mean that there will be no more."""
        self._all_told = not data
        self._records += data if data[:1] != wire.SEEN or len(data) > wire.RECORD.size else b""
        self.has_ended = wire.ENDED in self._records[:: wire.RECORD.size]  # a record begins with its tag
        if self.supervisor is not None and wire.STOPPED in data[:: wire.RECORD.size] and not self.has_ended:
            self.supervisor.stop()
        is_over = (self.has_ended and self.group is None) or (self._all_told and not self.process.is_child)
        if is_over and self.process.returncode is None:
            # Nobody is left. The warden's own end, and that of its namespaces, takes longer, and matters to nobody.
            self.process.leave()

    def _receive(self) -> bytes:
        """Records, and what comes with some of them: the other end of the run's terminal, and where the warden tells
        what it sees."""
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, self._status)
        try:
            data, rights, _, _ = channel.recvmsg(256, 64, _socket.MSG_CMSG_CLOEXEC)
        finally:
            channel.detach()
        for _level, _kind, given in rights:
            (inner,) = struct.unpack("i", given[:4])
            if data[-wire.RECORD.size] == wire.OBSERVED:  # nothing is read beyond a record that a descriptor comes with
                self.seen = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, inner)
                self._listen()
                continue
            if data[-wire.RECORD.size] == wire.PAUSED and self.on_paused is not None:
                self.on_paused(inner)
                continue
            if self.supervisor is None or self._terminal is not None:
                os.close(inner)
                continue
            from .terminal import Terminal

            self._terminal = Terminal(self.plan.screen, self.signal, self.supervisor.end)
            self.supervisor.add_terminal(self._terminal, inner)
        return data

    def _listen(self) -> None:
        """Listen to what the warden tells, if it does."""
        if self.seen is not None:
            from .observe import Observer

            self._observer, self.seen = Observer(self.seen, self.plan.observe, self.on_seen), None

    @property
    def is_ready(self) -> bool:
        """Whether the command is known to run, or to have run."""
        self._look_whether_begun()
        return any(record[0] == wire.READY for record in wire.read_records(self._records)[0])

    @property
    def denied(self) -> list[int]:
        """The rows of the warden's table that somebody asked for."""
        if wire.DENIED not in self._records[:: wire.RECORD.size]:
            return []
        return [record[1] for record in wire.read_records(self._records)[0] if record[0] == wire.DENIED]

    def observed(self) -> tuple[list[Observed], int]:
        """What the warden told of the accesses that it answered, once the run has ended; and how many it could not."""
        lost = 0
        if wire.LOST in self._records[:: wire.RECORD.size]:
            lost = sum(record[1] for record in wire.read_records(self._records)[0] if record[0] == wire.LOST)
        if self.seen is not None and (self.is_quiet or is_silent(self.seen)):  # most often
            return [], lost
        self._listen()
        if self._observer is None:
            return [], lost
        return self._observer.finish(), lost + self._observer.lost

    def ending(self) -> Ending:
        """How it ended, once it has."""
        if self.failed:
            hint = "the command ran; only what it wrote is not all there"
            raise LaunchError("output", f"cannot be passed on: {self.failed[0].strerror}", hint)
        if self.supervisor is not None and self.supervisor.crossed is not None:
            return self.supervisor.crossed
        self.read_to_end()
        found = self._ending()
        return found if self._watch is None else self._watch.at_the_end(found)

    def opened(self, count: int) -> tuple[int, ...]:
        """The sockets that were opened inside, of which the plan has so many; none when it did not come so far."""
        if not count:  # without a warden the channel is a pipe, and nothing is opened
            return ()
        from .opened import sockets_of

        fds, told = sockets_of(self._status, count)
        if len(fds) != count:
            self._records += told  # it failed, and `_ending` says at what
            self._all_told = not told
        return fds

    def _ending(self) -> Ending:
        """What the status channel and the exit code say together."""
        self._look_whether_begun()
        if len(self._records) == wire.GOOD.size and self.has_ended:
            first, _, _, _, _, number, has_exited, goes_on = wire.GOOD.unpack(self._records)
            if first == wire.READY:
                # What a tree has used is counted with those whose ends its warden has seen.
                self.is_quiet = goes_on == 1 and self.needs < 0 and not self.plan.limits
                return Exited(number) if has_exited else Signalled(number)
        from .endings import ending_of  # rarely wanted

        plan = self.plan
        if self.was_standby and self.own_steps is not None:
            plan = msgspec.structs.replace(plan, steps=self.own_steps())
        return ending_of(self._records, self.process.returncode or 0, plan, self.was_standby, self.was_told)


_lifelines: set[int] = set()  # the status channels of living launches


def disown() -> None:
    """In a fork of our caller's: let go of the lifelines, or the runs would live as long as the fork."""
    for fd in _lifelines:
        os.close(fd)
    _lifelines.clear()
    enactor.disown()
    process.disown()


def _channel(plan: Plan) -> tuple[int, int]:
    """Where the records come from: a pipe, or with a warden a socket, on which we can tell it something too."""
    if not plan.has_warden and not plan.screen.mask:
        return os.pipe()
    ours, theirs = _socket.socketpair()
    return ours.detach(), theirs.detach()


def _unstarted(error: OSError) -> LaunchError:
    hint = "allow larger files (ulimit -f)" if error.errno == errno.EFBIG else "close some files or processes"
    return LaunchError("enactor", f"cannot be started: {error.strerror}", hint)


def start(
    plan: Plan,
    data: bytes,
    pumped: tuple[int, ...] = (),
    capture: bool = False,
    feed: bool = False,
    standby: "Standby | None" = None,
    group: "Group | None" = None,
) -> Launch:
    """Start the enactor on a plan's steps, or hand them to one that stands by. 0 to 2 are inherited, but for those in
    `pumped`, which we move through pipes; `capture` takes 1 and 2, `feed` gives 0."""
    if standby is not None and not (pumped or capture or feed):  # most often
        try:
            return standby.resume(plan, data)
        except OSError as error:
            standby.close()
            raise _unstarted(error) from None
    pumps = Pumps(pumped, plan.ids)
    taken, streams = PIPE if capture else None, Streams()
    try:
        if pumped or capture or feed:
            files = (PIPE if feed else pumps.file(0), taken or pumps.file(1), taken or pumps.file(2))
            streams.open(files, plan.ids)
        launched = standby.resume(plan, data, streams) if standby else spawn(plan, data, streams, group=group)
    except OSError as error:
        pumps.stop()
        streams.close()
        if standby:
            standby.close()
        raise _unstarted(error) from None
    finally:
        pumps.given()
        streams.given()
    launched.copies = pumps.copies()
    return launched


def spawn(plan: Plan, data: bytes, streams: Streams, *kept: int, group: "Group | None" = None) -> Launch:
    """An enactor with a plan, in a group of its own if there is one."""
    program = enactor.open_enactor()
    lists = group.open_lists() if group is not None else []
    if lists:
        joins = tuple(Step(StepKind.JOIN, "a control group of its own", (fd,)) for fd in lists)
        plan = msgspec.structs.replace(plan, steps=(*joins, *plan.steps))
        data = wire.whole(len(plan.steps), (*map(encode_step, joins), data[wire.HEADER.size :]))
    sealed_plan = sealed(data)
    try:
        read, write = _channel(plan)
        arguments, executable = program.command(sealed_plan, write, ids=plan.ids)
        try:
            process = Process(executable, arguments, (sealed_plan, write, program.fd, *kept, *lists), streams)
            process.leads = plan.is_detached and not plan.has_warden
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
    finally:
        os.close(sealed_plan)
        for fd in lists:
            os.close(fd)
    launched = Launch(process, read, plan)
    launched.group = group
    return launched
