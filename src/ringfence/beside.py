"""A run beside another one: what is asked for, and what comes of it.

Whoever asks is in a sandbox, and perhaps no ringfence at all: everything may be a lie. It chooses what is run, where
that starts, with which variables and streams, and how much narrower than the outer run it is held (`policy.meet`). Who
it is, the workspace and the log are the outer run's.
"""

import _socket
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable

import msgspec

from .enforce import Launch
from .job import make_job
from .keep import Request
from .model import Explain, LaunchError, Outcome, Policy, Screen, UsageError
from .policy import Flags
from .policy.layer import MAX_RULES
from .policy.meet import meet
from .run import carried_out

if sys.platform != "linux":
    raise UsageError("a run beside a run", "is for Linux")

LONGEST = 4 << 20  # bytes of what is asked: arguments and variables of a program are half of that at most
PATIENCE = 10.0  # seconds in which it must be there
HEAD = struct.Struct("<4sI")
MAGIC = b"RFB1"
STREAMS = 4  # 0 to 2, and the directory
# What is answered: that it has ended, with its exit code; that no sibling would see the directory; to a program also
# that it runs, and after the code how long the rest of the answer is.
ENDED, ELSEWHERE, STARTED = b"\x01", b"\x03", b"\x04"
SIZE = struct.Struct("<I")


class Asked(msgspec.Struct, frozen=True):
    """What a ringfence inside asks for."""

    argv: tuple[bytes, ...]
    program: bytes  # where the first of them was found
    cwd: bytes
    environ: dict[bytes, bytes]
    policy: Policy  # its own, canonical
    json: bool = False
    quiet: bool = False
    raw: bool = False
    told: bool = False  # by a program, which is told when it starts, and its outcome


class Answer(msgspec.Struct, frozen=True):
    """What a program is told at the end: what became of it, or what went wrong, as an error's class and words."""

    outcome: Outcome | None = None
    error: tuple[str, ...] = ()


class Bound(msgspec.Struct, frozen=True):
    """What holds every sibling of a run: its policy as it is carried out, and who it is."""

    policy: Policy
    workspace: str
    home: str
    ids: tuple[int, int] | None


class Elsewhere(Exception):
    """The directory is none that a sibling sees."""


def receive(link: _socket.socket, uid: int) -> tuple[Asked, tuple[int, ...]]:
    """What was asked, and the descriptors that came with it. Raises LaunchError for what is no question of ours."""
    credentials = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if struct.unpack("iII", credentials)[1] != uid:
        raise _unheard("it is another user's")
    fds: list[int] = []
    until = time.monotonic() + PATIENCE
    try:
        link.settimeout(PATIENCE)
        head, rights, flags, _ = link.recvmsg(HEAD.size, _socket.CMSG_SPACE(4 * STREAMS), _socket.MSG_CMSG_CLOEXEC)
        fds += [fd for *_, given in rights for fd in struct.unpack(f"{len(given) // 4}i", given[: len(given) // 4 * 4])]
        if len(head) != HEAD.size or len(fds) != STREAMS or flags & _socket.MSG_CTRUNC:
            raise _unheard("it is not whole")
        magic, size = HEAD.unpack(head)
        if magic != MAGIC or size > LONGEST:
            raise _unheard("it is none, or too long")
        data = bytearray()
        while len(data) < size:
            left = until - time.monotonic()  # for all of it, and not for each byte
            if left <= 0:
                raise _unheard("it takes too long")
            link.settimeout(left)
            part = link.recv(min(size - len(data), 1 << 16))
            if not part:
                raise _unheard("it is not whole")
            data += part
        try:
            asked = msgspec.msgpack.decode(bytes(data), type=Asked)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise _unheard("it cannot be read") from None
        return asked, tuple(fds)
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if isinstance(error, OSError):
            raise _unheard(error.strerror or "nothing came") from None
        raise


def send(link: _socket.socket, asked: Asked, fds: tuple[int, ...]) -> None:
    """Ask."""
    data = msgspec.msgpack.encode(asked)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]
    link.sendmsg([HEAD.pack(MAGIC, len(data))], rights)
    link.sendall(data)


def request_of(bound: Bound, asked: Asked, directory: int, screen: Screen) -> Request:
    """What is to be run, as a request: the narrower of the two policies, and a directory that both runs see."""
    cwd = os.fsdecode(asked.cwd)
    if not asked.argv or not asked.argv[0] or not cwd.startswith("/") or "\0" in cwd:
        raise _unheard("there is no command, or no directory")
    if not asked.program.startswith(b"/"):
        raise _unheard("nobody has found the program")  # we would look for it where whoever asks cannot
    try:
        there, given = os.stat(cwd), os.fstat(directory)
    except OSError:
        raise Elsewhere from None
    if not stat.S_ISDIR(given.st_mode) or (there.st_dev, there.st_ino) != (given.st_dev, given.st_ino):
        raise Elsewhere  # as one in a private /tmp
    wanted, network = asked.policy, asked.policy.network
    listed = (wanted.rules, wanted.asks, wanted.injections, wanted.limits, wanted.ignored)
    if sum(map(len, (*listed, network.hosts, network.denied_addresses, network.sockets))) > MAX_RULES:
        raise _unheard("its policy has too many rules")
    narrower = msgspec.json.encode(meet(bound.policy, asked.policy))
    return Request(bound.workspace, cwd, Flags(cwd=cwd), bound.home, bound.ids, screen, siblings=True, given=narrower)


def _unheard(why: str) -> LaunchError:
    return LaunchError("a run beside another one", f"was asked for in a way that is not understood: {why}")


def run_beside(request: Request, asked: Asked, on_start: Callable[[Launch], None]) -> Outcome:
    """Run it. Why it failed is worked out by nobody: that would tell whoever asked what there is outside."""
    argv = tuple(map(os.fsdecode, asked.argv))
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in asked.environ.items()}
    job = make_job(argv, request, environ, asked.json, None, Explain.NOTHING)
    pumped = tuple(sorted({*job.pumped, *_sockets((0,) if job.capture else (0, 1, 2))}))
    job = msgspec.structs.replace(job, request=request, program=os.fsdecode(asked.program), pumped=pumped)
    return carried_out(job, on_start=on_start)


def _sockets(fds: Iterable[int]) -> list[int]:
    """Those that are. Descriptors pass through one, and a directory of a run that has ended shows what its view hid:
    its mounts are gone. So no run has the other end of another one's."""
    return [fd for fd in fds if stat.S_ISSOCK(os.fstat(fd).st_mode)]
