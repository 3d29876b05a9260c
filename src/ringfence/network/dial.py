"""Dialling for a run: judge the name, resolve it, judge the address, and connect to exactly that address.

A name is resolved, its addresses are judged, and one of them is dialled: never is a name dialled.
"""

import asyncio
import base64
import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from ..model import Decision, ParentProxy, Verdict
from ..model.standins import is_stand_in
from .judge import NOBODY, Denied, Judge, Unreachable, Who, written
from .names import Names

SECONDS = 20.0
_STAGGER = 0.3  # the next address of a name is tried beside one that does not answer
_MOST_HEAD, _END = 16384, b"\r\n\r\n"
_RESOLVED_SECONDS = 2.0  # what was resolved and judged serves the connections of a moment
_MOST_RESOLVED = 1024
_MOST_PLACES = 32  # addresses of a name that are looked at; whoever owns it chooses how many there are
RESOLVING = 64  # threads of the gate; names that nobody answers for keep one each for many seconds
_AT_ONCE = 8  # of them for one run
_TRIES = 1024  # connections of one run that are under way: a name that says nothing has one for each of its addresses

Credential = tuple[str, str] | None  # a user and a password
Place = tuple[int, tuple[str, int]]  # a family, and an address in it with a port


class Dialler:
    """Dials what the judge allows."""

    def __init__(self, judge: Judge, names: Names, parent: ParentProxy, tries: int = _TRIES) -> None:
        self.judge = judge
        self.names = names
        self.parent = parent
        self._loop = asyncio.get_running_loop()
        self._resolved: dict[tuple[str, int], tuple[float, list[Place]]] = {}
        self._turns, self._tries = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(tries)
        self.reached: Callable[[str, int], None] = lambda _host, _port: None  # is told of every host that is dialled
        self.ask: Callable[[str, int, Decision, Who], Awaitable[Judge]] | None = None  # a person, after a no

    def rejudge(self, judge: Judge) -> None:
        """Another judge from now on: what the one before said of addresses is over."""
        self.judge = judge
        self._resolved.clear()

    def target(self, host: str, port: int) -> str:
        """The host that is meant, in the form in which it is judged: the name, where an address stands for one. This is
        dialled and nothing else, for two readers may make two names of one spelling. Raises Denied."""
        host = self.meant(host)
        decision = self.judge.host(host, port)
        if decision.verdict is not Verdict.ALLOW:
            raise Denied(written(host, port), decision)
        return host

    def meant(self, host: str) -> str:
        """The host that is meant, in the form in which it is judged."""
        host = self.judge.canonical(host)
        return self.names.name_of(host) or host if is_stand_in(host) else host

    async def permitted(self, host: str, port: int, who: Who = NOBODY) -> tuple[str, Judge]:
        """The host that is meant, and the judge that allows it: where somebody can be asked, after an answer. Raises
        Denied."""
        try:
            return self.target(host, port), self.judge
        except Denied as refused:
            if self.ask is None or not refused.decision.grant:  # a person is asked what a person may grant
                raise
            name = self.meant(host)
            return name, await self.ask(name, port, refused.decision, who)

    async def dial(self, host: str, port: int) -> socket.socket:
        """A connected socket to an allowed host. Raises Denied or Unreachable."""
        return await self.reach(*await self.permitted(host, port), port)

    async def reach(self, host: str, judge: Judge, port: int) -> socket.socket:
        """A connected socket to a host that was allowed. Raises Denied or Unreachable."""
        self.reached(host, port)
        try:
            async with asyncio.timeout(SECONDS):
                proxy = self.parent_for(host, port)
                if proxy:
                    if _family_of(host):
                        await self.resolve(host, port, judge)  # no name: what it leads to is known here, and judged
                    return await self._through(proxy, host, port)
                return await self.first(await self.resolve(host, port, judge))
        except TimeoutError:
            raise Unreachable(f"{written(host, port)} does not answer", errno.ETIMEDOUT) from None

    async def connect(self, address: str, port: int) -> socket.socket:
        """A connected socket to an IPv4 address that needs no judging. Raises Unreachable."""
        return await self.first([(socket.AF_INET, (address, port))])

    def resolved(self, host: str, port: int) -> list[Place]:
        """What a host was found to lead to a moment ago, each address judged; nothing when that is too long ago."""
        found = self._resolved.get((host, port))
        return found[1] if found is not None and self._loop.time() < found[0] else []

    async def resolve(self, host: str, port: int, judge: Judge) -> list[Place]:
        """The addresses that a host leads to and that may be reached; Denied when it leads to others alone."""
        allowed = self.resolved(host, port)
        if not allowed:
            allowed, judge = await self._resolve(host, port, judge)
            if len(self._resolved) >= _MOST_RESOLVED:
                self._resolved.clear()
            if judge is self.judge:  # and not what was granted once
                self._resolved[host, port] = (self._loop.time() + _RESOLVED_SECONDS, allowed)
        return allowed

    async def _resolve(self, host: str, port: int, judge: Judge) -> tuple[list[Place], Judge]:
        """The same, and the judge that allowed them."""
        found = await self._addresses(host, port)
        try:
            allowed, refused = self._reachable(judge, host, port, found)
        except OSError as error:  # what this machine's own addresses are cannot be read now
            raise Unreachable(f"{host} cannot be judged: {error.strerror}", errno.EHOSTUNREACH) from None
        if not allowed and refused is not None and refused[1].grant and self.ask is not None:
            judge = await self.ask(refused[0], port, refused[1], NOBODY)  # the address itself must be named
            allowed, refused = self._reachable(judge, host, port, found)
        if not allowed:
            if refused is None:
                raise Unreachable(f"{host} has no address", errno.EHOSTUNREACH)
            raise Denied(written(host, port), refused[1])
        return allowed, judge

    def _reachable(
        self, judge: Judge, host: str, port: int, found: list[tuple[int, str]]
    ) -> tuple[list[Place], tuple[str, Decision] | None]:
        """Of the addresses of a host those that may be reached, and one that may not, with why."""
        allowed: list[Place] = []
        refused = None
        for family, address in found:
            decision = judge.address(host, port, address)
            if decision.verdict is Verdict.ALLOW:
                allowed.append((family, (address, port)))
                if decision.host is not None:  # named itself: who learns from this needs that rule too
                    self.reached(decision.host.host, port)
            else:
                refused = address, decision
        return allowed, refused

    async def _addresses(self, host: str, port: int) -> list[tuple[int, str]]:
        family = _family_of(host)
        if family:
            return [(family, host)]
        await self._turns.acquire()
        asked = self._loop.create_task(self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        asked.add_done_callback(self._resume)
        try:
            found = await asyncio.shield(asked)  # its thread goes on when nobody waits any longer, and so has its turn
        except OSError as error:
            raise Unreachable(f"{host} cannot be resolved: {error.strerror}", errno.EHOSTUNREACH) from None
        return [(int(family), str(place[0])) for family, _, _, _, place in found[:_MOST_PLACES]]

    def _resume(self, asked: "asyncio.Task[Any]") -> None:
        self._turns.release()
        if not asked.cancelled():
            asked.exception()  # which nobody may be left to hear

    async def first(self, places: list[Place]) -> socket.socket:
        """The first address that answers; one that does not is not waited for long."""
        if len(places) == 1:
            try:
                return await self._connect(*places[0])
            except OSError as error:
                raise _unreachable(places[0][1], error) from None
        tasks: list[asyncio.Task[socket.socket]] = []
        failed: BaseException | None = None
        try:
            for index, place in enumerate(places):
                tasks.append(self._loop.create_task(self._connect(*place)))
                is_last = index == len(places) - 1
                done, _ = await asyncio.wait(
                    tasks, timeout=None if is_last else _STAGGER, return_when=asyncio.FIRST_COMPLETED
                )
                while done:
                    for task in done:
                        tasks.remove(task)
                        failed = task.exception()
                        if failed is None:
                            return task.result()
                    if not tasks or not is_last:
                        break
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        raise _unreachable(places[0][1], failed)

    async def _connect(self, family: int, place: tuple[str, int]) -> socket.socket:
        async with self._tries:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                await self._loop.sock_connect(sock, place)
            except BaseException:
                sock.close()
                raise
            return sock

    # ---- Through somebody else's proxy ----

    def parent_for(self, host: str, port: int) -> str:
        if any(_is_passed(host, entry) for entry in self.parent.no_proxy):
            return ""
        if _is_here(host) or "*" in self.parent.no_proxy:
            return ""
        return self.parent.http if port == 80 and self.parent.http else self.parent.https

    async def _through(self, url: str, host: str, port: int) -> socket.socket:
        """Ask a proxy for a tunnel. It resolves the name itself, so the address is its to judge."""
        scheme, _, rest = url.partition("://")
        said, _, where = rest.rstrip("/").rpartition("@")
        user, _, password = said.partition(":")
        credential = (unquote(user), unquote(password)) if said else None
        name, _, number = where.rpartition(":")
        name, number = (name, number) if number.isdigit() else (where, "1080" if scheme.startswith("socks") else "80")
        try:
            found = await self._loop.getaddrinfo(name.strip("[]"), int(number), type=socket.SOCK_STREAM)
            places = [(int(family), (str(place[0]), int(number))) for family, _, _, _, place in found[:_MOST_PLACES]]
            sock = await self.first(places)
        except (OSError, Unreachable) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise Unreachable(f"the parent proxy {where}: {why}", errno.EHOSTUNREACH) from None
        ask = self._ask_socks if scheme.startswith("socks") else self._ask_http
        try:
            await ask(sock, host, port, credential)
        except OSError as error:
            sock.close()
            raise Unreachable(f"the parent proxy {where}: {error.strerror}", errno.ECONNREFUSED) from None
        except BaseException:
            sock.close()
            raise
        return sock

    async def _ask_http(self, sock: socket.socket, host: str, port: int, credential: Credential) -> None:
        target = written(host, port)
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if credential:
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(':'.join(credential).encode()).decode()}")
        await self._loop.sock_sendall(sock, ("\r\n".join(lines) + "\r\n\r\n").encode())
        words = (await self._head(sock)).split(b"\r\n")[0].split(b" ", 2)
        if len(words) < 2 or words[1] != b"200":
            answer = b" ".join(words[1:])[:200].decode("ascii", "replace")
            answer = "".join(char if char.isprintable() else "?" for char in answer)
            raise Unreachable(f"the parent proxy says {answer}", errno.ECONNREFUSED)

    async def _head(self, sock: socket.socket) -> bytes:
        """What a proxy says up to the empty line, and no byte of what follows, for that is the tunnel's. All that is
        there is looked at in one: a byte at a time, a proxy that says too much keeps every run waiting."""
        head = b""
        while not head.endswith(_END):
            more = await self._loop.sock_recv(sock, 1)
            head += more
            if not more or len(head) > _MOST_HEAD:
                raise Unreachable("the parent proxy does not answer as one", errno.ECONNREFUSED)
            if not head.endswith(_END):
                with contextlib.suppress(BlockingIOError):
                    seen = sock.recv(_MOST_HEAD, socket.MSG_PEEK)
                    last = head[-3:]
                    end = (last + seen).find(_END)
                    head += sock.recv(len(seen) if end < 0 else end + len(_END) - len(last))
        return head

    async def _ask_socks(self, sock: socket.socket, host: str, port: int, credential: Credential) -> None:
        method = 2 if credential else 0
        await self._loop.sock_sendall(sock, bytes((5, 1, method)))
        if await self._exactly(sock, 2) != bytes((5, method)):
            raise Unreachable("the parent proxy refuses", errno.ECONNREFUSED)
        if credential:
            name, word = (one.encode()[:255] for one in credential)
            await self._loop.sock_sendall(sock, bytes((1, len(name))) + name + bytes((len(word),)) + word)
            if (await self._exactly(sock, 2))[1]:
                raise Unreachable("the parent proxy refuses the password", errno.ECONNREFUSED)
        asked = host.encode()
        await self._loop.sock_sendall(sock, bytes((5, 1, 0, 3, len(asked))) + asked + port.to_bytes(2, "big"))
        head = await self._exactly(sock, 4)
        if head[1]:
            raise Unreachable(f"the parent proxy refuses with code {head[1]}", errno.ECONNREFUSED)
        length = {1: 4, 4: 16}.get(head[3]) or (await self._exactly(sock, 1))[0]
        await self._exactly(sock, length + 2)

    async def _exactly(self, sock: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = await self._loop.sock_recv(sock, count - len(data))
            if not more:
                raise Unreachable("the parent proxy hangs up", errno.ECONNREFUSED)
            data += more
        return data


def _family_of(host: str) -> int:
    """The family of an address; 0 of a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return 0


def _is_here(host: str) -> bool:
    """Whether a host means this machine, and not a proxy's own."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _is_passed(host: str, entry: str) -> bool:
    """Whether a host is dialled directly by an entry: a host, a domain with its dot before it, or a network."""
    if "/" not in entry:
        return host == entry or (entry.startswith(".") and host.endswith(entry))
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _unreachable(place: tuple[str, int], error: BaseException | None) -> Unreachable:
    number = error.errno if isinstance(error, OSError) and error.errno else errno.EHOSTUNREACH
    return Unreachable(f"{place[0]}:{place[1]}: {os.strerror(number)}", number)
