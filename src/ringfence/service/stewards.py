"""The service's side of the spawner and of stewards: who starts them, asks them, and hears that they ended."""

import asyncio
import collections
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator

import msgspec

from .trouble import Trouble

MOST_LINE = 32 << 20
AHEAD = 1 << 17  # bytes that are read before somebody wants them: a run that says more waits
MOST_ANSWER = 4096
PATIENCE = 60.0
LONGEST = 120.0  # for one question
AT_ONCE, MOST_WAITING = 4, 32  # questions of one tenant: answered at once, and waiting for that
IDLE, MOST_IDLE = 20.0, 96  # seconds, and how many wait for the next question, of some 10 MB each
OLDEST = 60.0  # seconds for which a steward is asked again: it has the limits that its tenant had when it began
LOOKS = frozenset({"read", "list", "worktrees", "worktree", "diff", "approvals", "audit"})  # and change nothing


class Spawning:
    """One connection to the spawner, made when it is first needed and again when it was lost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, object]]] = {}
        self._lock = asyncio.Lock()
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._questions: collections.Counter[str] = collections.Counter()
        self._idle: list[Steward] = []

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
        if request["run"] in self._waiting:  # it is being cancelled already
            return {}
        waiting = self._waiting[request["run"]] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._send(made, msgspec.json.encode(request), held)
                answer: dict[str, object] = await waiting
                return answer
        except (OSError, TimeoutError):
            raise Trouble("unavailable", "the spawner does not answer") from None
        finally:
            self._waiting.pop(request["run"], None)

    async def _send(self, made: socket.socket, data: bytes, held: list[int]) -> None:
        while True:
            try:
                socket.send_fds(made, [data], held)
                return
            except BlockingIOError:  # it has a lot to do
                await asyncio.sleep(0.01)

    async def hire(self, tenant: str) -> "Steward":
        """A steward of a tenant's, until it is closed."""
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
        reader, outer = await asyncio.open_connection(sock=ours[1], limit=AHEAD)
        return Steward(self, tenant, run, reader, (writer, outer))

    async def errand(self, tenant: str, **request: object) -> dict[str, object]:
        """One question, to a steward who waits for one or to a new one; so many at once for each tenant."""
        if self._questions[tenant] >= AT_ONCE + MOST_WAITING:  # each holds a connection, which are for all tenants
            raise Trouble("too_many", "this workspace has as many questions as it may have")
        turn = self._turns.setdefault(tenant, asyncio.Semaphore(AT_ONCE))
        self._questions[tenant] += 1
        try:
            async with asyncio.timeout(PATIENCE):
                await turn.acquire()
            try:
                async with asyncio.timeout(LONGEST):
                    return await self._errand(tenant, request)
            finally:
                turn.release()
        except TimeoutError:
            raise Trouble("unavailable", "it took too long") from None
        finally:
            self._questions[tenant] -= 1
            if not self._questions[tenant]:
                del self._questions[tenant], self._turns[tenant]

    async def _errand(self, tenant: str, request: dict[str, object]) -> dict[str, object]:
        while True:
            waited = self.waiting(tenant)
            steward = waited or await self.hire(tenant)
            try:
                answer = await steward.answer(request)
            except Gone:  # in the middle, perhaps when it was done and not yet said: nothing is changed twice
                steward.close()
                if waited is None or request["do"] not in LOOKS:
                    raise
            except BaseException:
                steward.close()
                raise
            else:
                self._keep(steward)
                return _good(answer)

    def waiting(self, tenant: str) -> "Steward | None":
        """One of a tenant's who waits for the next question, and does no more."""
        for steward in [one for one in self._idle if one.tenant == tenant]:
            self._idle.remove(steward)
            if not steward.is_gone:
                return steward
            steward.close()  # it was sent away: whoever suspended a tenant did that
        return None

    def _keep(self, steward: "Steward") -> None:
        """Somebody may ask again in a moment; a new one costs a start of Python."""
        if time.monotonic() - steward.begun > OLDEST:
            steward.close()
            return
        self._idle.append(steward)
        if len(self._idle) > MOST_IDLE:
            self._idle.pop(0).close()

        def dismiss() -> None:
            if steward in self._idle and steward.answered == answered:
                self._idle.remove(steward)
                steward.close()

        answered = steward.answered
        asyncio.get_running_loop().call_later(IDLE, dismiss)

    async def cancel(self, run: str) -> None:
        """SIGTERM, and SIGKILL after a moment."""
        await self._ask({"do": "cancel", "run": run}, [])


def _good(answer: dict[str, object]) -> dict[str, object]:
    if "error" in answer:
        raise Trouble(str(answer["error"]), str(answer.get("what", "")))
    return answer


def _close(sockets: tuple[socket.socket, ...]) -> None:
    for one in sockets:
        one.close()


class Gone(Trouble):
    """A steward that is no more."""

    def __init__(self) -> None:
        super().__init__("unavailable", "the steward is gone")


class Steward:
    """Somebody who works as the tenant."""

    def __init__(
        self,
        spawning: Spawning,
        tenant: str,
        run: str,
        reader: asyncio.StreamReader,
        writers: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        self._spawning, self.tenant, self.run = spawning, tenant, run
        self._reader, self._writers = reader, writers
        self._heard = bytearray()
        self.answered, self.begun = 0, time.monotonic()

    @property
    def is_gone(self) -> bool:
        """Whether it has ended already."""
        return self._reader.at_eof() or self._reader.exception() is not None

    async def say(self, request: dict[str, object]) -> None:
        """One line to it."""
        try:
            self._writers[0].write(msgspec.json.encode(request) + b"\n")
            await self._writers[0].drain()
        except OSError:
            raise Gone from None

    async def hear(self) -> dict[str, object]:
        """One line of it, however long; what comes after it is left where it is."""
        looked = 0
        while (end := self._heard.find(b"\n", looked)) < 0:
            looked = len(self._heard)
            try:
                piece = await self._reader.read(AHEAD)
            except OSError:
                raise Gone from None
            if not piece or looked > MOST_LINE:
                raise Gone
            self._heard += piece
        line = bytes(self._heard[:end])
        del self._heard[: end + 1]
        try:
            return msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Gone from None

    async def answer(self, request: dict[str, object]) -> dict[str, object]:
        """The one line that answers a question."""
        await self.say(request)
        answer = await self.hear()
        self.answered += 1
        return answer

    async def work(self, request: dict[str, object]) -> AsyncIterator[dict[str, object]]:
        """Each line of a long work, to the one that ends it."""
        await self.say(request)
        while True:
            line = _good(await self.hear())
            yield line
            if "ended" in line:
                return

    async def cancel(self) -> None:
        await self._spawning.cancel(self.run)

    def close(self) -> None:
        """It ends when nobody asks any more."""
        for writer in self._writers:
            writer.close()
