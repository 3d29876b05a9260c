"""Connections that the warden asks about: judged by name, dialled here, and handed in as they are.

A question is the place that a program connects to. The answer is a socket of the host's network, or an errno. For a
program that waits it comes when the connection stands or has failed; for one that does not wait, as soon as it is under
way: the program then sees for itself what becomes of it. No byte of it passes us.
"""

import array
import asyncio
import collections
import contextlib
import errno
import functools
import ipaddress
import os
import select
import socket
import struct
import threading

from .dial import Place
from .judge import Denied, Unreachable, Who
from .run import Run

QUESTION = struct.Struct("=QiIHH16sI128s")  # enforce/dial.h, struct question
REPLY = struct.Struct("=QiIiI")  # and struct reply
NONBLOCK = 1
_WISH = (1 << 64) - 1  # the number of a wish for a socket, and of its answer
_AGAIN_SECONDS = 0.05
_ONE_FD = socket.CMSG_SPACE(4)
_CLOSED_BY_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

Asked = tuple[int, int, int]  # the question's number, the program's descriptor, its flags


class Asks:
    """The channel of one run."""

    def __init__(self, run: Run, channel: socket.socket) -> None:
        self.run = run
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._wishes: collections.deque[asyncio.Future[socket.socket | None]] = collections.deque()
        channel.setblocking(True)
        run.hold(channel)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """A thread of its own: the program waits for us, and the loop may be at something else. What cannot be answered
        at once the loop answers."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: all is over
            while True:
                try:
                    data, rights, _, _ = self._channel.recvmsg(QUESTION.size, _ONE_FD, _CLOSED_BY_EXEC)
                except OSError:
                    data = b""
                if len(data) != QUESTION.size:
                    self._loop.call_soon_threadsafe(self._take, None)
                    return
                number, fd, flags, family, port, raw, pid, program = QUESTION.unpack(data)
                given = struct.unpack("i", rights[0][2])[0] if rights else None
                if number == _WISH:
                    self._loop.call_soon_threadsafe(self._take, given)
                    continue
                if given is not None:  # no warden of ours sends one with a question, and each would be kept
                    os.close(given)
                asked = (number, fd, flags)
                host = _host(raw if family == socket.AF_INET6 else raw[:4])
                who = (pid, program.rstrip(b"\0").decode("utf-8", "backslashreplace"))
                if not self._at_once(asked, who, host, socket.ntohs(port), family):
                    self._loop.call_soon_threadsafe(self._later, asked, who, host, socket.ntohs(port), family)

    def _later(self, asked: Asked, who: Who, host: str, port: int, family: int) -> None:
        self.run.start(self._answer(asked, who, host, port, family))

    async def inside(self, port: int) -> socket.socket:
        """A connection to a port of the run's own loopback. Raises Unreachable."""
        wish: asyncio.Future[socket.socket | None] = self._loop.create_future()
        self._wishes.append(wish)
        while True:
            try:
                self._channel.send(REPLY.pack(_WISH, 0, 0, 0, 0), socket.MSG_DONTWAIT)  # the loop is every run's
                break
            except BlockingIOError:
                await asyncio.sleep(_AGAIN_SECONDS)
            except OSError as error:
                raise Unreachable("the run is over", error.errno or 0) from None
        sock = await wish
        if sock is None:
            raise Unreachable("the run has no socket to give", errno.ENETDOWN)
        sock.setblocking(False)
        try:
            await self._loop.sock_connect(sock, ("127.0.0.1", port))
        except OSError as error:
            sock.close()
            raise Unreachable(f"127.0.0.1:{port} inside", error.errno or 0) from None
        return sock

    def _take(self, fd: int | None) -> None:
        """The first wish is granted; without a socket, none is."""
        sock = None if fd is None else socket.socket(fileno=fd)
        while self._wishes:
            wish = self._wishes.popleft()
            if not wish.done():
                wish.set_result(sock)
                if sock is not None:
                    return
        if sock is not None:
            sock.close()

    def _at_once(self, asked: Asked, who: Who, host: str, port: int, family: int) -> bool:
        """Answer without waiting, where the name was resolved just now and the connection stands at once."""
        try:
            name = self.run.dialler.target(host, port)
            places = self.run.dialler.resolved(name, port)
            if len(places) != 1 or self.run.dialler.parent_for(name, port):
                return False
            sock = _begin([_in_family(places[0], family)])
            stands = bool(asked[2] & NONBLOCK) or _stands(sock)
        except Denied as refused:
            if self.run.dialler.ask is not None:
                return False
            self.run.denied(refused.target, refused.decision, who)
            self._reply(asked, errno.EACCES, None)
            return True
        except Unreachable as failed:
            self._reply(asked, failed.errno or errno.EHOSTUNREACH, None)
            return True
        except OSError:  # other runs have every descriptor: this thread goes on, and the loop says what is wrong
            return False
        if stands:
            self._reply(asked, 0, sock)
            return True
        sock.close()
        return False

    async def _answer(self, asked: Asked, who: Who, host: str, port: int, family: int) -> None:
        error, sock = 0, None
        try:
            sock = await self._dial(host, port, family, not asked[2] & NONBLOCK, who)
        except Denied as refused:
            self.run.denied(refused.target, refused.decision, who)
            error = errno.EACCES
        except Exception as failed:  # noqa: BLE001  # whoever asked waits for an answer, whatever it is
            error = getattr(failed, "errno", 0) or errno.EHOSTUNREACH
        while not self._reply(asked, error, sock, socket.MSG_DONTWAIT):  # the loop is every run's
            await asyncio.sleep(_AGAIN_SECONDS)

    def _reply(self, asked: Asked, error: int, sock: socket.socket | None, flags: int = 0) -> bool:
        """Answer; False where the warden takes no more for now, and we are not to wait. It may have been stopped."""
        rights = [] if sock is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sock.fileno()]))]
        try:
            self._channel.sendmsg([REPLY.pack(*asked, error, 0)], rights, flags)
        except BlockingIOError:
            return False
        except OSError:
            pass  # the run is over
        if sock is not None:
            sock.close()
        return True

    async def _dial(self, host: str, port: int, family: int, waits: bool, who: Who) -> socket.socket:
        """A socket of the family that the program has, connected or, when it does not wait, on its way."""
        dialler = self.run.dialler
        name, judge = await dialler.permitted(host, port, who)
        if dialler.parent_for(name, port):
            return await dialler.reach(name, judge, port)
        dialler.reached(name, port)
        places = await dialler.resolve(name, port, judge)
        places.sort(key=lambda place: place[0] != socket.AF_INET)  # as the address that it was given
        places = [_in_family(place, family) for place in places]
        return await dialler.first(places) if waits else _begin(places)


@functools.lru_cache(maxsize=1024)
def _host(raw: bytes) -> str:
    """The canonical host that an address in a socket's own form means."""
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _begin(places: list[Place]) -> socket.socket:
    """A socket whose connection is under way, or stands: to the first place that there is a way to."""
    codes = []
    for family, place in places:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        codes.append(sock.connect_ex(place))
        if codes[-1] in (0, errno.EINPROGRESS):
            return sock
        sock.close()
    raise Unreachable(places[0][1][0], codes[0])


def _stands(sock: socket.socket) -> bool:
    """Whether a connection stands already, as on a loopback. Raises Unreachable when it has failed."""
    poller = select.poll()
    poller.register(sock, select.POLLOUT)
    if not poller.poll(0):
        return False
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        sock.close()
        raise Unreachable("refused", code)
    return True


@functools.cache
def _has_both() -> bool:
    return socket.has_dualstack_ipv6()


def _in_family(place: Place, family: int) -> Place:
    """A place for a socket of this family: programs with IPv6 sockets write IPv4 addresses mapped."""
    if family == socket.AF_INET6 and place[0] == socket.AF_INET and _has_both():
        return socket.AF_INET6, (f"::ffff:{place[1][0]}", place[1][1])
    return place
