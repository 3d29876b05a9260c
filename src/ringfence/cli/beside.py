"""`ringfence run` inside a run: a run beside that one is asked for (`ask`), and carried out outside (`serve`).

Both halves are the same command: the one inside waits and passes signals on, the one outside has its streams and says
what it would have said. Where nobody listens, or a sibling would not see the directory, the inner one goes on alone.
"""

import _signal as signal  # type: ignore[import-not-found]  # as in run.py
import _socket
import _thread
import contextlib
import os
import select
import struct
import sys
import time
from collections.abc import Callable
from types import FrameType

import msgspec

from .. import enforce, siblings
from ..beside import ELSEWHERE, ENDED, SIZE, STARTED, Answer, Asked, Bound, Elsewhere, receive, request_of, run_beside
from ..enforce import Launch
from ..enforce.streams import fill_closed
from ..keep import Request, environment, forget_all
from ..model import LaunchError, Need, Outcome, Refused, RingfenceError, UsageError
from ..run import check_words, make_request
from ..within import put, reach
from . import guarded
from .options import Values, flags_of, one, say
from .run import FORWARDED, Forwarder, find_screen, hear, tell
from .shared import Shared

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")

SIGNALS = (*FORWARDED, signal.SIGWINCH)
HURRY = 5.0  # seconds for a sibling whose asker is gone
PLANNING = 30.0  # seconds in which the walls of one are made, whatever its policy is
WORK = 5.0  # and so many of a processor's


def ask(values: Values, argv: list[str]) -> int | None:
    """The exit code of a run beside the one we are in; None where there can be none."""
    check_words(argv)
    fill_closed()  # before we open anything: that would be handed over instead
    cwd = os.getcwd()
    link = reach()  # first: whoever serves us begins while we look at our policy
    if link is None:
        return None
    request = make_request(one(values, "--workspace"), cwd, flags_of(values), "--as-root" in values)
    passer = Passer(link)
    as_json, quiet, raw = (f"--{word}" in values for word in ("json", "quiet", "raw-terminal"))
    if not put(link, request, argv, environment(), (0, 1, 2), json=as_json, quiet=quiet, raw=raw):
        return None
    passer.begin()
    return _answer(link)


