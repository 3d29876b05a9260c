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
import stat
import struct
import sys
import time
from types import FrameType

import msgspec

from .. import enforce, policy, siblings
from ..beside import PATIENCE, Asked, Bound, Elsewhere, receive, request_of, run_beside, send
from ..enforce import Launch
from ..keep import Request, environment, forget_all, load_policy, with_repository
from ..model import Enforcement, LaunchError, Need, Refused, UsageError
from ..plan import SIBLINGS
from ..run import check_words, make_request
from ..taking import TAKE
from ..where import find_program
from . import guarded
from .options import Values, flags_of, one, say
from .run import FORWARDED, Forwarder, find_screen, tell
from .shared import Shared

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")

ENDED, ELSEWHERE = b"\x01", b"\x03"
SIGNALS = (*FORWARDED, signal.SIGWINCH)
HURRY = 5.0  # seconds for a sibling whose asker is gone
PLANNING = 30.0  # seconds in which the walls of one are made, whatever its policy is
WORK = 5.0  # and so many of a processor's


def ask(values: Values, argv: list[str]) -> int | None:
    """The exit code of a run beside the one we are in; None where there can be none."""
    check_words(argv)
    _fill_closed()
    cwd = os.getcwd()
    link = _reach(os.environ[SIBLINGS])  # first: whoever serves us begins while we look at our policy
    if link is None:
        return None
    request = make_request(one(values, "--workspace"), cwd, flags_of(values), "--as-root" in values)
    wanted = with_repository(load_policy(request), request.home)
    if wanted.enforcement is Enforcement.OFF:
        return None
    own = environment()
    asked = Asked(
        tuple(map(os.fsencode, argv)),
        os.fsencode(find_program(argv[0], own.get("PATH", os.defpath), request.cwd)),
        os.fsencode(request.cwd),
        {os.fsencode(name): os.fsencode(value) for name, value in own.items()},
        policy.canonical_policy(wanted, enforce.canonical),
        "--json" in values,
        "--quiet" in values,
        "--raw-terminal" in values,
    )
    directory = os.open(request.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    passer = Passer(link)
    try:
        send(link, asked, (0, 1, 2, directory))
    except OSError:  # it has answered already, or is gone
        pass
    except UnicodeEncodeError:  # a path that cannot be written down
        return None
    finally:
        os.close(directory)
    passer.begin()
    return _answer(link)


class Passer:
    """What asks us to end goes to the run beside, once it was asked for."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link
        self._waiting: list[int] | None = []
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._waiting is not None:
            self._waiting.append(number)
            return
        with contextlib.suppress(OSError):
            self._link.send(bytes((number,)))

    def begin(self) -> None:
        late, self._waiting = self._waiting or [], None
        for number in late:
            self._handle(number, None)


def _fill_closed() -> None:
    """Put /dev/null where one of 0 to 2 is closed, before we open anything: that would be handed over instead."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # the lowest free number is this one


def _reach(path: str) -> _socket.socket | None:
    """Somebody at the other end, who has taken us; None where nobody is."""
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            link, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
            door = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(door, TAKE.pack(os.getpid(), theirs.fileno()))
            os.close(door)
        else:
            link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            link.connect(path)
            if struct.unpack("iII", link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12))[0]:
                return None  # we see who listens, so he is not around us: a variable may be anybody's
        link.settimeout(PATIENCE)
        said = link.recv(1)
        link.settimeout(None)
    except OSError:
        return None
    if said == siblings.TOO_MANY:
        raise LaunchError("the run around this one", f"has {siblings.MOST} beside it already", "wait for one of them")
    return link if said == siblings.TAKEN else None


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


def _served(link: int, lifeline: int, told: int, places: int, place: int, *groups: int) -> int:
    siblings.inherit(places, groups)
    for fd in (link, lifeline, told, places, place, *groups):  # our own place is ours until we end
        os.set_inheritable(fd, False)
    bound = msgspec.json.decode(os.pread(told, os.fstat(told).st_size, 0), type=Bound)
    asker = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, link)
    try:
        asked, fds = receive(asker, bound.ids[0] if bound.ids else os.geteuid())
    except LaunchError:
        return 1
    asker.settimeout(None)
    directory = fds[3]
    for fd in range(3):
        os.dup2(fds[fd], fd)
        os.close(fds[fd])
    leash = Leash(asker, lifeline)
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, WORK, 1.0)  # until it is launched

    def carry_out() -> int:
        if groups:
            _join(groups)
        screen = find_screen(asked.raw)
        request = request_of(bound, asked, directory, screen)
        os.close(directory)
        return _carried_out(asked, request, leash)

    try:
        code = guarded(carry_out, asked.json)
        answer = ENDED + bytes((code & 255,))
    except Elsewhere:
        answer = ELSEWHERE + b"\0"
    except Exception:  # noqa: BLE001  # whoever asked is told nothing of us
        if leash.is_gone:
            return 1
        say("ringfence: the run beside this one: something went wrong that should not")
        answer = ENDED + bytes((125,))
    forget_all()  # first: with whoever asked the run around us may end, which waits for nobody long
    with contextlib.suppress(OSError):
        asker.send(answer)
    if bound.policy.limits:
        _wait_for_all()
    return 0


def _give_up(_number: int, _frame: FrameType | None) -> None:
    what, hint = "a run beside another one", "fewer rules, or fewer patterns"
    raise LaunchError(what, f"has a policy that takes more than {WORK:g} s of work to be carried out", hint)


def _join(groups: tuple[int, ...]) -> None:
    from ..enforce.cgroup import join

    try:
        join(groups)
    except OSError as error:
        raise LaunchError("the control group of the run around this one", f"lets nobody in: {error.strerror}") from None


def _carried_out(asked: Asked, request: Request, leash: "Leash") -> int:
    with Shared(request.screen):
        outcome = run_beside(request, asked, leash.started)
    # What was wanted only is told by what stands at paths that whoever asks may have named and not see: links, say.
    told = tuple(gap for gap in outcome.gaps if gap.need is Need.REQUIRED)
    outcome = msgspec.structs.replace(outcome, gaps=told)
    if asked.json:
        from .render import outcome_document

        print(outcome_document(outcome), flush=True)
    elif isinstance(outcome.ending, Refused) or not asked.quiet:
        tell(outcome)
    return outcome.exit_code


def _wait_for_all() -> None:
    """What a process used is counted with whoever waits for it. They have ended, but for a moment."""
    until = time.monotonic() + 1
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < until:
            time.sleep(0.001)


class Leash(Forwarder):
    """Whoever asked: what it passes on reaches the command, and when it is gone, or the run around it, so is all."""

    def __init__(self, asker: _socket.socket, lifeline: int) -> None:
        super().__init__()
        self._asker, self._lifeline, self.is_gone = asker, lifeline, False
        _thread.start_new_thread(self._hold, ())

    def started(self, launched: Launch) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        super().started(launched)
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
