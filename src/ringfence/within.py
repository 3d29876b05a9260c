"""A ringfence inside a run: it asks the one around it for a run beside that, and waits for it as for one of its own.

`cli.beside` asks for the command, which has its streams and its exit code from there; here is what a program gets that
has called `run` or `start`: output, signals and an end as of any other run, and the outcome as it was found outside.
"""

import _socket
import os
import stat
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import msgspec

from . import enforce, model, policy
from .beside import ELSEWHERE, ENDED, PATIENCE, SIZE, STARTED, Answer, Asked, send
from .enforce.linux import Launch
from .enforce.process import PIPE, Adopted, Streams
from .enforce.streams import fill_closed
from .job import STREAM_NAMES, Job
from .keep import Request, load_policy, with_repository
from .model import Ending, Enforcement, LaunchError, Outcome, Plan, RingfenceError, UsageError
from .plan import SIBLINGS
from .siblings import MOST, TAKEN, TOO_MANY
from .taking import TAKE
from .where import find_program

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")


def reach() -> _socket.socket | None:
    """Somebody at the other end, who has taken us; None where nobody is."""
    path = os.environ[SIBLINGS]
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
    if said == TOO_MANY:
        raise LaunchError("the run around this one", f"has {MOST} beside it already", "wait for one of them")
    return link if said == TAKEN else None


def put(
    link: _socket.socket,
    request: Request,
    argv: Sequence[str],
    own: Mapping[str, str],
    fds: tuple[int, ...],
    **more: bool,
) -> bool:
    """Ask for a command; False where there can be no run beside the one we are in."""
    wanted = with_repository(load_policy(request), request.home, request.ids)
    if wanted.enforcement is Enforcement.OFF:
        return False
    asked = Asked(
        tuple(map(os.fsencode, argv)),
        os.fsencode(find_program(argv[0], own.get("PATH", os.defpath), request.cwd)),
        os.fsencode(request.cwd),
        {os.fsencode(name): os.fsencode(value) for name, value in own.items()},
        policy.canonical_policy(wanted, enforce.canonical),
        **more,
    )
    directory = os.open(request.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        send(link, asked, (*fds, directory))
    except OSError:  # it has answered already, or is gone
        pass
    except UnicodeEncodeError:  # a path that cannot be written down
        return False
    finally:
        os.close(directory)
    return True


class Far(Launch):
    """A launch that is carried out by somebody else: we hear of it on a socket, and tell signals there."""

    is_ready = True
    _said = b""

    def __init__(self, link: _socket.socket, pipes: list[int | None], said: bytes) -> None:
        nothing = Plan((), (), Enforcement.REQUIRED, (), "", (), has_warden=True)
        process = Adopted(0)
        process.pipes = pipes
        super().__init__(process, link.detach(), nothing)
        self._said = said

    def read_status(self) -> None:
        """Take what there is of its end."""
        try:
            data = os.read(self._status, 1 << 16)
        except ConnectionResetError:
            data = b""
        self._said += data
        head = 2 + SIZE.size
        if not data or (len(self._said) >= head and len(self._said) >= head + SIZE.unpack(self._said[2:head])[0]):
            self._all_told = self.has_ended = True
            self.process.leave()

    def _hear_out(self) -> None:
        while self.process.returncode is None:
            self.read_status()

    def ending(self) -> Ending:
        """How it ended, once it has."""
        crossed = self.supervisor.crossed if self.supervisor is not None else None
        return crossed or self.found().ending

    def found(self) -> Outcome:
        """The outcome as it was found; or what went wrong is raised as if it were our own."""
        if self._said[:1] != ENDED or not self.has_ended:
            raise LaunchError("the run around this one", "has ended, or the run beside it was killed")
        answer = msgspec.msgpack.decode(self._said[2 + SIZE.size :], type=Answer)
        if answer.outcome is not None:
            return answer.outcome
        kind, *words = answer.error
        raise getattr(model, kind, RingfenceError)(*words)


class Beside:
    """What `run.Living` is to a run of our own. A context manager; leaving it ends the run."""

    def __init__(self, launch: Far) -> None:
        self.launch = launch

    def __enter__(self) -> "Beside":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.launch.__exit__(kind, error, trace)

    def timeout(self, asked: float | None) -> float | None:
        """The caller's alone: that of the policy is seen to outside."""
        return asked

    def output(self) -> None:
        """As with the time."""

    def outcome(self, ending: Ending, out: bytes | None, err: bytes | None) -> Outcome:
        """What became of it, with the output that is ours."""
        return msgspec.structs.replace(self.launch.found(), ending=ending, stdout=out, stderr=err)


class Question:
    """What was asked, until it is known whether it is carried out."""

    def __init__(self, job: Job, link: _socket.socket) -> None:
        self.link = link
        self._streams = Streams()
        taken = PIPE if job.capture else None
        self._streams.open((PIPE if job.data is not None else None, taken, taken))
        try:
            fds = tuple(number if fd is None else fd for number, fd in enumerate(self._streams.theirs))
            self.is_put = put(link, job.request, job.argv, job.environ, fds, told=True)
        except BaseException:
            self._streams.close()
            raise
        finally:
            self._streams.given()

    def answered(self) -> Beside | None:
        """The run, as soon as something was said of it; None where there can be none."""
        try:
            said = self.link.recv(1) if self.is_put else ELSEWHERE
        except ConnectionResetError:  # it did not read all that we sent, and is gone
            said = b""
        if said == ELSEWHERE:
            self.close()
            return None
        return Beside(Far(self.link, self._streams.pipes, b"" if said == STARTED else said))

    def close(self) -> None:
        """Nobody waits for the answer: then there is no run."""
        self._streams.close()
        self.link.close()


def ask(job: Job) -> Question | None:
    """Ask for a job to be carried out beside the run we are in; None where nobody hears."""
    fill_closed()  # before we open anything: that would be handed over instead
    link = reach()
    return None if link is None else Question(job, link)


def attempted(
    job: Job,
    on_output: Callable[[str, bytes], None] | None,
    timeout: float | None,
    on_start: Callable[[enforce.Launch], None] | None,
) -> Outcome | None:
    """The outcome of a job that was carried out beside the run we are in; None where there can be none."""

    def sink(number: int, data: bytes) -> None:
        if on_output:
            on_output(STREAM_NAMES[number], data)

    asked = ask(job)
    living = asked.answered() if asked else None
    if living is None:
        return None
    with living:
        if on_start:
            on_start(living.launch)
        return living.outcome(*living.launch.wait(timeout, job.data or b"", sink if on_output else None))
