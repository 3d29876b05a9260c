"""One run at the gate: its judge, its names, its connections, and what was refused to it."""

import asyncio
import contextlib
import resource
import secrets
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from ..model import Decision, ParentProxy, Verdict
from .dial import Dialler
from .judge import NOBODY, Denied, Judge, Who, written
from .link import Link, Tunnel, Turn
from .names import Names
from .resolver import Resolver

MOST_CONNECTIONS = 10_000
HEAD_SECONDS = 30.0  # from a connection's beginning to the end of what it asks for
IDLE_SECONDS = 3600.0  # a tunnel in which nothing moves
LINGER_SECONDS = 5.0  # what is over, but for what was not taken yet
MOST_TOLD = 1000
_SWEEP_SECONDS = 5.0
_REST_SECONDS = 0.1
_BACKLOG_TURN = 64  # connections accepted before others are served


class Run:
    """What serves one run."""

    def __init__(
        self,
        judge: Judge,
        workspace: str,
        parent: ParentProxy,
        match_hosts: bool = True,
        credential: str = "",
        report: Callable[[str, Decision, Who], None] = lambda _target, _decision, _who: None,
        known: tuple[str, ...] = (),
    ) -> None:
        self.judge = judge
        self.names = Names(workspace, known)
        # One run does not take every descriptor of a gate that serves others too.
        self._most = min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self.dialler = Dialler(judge, self.names, parent, self._most // 2)
        self.dialler.reached = lambda host, port: self.denied(
            written(host, port), Decision(Verdict.ALLOW, "was dialled")
        )
        self.match_hosts = match_hosts
        self.loop = asyncio.get_running_loop()
        self.links: dict[Link, float] = {}  # each with how long it may be idle
        self._deadlines: dict[Link, float] = {}  # by when what a client asks must be said to the end
        self._turn = Turn(self.loop)
        self._credential = credential.encode()
        self._report = report
        self._reported: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}  # what was done, and refused
        self._listeners: list[socket.socket] = []
        self._held: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.signatures = 0
        self.at_agent: set[Link] = set()  # who is connected to the ssh agent
        self.resolver = Resolver(judge, self.names, self.denied)
        self.start(self._sweep())

    def rejudge(self, judge: Judge) -> None:
        """Another judge from now on, who allows more, or less: a grant has ended."""
        self.judge = judge
        self.dialler.rejudge(judge)
        self.resolver.rejudge(judge)

    # ---- Listening ----

    def listen(self, sock: socket.socket, serve: Callable[[Link], object]) -> None:
        """Serve every connection that comes to a listening socket."""
        sock.setblocking(False)
        self._listeners.append(sock)
        self.loop.add_reader(sock.fileno(), self._accept, sock, serve)

    def answer_names(self, sock: socket.socket) -> None:
        """Resolve on a bound UDP socket."""
        self._listeners.append(sock)
        self.resolver.serve_datagrams(sock)

    def hold(self, sock: socket.socket) -> None:
        """A socket that ends with the run, for whoever waits at it too."""
        self._held.append(sock)

    def _accept(self, listener: socket.socket, serve: Callable[[Link], object]) -> None:
        for _ in range(_BACKLOG_TURN):
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # out of descriptors: looked at again in a moment, and not without end
                self._rest(listener, serve)
                return
            if len(self.links) >= self._most:
                sock.close()
                continue
            link = self.keep(sock, HEAD_SECONDS)
            self.hurry(link)
            serve(link)

    def _rest(self, listener: socket.socket, serve: Callable[[Link], object]) -> None:
        def again() -> None:
            if listener in self._listeners:
                self.loop.add_reader(listener.fileno(), self._accept, listener, serve)

        self.loop.remove_reader(listener.fileno())
        self.loop.call_later(_REST_SECONDS, again)

    def keep(self, sock: socket.socket, seconds: float) -> Link:
        """A link of this run, closed when nothing moves for so long."""
        link = Link(self.loop, sock, self._turn)
        self.links[link] = seconds
        return link

    def drop(self, link: Link) -> None:
        self.links.pop(link, None)
        self._deadlines.pop(link, None)
        link.close()

    def hurry(self, link: Link) -> None:
        """A client begins to ask; a byte now and then does not keep it for ever."""
        self._deadlines.setdefault(link, self.loop.time() + HEAD_SECONDS)

    def heard(self, link: Link) -> None:
        """It has said all it wants."""
        self._deadlines.pop(link, None)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = self.loop.time()
            for link, seconds in list(self.links.items()):
                is_late = now - link.last > seconds or now > self._deadlines.get(link, now)
                if link.closed or is_late:
                    self.drop(link)
                    link.on_end()

    # ---- What the doors share ----

    def is_known(self, credential: bytes) -> bool:
        """Whether somebody says the run's own password; without one the socket itself is private to the run."""
        return not self._credential or secrets.compare_digest(credential, self._credential)

    @property
    def has_credential(self) -> bool:
        return bool(self._credential)

    def denied(self, target: str, decision: Decision, who: Who = NOBODY) -> None:
        """Tell of a refusal, or of a host that was dialled; each once, and of who asked first, where that is known."""
        told, key = self._reported[decision.verdict is Verdict.ALLOW], (target[:300], decision.reason[:300])
        if key in told or len(told) > MOST_TOLD:  # who is refused often hides nothing of what was done for it
            return
        if len(told) == MOST_TOLD:
            decision = Decision(decision.verdict, f"there was more than {MOST_TOLD} of this kind: the rest is not told")
        told.add(key)
        self._report(target, decision, who)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the rest; it ends with the run."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def dial(self, host: str, port: int) -> Link:
        """A link to an allowed host. Raises Denied, which is told of, or Unreachable."""
        try:
            sock = await self.dialler.dial(host, port)
        except Denied as error:
            self.denied(error.target, error.decision)
            raise
        return self.keep(sock, IDLE_SECONDS)

    async def reach(self, host: str, port: int) -> Link:
        """A link to an address that the policy itself names as a filter. Raises Unreachable."""
        return self.keep(await self.dialler.connect(host, port), IDLE_SECONDS)

    def join(self, one: Link, other: Link) -> None:
        """Carry bytes both ways until the end."""
        for link in (one, other):
            self.links[link] = IDLE_SECONDS
            self.heard(link)

        def done() -> None:
            for link in (one, other):
                if link.closed:
                    self.links.pop(link, None)
                else:  # somebody does not take what is still to be sent
                    self.links[link] = LINGER_SECONDS

        Tunnel(one, other, done)

    def close(self) -> None:
        """The run is over."""
        for task in self._tasks:
            task.cancel()
        for sock in self._listeners:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        for sock in self._held:
            self.loop.remove_reader(sock.fileno())  # or the next socket of this number is not waited for
            with contextlib.suppress(OSError):  # the other side has ended already
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._listeners = self._held = []
        for link in list(self.links):
            self.drop(link)
