"""The service's side of the spawner and of stewards: who starts them, asks them, and hears that they ended."""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator

import msgspec

from .trouble import Trouble

MOST_LINE = 32 << 20
MOST_ANSWER = 4096
PATIENCE = 10.0


class Spawning:
    """One connection to the spawner, made when it is first needed and again when it was lost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, object]]] = {}
        self._lock = asyncio.Lock()

    async def _connected(self) -> socket.socket:
        async with self._lock:
            if self._socket is None:
                made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                made.setblocking(False)
                try:
                    await asyncio.get_running_loop().sock_connect(made, self._path)
                except OSError as error:
                    made.close()
                    raise Trouble("unavailable", f"the spawner does not answer: {error.strerror}") from None
                self._socket = made
                asyncio.get_running_loop().add_reader(made, self._hear, made)
            return self._socket

    def _hear(self, made: socket.socket) -> None:
        try:
            data = made.recv(MOST_ANSWER)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(made)
            made.close()
            self._socket = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(Trouble("unavailable", "the spawner is gone"))
            self._waiting.clear()
            return
        answer = msgspec.json.decode(data)
        name = answer.get("run", "")
        if name in self._waiting and not self._waiting[name].done():
            self._waiting[name].set_result(answer)

    async def _ask(self, request: dict[str, str], held: list[int]) -> dict[str, object]:
        made = await self._connected()
        waiting = self._waiting[request["run"]] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(made, [msgspec.json.encode(request)], held)
            return await asyncio.wait_for(waiting, PATIENCE)
        except (OSError, TimeoutError):
            raise Trouble("unavailable", "the spawner does not answer") from None
        finally:
            self._waiting.pop(request["run"], None)

    @contextlib.asynccontextmanager
    async def steward(self, tenant: str) -> AsyncIterator["Steward"]:
        """A steward of a tenant's; leaving ends it."""
        run = secrets.token_hex(16)
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        drain, errors = os.pipe()
        os.close(drain)  # what a steward says there is for its own terminal, and it has none
        try:
            handed = [*(one.fileno() for one in theirs), errors]
            answer = await self._ask({"do": "start", "tenant": tenant, "run": run}, handed)
        except BaseException:
            _close(ours)
            raise
        finally:  # or the end of what it says would never be seen
            _close(theirs)
            os.close(errors)
        if "error" in answer:
            _close(ours)
            raise Trouble(str(answer["error"]).lower(), str(answer["what"]))
        _, writer = await asyncio.open_connection(sock=ours[0])
        reader, outer = await asyncio.open_connection(sock=ours[1], limit=MOST_LINE)
        try:
            yield Steward(self, run, reader, writer)
        finally:
            writer.close()
            outer.close()

    async def cancel(self, run: str) -> None:
        """SIGTERM, and SIGKILL after a moment."""
        await self._ask({"do": "cancel", "run": run}, [])


def _close(sockets: tuple[socket.socket, ...]) -> None:
    for one in sockets:
        one.close()


class Steward:
    """Somebody who works as the tenant."""

    def __init__(
        self, spawning: Spawning, run: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._spawning, self.run, self._reader, self._writer = spawning, run, reader, writer

    async def ask(self, **request: object) -> AsyncIterator[dict[str, object]]:
        """Each line of the answer."""
        self._writer.write(msgspec.json.encode(request) + b"\n")
        await self._writer.drain()
        while True:
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise Trouble("unavailable", "the steward is gone")
            answer: dict[str, object] = msgspec.json.decode(line)
            if "error" in answer:
                raise Trouble(str(answer["error"]), str(answer.get("what", "")))
            yield answer
            if "stream" not in answer:
                return

    async def cancel(self) -> None:
        await self._spawning.cancel(self.run)
