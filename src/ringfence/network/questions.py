"""Hosts that a person is asked about: whoever wants to connect waits, and the answer is more rules to judge by."""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from ..model import Decision, HostRule
from .control import Granted, Wish
from .judge import Denied, Judge, Who, written

_LONGEST = 1 << 20


class Questions:
    """Our end of the socket on which a run's questions go out."""

    def __init__(
        self, sock: socket.socket, make: Callable[[tuple[HostRule, ...]], Judge], keep: Callable[[Judge], None]
    ) -> None:
        sock.setblocking(False)
        self._socket, self._make, self._keep = sock, make, keep
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, asyncio.Future[Judge | None]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._last = 0
        self._loop.add_reader(sock.fileno(), self._heard)

    async def ask(self, host: str, port: int, decision: Decision, who: Who) -> Judge:
        """The judge that allows it. Raises Denied."""
        number = self._numbers.get((host, port), 0)
        if not number:
            number = self._last = self._last + 1
            try:
                self._socket.send(msgspec.json.encode(Wish(number, host, port, decision.reason, *who)))
            except OSError:  # nobody is there, or more is asked than anybody reads
                raise Denied(written(host, port), decision) from None
            self._numbers[host, port] = number
            self._open[number] = self._loop.create_future()
        judge = await asyncio.shield(self._open[number])
        if judge is None:
            raise Denied(written(host, port), decision)
        return judge

    def _heard(self) -> None:
        try:
            data = self._socket.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket.fileno())
            for number in list(self._open):
                self._settle(number, None)
            return
        said = msgspec.json.decode(data, type=Granted)
        judge = None if said.hosts is None else self._make(said.hosts)
        if said.keep and judge is not None:
            self._keep(judge)
        self._settle(said.number, judge)

    def _settle(self, number: int, judge: Judge | None) -> None:
        future = self._open.pop(number, None)
        self._numbers = {place: one for place, one in self._numbers.items() if one != number}
        if future is not None and not future.done():
            future.set_result(judge)