class Passer:
    """What asks us to end goes to the run beside, once it was asked for."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link
        self._waiting: list[int] | None = []
        self._lock = _thread.allocate_lock()
        hear(SIGNALS, self._handle)

    def _handle(self, number: int) -> None:
        with self._lock:
            if self._waiting is not None:
                self._waiting.append(number)
                return
        with contextlib.suppress(OSError):
            self._link.send(bytes((number,)))

    def begin(self) -> None:
        with self._lock:
            late, self._waiting = self._waiting or [], None
        for number in late:
            self._handle(number)


def _answer(link: _socket.socket) -> int | None:
    try:
        said = link.recv(2, _socket.MSG_WAITALL)
    except OSError:
        said = b""
    if said[:1] == ELSEWHERE:
        return None
    if said[:1] == ENDED and len(said) == 2:
        return said[1]
    raise LaunchError("the run around this one", "has ended, or the run beside it was killed")


def serve(words: list[str]) -> None:
    """Carry out what one asks for. We are a process of its own, and end with it."""
    os._exit(_served(*map(int, words)))


def _served(channel: int, lifeline: int, told: int, places: int, *groups: int) -> int:
    siblings.inherit(places, groups)
    for fd in (channel, lifeline, told, places, *groups):
        os.set_inheritable(fd, False)
    bound = msgspec.json.decode(os.pread(told, os.fstat(told).st_size, 0), type=Bound)
    enforce.probe(bound.ids)  # what can be known before anybody comes
    link = _handed(channel)
    if link < 0:
        return 0
    asker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, link)
    refused = _join(groups)  # first: a question counts for the run that it comes from, and memory for whoever filled it
    try:
        asked, fds = receive(asker, bound.ids[0] if bound.ids else os.geteuid())
    except LaunchError:
        return 1
    asker.settimeout(None)
    directory = fds[3]
    for fd in range(3):
        os.dup2(fds[fd], fd)
        os.close(fds[fd])
    leash = Leash(asker, lifeline, asked.told)
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, WORK, 1.0)  # until it is launched

    def carry_out() -> Outcome:
        if refused is not None:
            raise refused
        request = request_of(bound, asked, directory, find_screen(asked.raw))
        os.close(directory)
        return _carried_out(asked, request, leash)

    try:
        answer = _told(carry_out) if asked.told else _shown(carry_out, asked)
    except Elsewhere:
        answer = ELSEWHERE + b"\0"
    except Exception:  # noqa: BLE001  # whoever asked is told nothing of us
        if leash.is_gone:
            return 1
        answer = _unknown(asked)
    forget_all()  # first: with whoever asked the run around us may end, which waits for nobody long
    with contextlib.suppress(OSError):
        asker.sendall(answer)
    if bound.policy.limits:
        _wait_for_all()
    return 0


def _handed(channel: int) -> int:
    """The other end of whoever we are to serve; our place is ours until we end. -1 when nobody comes any more."""
    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, channel)
    said, rights, _, _ = end.recvmsg(1, _socket.CMSG_SPACE(8), _socket.MSG_CMSG_CLOEXEC)
    end.close()
    return struct.unpack("2i", rights[0][2])[0] if said else -1


def _give_up(_number: int, _frame: FrameType | None) -> None:
    what, hint = "a run beside another one", "fewer rules, or fewer patterns"
    raise LaunchError(what, f"has a policy that takes more than {WORK:g} s of work to be carried out", hint)


def _join(groups: tuple[int, ...]) -> LaunchError | None:
    """Be in the group of the run around us; or why we cannot."""
    if not groups:
        return None
    from ..enforce.cgroup import join

    try:
        join(groups)
    except OSError as error:
        return LaunchError("the control group of the run around this one", f"lets nobody in: {error.strerror}")
    return None


def _carried_out(asked: Asked, request: Request, leash: "Leash") -> Outcome:
    with Shared(request.screen):
        outcome = run_beside(request, asked, leash.started)
    # What was wanted only is told by what stands at paths that whoever asks may have named and not see: links, say.
    told = tuple(gap for gap in outcome.gaps if gap.need is Need.REQUIRED)
    return msgspec.structs.replace(outcome, gaps=told)


def _shown(carry_out: Callable[[], Outcome], asked: Asked) -> bytes:
    """The answer to a command, which has the streams: what it would have said was said."""

    def show() -> int:
        outcome = carry_out()
        if asked.json:
            from .render import outcome_document

            print(outcome_document(outcome), flush=True)
        elif isinstance(outcome.ending, Refused) or not asked.quiet:
            tell(outcome)
        return outcome.exit_code

    return ENDED + bytes((guarded(show, asked.json) & 255,))


def _told(carry_out: Callable[[], Outcome]) -> bytes:
    """The answer to a program."""
    code, answer = 125, b""
    try:
        outcome = carry_out()
        code = outcome.exit_code
        try:
            answer = msgspec.msgpack.encode(Answer(outcome))
        except UnicodeEncodeError:  # it names a path that cannot be written down
            answer = msgspec.msgpack.encode(Answer(Outcome(outcome.ending, (), (), outcome.seconds)))
    except RingfenceError as error:
        answer = _wrong(type(error).__name__, error.place, error.what, error.hint)
    except OSError as error:
        answer = _wrong("LaunchError", "system", error.strerror or str(error))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in range(3):  # whoever reads what it wrote waits for the end of that
        os.dup2(null, fd)
    return ENDED + bytes((code & 255,)) + SIZE.pack(len(answer)) + answer


def _wrong(*words: str) -> bytes:
    clean = (word.encode(errors="backslashreplace").decode() for word in words)
    return msgspec.msgpack.encode(Answer(error=tuple(clean)))


def _unknown(asked: Asked) -> bytes:
    what = "something went wrong that should not"
    if not asked.told:
        say(f"ringfence: the run beside this one: {what}")
        return ENDED + bytes((125,))
    answer = _wrong("LaunchError", "the run beside this one", what)
    return ENDED + bytes((125,)) + SIZE.pack(len(answer)) + answer


def _wait_for_all() -> None:
    """What a process used is counted with whoever waits for it. They have ended, but for a moment."""
    until = time.monotonic() + 1
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < until:
            time.sleep(0.001)


class Leash(Forwarder):
    """Whoever asked: what it passes on reaches the command, and when it is gone, or the run around it, so is all."""

    def __init__(self, asker: _socket.socket, lifeline: int, is_told: bool) -> None:
        super().__init__()
        self._asker, self._lifeline, self.is_gone, self._is_told = asker, lifeline, False, is_told
        _thread.start_new_thread(self._hold, ())

    def started(self, launched: Launch) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        super().started(launched)
        if self._is_told:
            self._is_told = False  # once, however often it is tried
            with contextlib.suppress(OSError):
                self._asker.send(STARTED)
        if self.is_gone:
            launched.kill()

    def _hold(self) -> None:
        poller = select.poll()
        for fd in (self._asker.fileno(), self._lifeline):
            poller.register(fd, select.POLLIN)
        until = time.monotonic() + PLANNING
        while not self.is_gone:
            left = None if self._launched else max(0.0, until - time.monotonic()) * 1000
            ready = poller.poll(left)
            self.is_gone = not ready and self._launched is None
            for fd, _ in ready:
                numbers = b"" if fd == self._lifeline else self._heard()
                self.is_gone = self.is_gone or numbers == b""
                for number in numbers or ():
                    if number in SIGNALS:
                        os.kill(os.getpid(), number)
                    elif 0 < number < signal.NSIG and self._launched is not None:  # a program may send any
                        self._launched.signal(number)
        if self._launched is not None:
            self._launched.kill()
        time.sleep(HURRY)
        os._exit(1)  # the warden ends with us, and everything with it

    def _heard(self) -> bytes | None:
        """What was passed on; None where somebody else has read it, for whoever named this end by a pipe has it too."""
        try:
            return self._asker.recv(64, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""
