"""Messages between whoever starts runs and the gate: each a value, in as many packets as it takes, and descriptors.

Imports next to nothing, for both sides do so before every run that may use the network.
"""

import _socket
import array
import os
import select

import msgspec

from ..model import HostRule, Network
from ..model.event import written

_MOST_FDS = 253  # SCM_MAX_FD
_PACKET = 1 << 15


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """Serve a run: a door for each descriptor."""

    number: int
    network: Network
    workspace: str
    doors: tuple[str, ...]
    credential: str = ""
    agent: str = ""  # the path of the ssh agent to filter


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """A run is over. With `waits` the gate's last word of it, which has no target, is waited for."""

    number: int
    waits: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """The gate's only words: something was refused to a run, or done for it that is worth telling."""

    number: int
    target: str
    reason: str
    grant: str = ""
    allowed: bool = False
    origin: str = ""  # the file and line, or the flag, of the rule
    pid: int = 0  # who asked, as the run counts, and by which program
    exe: str = ""


class Wish(msgspec.Struct, frozen=True):
    """The gate asks about a host; about the same host and port once."""

    number: int
    host: str
    port: int
    why: str = ""  # what the judge said
    pid: int = 0  # who waits, as the run counts, where that is known, and its program
    exe: str = ""


class Granted(msgspec.Struct, frozen=True):
    """And is answered by the rules that were added to the run's since it began, which allow it, or by none; `keep` says
    that they are the run's from now on."""

    number: int  # 0: nobody asked
    hosts: tuple[HostRule, ...] | None = None
    keep: bool = False


Message = Serve | Stop


def send(to: int, message: Message, fds: tuple[int, ...] = ()) -> None:
    """Hand over a message and its descriptors."""
    data = written(message)
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds).tobytes())] if fds else []
    end = _socket.socket(fileno=os.dup(to))
    try:
        end.sendmsg([len(data).to_bytes(8, "little"), data[:_PACKET]], rights)
        for at in range(_PACKET, len(data), _PACKET):
            end.send(data[at : at + _PACKET])
    finally:
        end.close()


def receive(source: int) -> tuple[Message, list[int]] | None:
    """The next message, or None: nobody is there any more."""
    end = _socket.socket(fileno=source)  # itself: for a copy there may be no descriptor left, and an end must be heard
    end.setblocking(True)
    try:
        space = _socket.CMSG_SPACE(4 * _MOST_FDS)
        data, ancillary, _, _ = end.recvmsg(_PACKET + 8, space, getattr(_socket, "MSG_CMSG_CLOEXEC", 0))
        length = int.from_bytes(data[:8], "little")
        data = data[8:]
        while data and len(data) < length:
            more = end.recv(_PACKET)
            data = data + more if more else b""
    finally:
        end.detach()
    fds = array.array("i")
    for _, _, rights in ancillary:
        fds.frombytes(rights[: len(rights) - len(rights) % 4])
    return (msgspec.json.decode(data, type=Serve | Stop), list(fds)) if data else None


Work = list[tuple[Serve, list[int]]]


def wait_for_work(control: int) -> Work:
    """Take runs on until somebody connects to one; nothing, when nobody is there any more."""
    work: dict[int, tuple[Serve, list[int]]] = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if any(fd != control for fd in ready):
            return list(work.values())
        got = receive(control)
        if got is None:
            return []
        message, fds = got
        if isinstance(message, Serve):
            work[message.number] = message, fds
            for fd in fds:
                poller.register(fd, select.POLLIN)
        elif message.number in work:
            for fd in work.pop(message.number)[1]:
                poller.unregister(fd)
                os.close(fd)
