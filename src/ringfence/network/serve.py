"""The gate's loop: runs come and go by message, each with its doors."""

import asyncio
import collections
import concurrent.futures
import functools
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable

import msgspec

from ..model import Decision, HostRule, Network, Verdict
from . import http_proxy, socks_proxy, ssh_agent
from .asks import Asks
from .control import Refusal, Serve, Stop, Work, receive
from .dial import RESOLVING
from .judge import Denied, Judge, Unreachable, Who
from .link import Link
from .own import is_own
from .questions import Questions
from .run import IDLE_SECONDS, Run

# Of a network, with who knows this machine's addresses, and whether somebody can be asked.
MakeJudge = Callable[[Network, Callable[[str, int], bool], bool], Judge]


class Gate:
    """All runs of whoever started us."""

    def __init__(self, control: int, make_judge: MakeJudge) -> None:
        self._control = control
        self._make_judge = make_judge
        self._runs: dict[int, Run] = {}
        self._owed, self._saying = collections.deque[bytes](), threading.Lock()
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        self._loop.add_reader(control, self._message)

    def _message(self) -> None:
        got = receive(self._control)
        if got is None:
            self._loop.remove_reader(self._control)
            self.ended.set()
            return
        message, fds = got
        if isinstance(message, Serve):
            self.take(message, fds)
        elif message.number in self._runs:
            self._runs.pop(message.number).close()
        if isinstance(message, Stop) and message.waits:
            self._say(Refusal(message.number, "", ""))

    def take(self, serve: Serve, fds: list[int]) -> None:
        """Open a run's doors."""
        judge = self._make_judge(serve.network, is_own, "questions" in serve.doors)
        report = functools.partial(self._report, serve.number)
        network = serve.network
        run = Run(
            judge, serve.workspace, network.parent, network.match_hosts, serve.credential, report, network.known_names
        )
        self._runs[serve.number] = run

        def wider(hosts: tuple[HostRule, ...]) -> Judge:
            more = msgspec.structs.replace(network, hosts=(*network.hosts, *hosts))
            return self._make_judge(more, is_own, True)

        asks: list[Asks] = []
        for door, fd in zip(serve.doors, fds, strict=True):
            sock = socket.socket(fileno=fd)
            if door == "questions":
                run.hold(sock)
                run.dialler.ask = Questions(sock, wider, run.rejudge).ask
            elif door == "asks":
                asks.append(Asks(run, sock))
            elif door.startswith("inward "):
                open_inward(run, sock, asks[0], int(door.split(" ")[1]))
            else:
                open_door(run, door, sock, serve.agent)

    def _report(self, number: int, target: str, decision: Decision, who: Who) -> None:
        """Tell of a refusal, or of what was done."""
        allowed = decision.verdict is Verdict.ALLOW
        origin = str(decision.host.origin)[-300:] if decision.host else ""
        reason, grant = decision.reason[:1000], decision.grant[:300]
        self._say(Refusal(number, target[:300], reason, grant, allowed, origin, *who))

    def _say(self, word: Refusal) -> None:
        """Nobody listens before the end of a run, and a socket holds a few hundred words: the rest waits here."""
        with self._saying:  # a thread that answers the warden speaks too
            self._owed.append(msgspec.json.encode(word))
            if len(self._owed) == 1 and not self._is_said():
                self._loop.call_soon_threadsafe(self._loop.add_writer, self._control, self._flush)

    def _flush(self) -> None:
        with self._saying:
            if self._is_said():
                self._loop.remove_writer(self._control)

    def _is_said(self) -> bool:
        """Whether all that is owed could be said now."""
        end = socket.socket(fileno=self._control)
        try:
            while self._owed:
                end.send(self._owed[0], socket.MSG_DONTWAIT)
                self._owed.popleft()
        except BlockingIOError:
            return False
        except OSError:  # whoever started us is gone
            self._owed.clear()
        finally:
            end.detach()
        return True


def open_door(run: Run, door: str, sock: socket.socket, agent: str) -> None:
    """Serve one socket: `http`, `socks`, `names`, `names-udp`, `agent`, `to HOST PORT`, or `via HOST PORT`."""
    kind, *words = door.split(" ")
    if kind == "http":
        run.listen(sock, lambda link: http_proxy.Session(run, link))
    elif kind == "socks":
        run.listen(sock, lambda link: socks_proxy.Session(run, link))
    elif kind == "names":
        run.listen(sock, run.resolver.serve_stream)
    elif kind == "names-udp":
        run.answer_names(sock)
    elif kind == "agent":
        run.listen(sock, lambda link: ssh_agent.Session(run, link, agent))
    else:
        host, port = words
        run.listen(sock, lambda link: run.start(forward(run, link, host, int(port), judged=kind == "to")))


def open_inward(run: Run, sock: socket.socket, asks: Asks, port: int) -> None:
    """Lead what comes to a port of the host's loopback to the same port of the run's."""

    async def carry(client: Link) -> None:
        try:
            inside = run.keep(await asks.inside(port), IDLE_SECONDS)
        except Unreachable:
            run.drop(client)
            return
        if client.closed:
            run.drop(inside)
            return
        run.join(client, inside)

    run.listen(sock, lambda link: run.start(carry(link)))


async def forward(run: Run, client: Link, host: str, port: int, judged: bool) -> None:
    """Join a connection to one host and port, which is judged as any other; not when it is a filter itself."""
    try:
        upstream = await (run.dial(host, port) if judged else run.reach(host, port))
    except (Denied, Unreachable):
        run.drop(client)  # with a reset, as near to a refused connection as can be after accepting it
        return
    if client.closed:
        run.drop(upstream)
        return
    run.join(client, upstream)


def preload() -> None:
    """Import whatever is imported late otherwise."""
    import concurrent.futures.thread  # noqa: F401  # the loop's own, for resolving names
    import ipaddress  # noqa: F401

    import dns.rdata
    import idna

    dns.rdata.load_all_types(disable_dynamic_load=False)  # type: ignore[no-untyped-call]
    idna.encode("bücher.example", uts46=True)
    "x".encode("idna")  # getaddrinfo() wants the codec


async def _serve(control: int, make_judge: MakeJudge, work: Work) -> None:
    asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(RESOLVING))
    gate = Gate(control, make_judge)
    for serve, fds in work:
        gate.take(serve, fds)
    await gate.ended.wait()


def end_without_threads() -> None:
    """A thread that fails as it begins, for there is no memory, is waited for for ever by whoever began it, and the
    one that answers a run by that run: then all of us ends, and every run is told so."""

    def unraisable(what: "sys.UnraisableHookArgs") -> None:
        if "in thread started by" in (what.err_msg or ""):
            os._exit(1)

    sys.unraisablehook = unraisable
    threading.excepthook = lambda _: os._exit(1)


def serve(control: int, make_judge: MakeJudge, work: Work) -> None:
    """Serve until whoever started us is gone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(0.0005)  # who answers questions shall not wait for who carries bytes
    end_without_threads()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keys of a terminal are the command's
    asyncio.run(_serve(control, make_judge, work))
