"""Whatever clients and servers say, the doors go on: no error is left unhandled, and others are served."""

import asyncio
import contextlib
import functools
import random
import resource
import socket
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.network.conftest import allowing, hello_for, nobodys, socks_request

from ringfence.gate import PolicyJudge
from ringfence.model import Decision, ParentProxy, Verdict
from ringfence.network import http_proxy, socks_proxy
from ringfence.network import link as link_module
from ringfence.network import run as run_module
from ringfence.network.link import Link, Turn
from ringfence.network.run import Run

REQUESTS = [
    b"GET http://127.0.0.1:PORT/a HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"POST http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HEAD http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
    b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: x\r\n\r\n" + hello_for("good.test"),
    socks_request("127.0.0.1", 1) + b"x",
]
REPLIES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil closed",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    b"",
]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, left out, repeated or added."""
    found = bytearray(data)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(found) + 1)
        found[at : at + rng.randrange(3)] = rng.choice((b"", b"\0", b"\r\n", b"\xff", b" ", bytes(rng.randbytes(3))))
    return bytes(found) * rng.choice((1, 1, 1, 2))


def tried(rng: random.Random, serve: Callable[[Run, Link], object]) -> list[str]:
    """One conversation, client and server both hostile; the errors that nobody handled."""
    errors: list[str] = []
    asked, reply = (
        damaged(rng, rng.choice(REQUESTS)),
        damaged(rng, rng.choice(REPLIES)),
    )  # may break off
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    request = asked.replace(b"PORT", str(port).encode())

    def answer() -> None:
        try:
            while True:
                client, _ = server.accept()
                with client:
                    client.settimeout(0.1)
                    client.recv(65536)
                    client.sendall(reply)
        except OSError:
            pass

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(repr(context.get("exception") or context)))
        run = Run(PolicyJudge(allowing(f"127.0.0.1:{port}"), nobodys), "/ws", ParentProxy())
        ours, theirs = socket.socketpair()
        serve(run, run.keep(theirs, 5.0))
        ours.setblocking(False)
        for at in range(0, len(request), 40):
            try:
                await loop.sock_sendall(ours, request[at : at + 40])
            except OSError:
                break
            await asyncio.sleep(0)
        await asyncio.sleep(0.03)
        ours.close()
        await asyncio.sleep(0.01)
        run.close()
        await asyncio.sleep(0)

    thread = threading.Thread(target=answer)
    thread.start()
    asyncio.run(main())
    server.shutdown(socket.SHUT_RDWR)  # wakes whoever accepts
    thread.join()
    server.close()
    return errors


@pytest.mark.parametrize("session", [http_proxy.Session, socks_proxy.Session])
@settings(max_examples=40)
@given(rng=st.randoms(use_true_random=False))
def test_no_conversation_leaves_an_error(session: Callable[[Run, Link], object], rng: random.Random) -> None:
    assert tried(rng, session) == []


def test_a_client_that_says_a_byte_now_and_then_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(run_module, "_SWEEP_SECONDS", 0.05)

    async def main() -> int:
        loop = asyncio.get_running_loop()
        run = Run(PolicyJudge(allowing("a.test"), nobodys), "/ws", ParentProxy())
        door = socket.create_server(("127.0.0.1", 0))
        place = door.getsockname()
        run.listen(door, lambda link: http_proxy.Session(run, link))
        with socket.create_connection(place) as slow:
            slow.setblocking(False)
            said = 0
            try:
                while said < 100:
                    await loop.sock_sendall(slow, b"G")
                    said += 1
                    await asyncio.sleep(0.02)
            except OSError:
                pass
        run.close()
        return said

    assert asyncio.run(main()) < 60


def test_one_run_does_not_take_every_descriptor_of_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs at one gate with few descriptors: a hundred clients of the one do not keep the other's out."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200, 200))

    async def main() -> tuple[int, bytes]:
        runs = [Run(PolicyJudge(allowing("a.test"), nobodys), "/ws", ParentProxy()) for _ in range(2)]
        doors = [socket.create_server(("127.0.0.1", 0), backlog=200) for _ in runs]
        for run, door in zip(runs, doors, strict=True):
            run.listen(door, functools.partial(http_proxy.Session, run))
        greedy = [socket.create_connection(doors[0].getsockname()) for _ in range(100)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection(*doors[1].getsockname())
        writer.write(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        said = await asyncio.wait_for(reader.read(12), 60)
        writer.close()
        await writer.wait_closed()
        held = len(runs[0].links)
        for sock in greedy:
            sock.close()
        for run in runs:
            run.close()
        await asyncio.sleep(0)
        return held, said

    assert asyncio.run(main()) == (50, b"HTTP/1.1 403")


@pytest.mark.parametrize("is_its_own", [False, True], ids=["another run's", "its own"])
def test_a_run_that_asks_without_end_keeps_nobody_waiting(is_its_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that had come of thirty connections was answered before anybody else was heard: seven seconds."""
    asked: list[bytes] = []

    def query(name: bytes) -> bytes:
        said = bytes((0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, len(name))) + name + b"\4test\0\0\1\0\1"
        return len(said).to_bytes(2, "big") + said

    async def main() -> int:
        judge = PolicyJudge(allowing("a.test"), nobodys)
        greedy, other = (Run(judge, "/ws", ParentProxy()) for _ in range(2))
        answer = greedy.resolver.answer

        def counted(said: bytes) -> bytes:
            asked.append(said)
            return answer(said)

        monkeypatch.setattr(greedy.resolver, "answer", counted)
        ends = []
        for run in (*[greedy] * 30, greedy if is_its_own else other):
            ours, theirs = socket.socketpair()
            ends.append(ours)
            run.resolver.serve_stream(run.keep(theirs, 60))
        for number, end in enumerate(ends[:-1]):
            end.sendall(b"".join(query(b"%04d%04d" % (number, count)) for count in range(1500)))
        ends[-1].sendall(query(b"last"))
        ends[-1].setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ends[-1], 100), 60)
        count = len(asked)
        for end in ends:
            end.close()
        for run in (greedy, other):
            run.close()
        await asyncio.sleep(0)
        return count

    assert asyncio.run(main()) < 10_000  # of 45,000


def test_a_run_that_sends_chunks_of_one_letter_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came with the heads was read to its end for all whose servers were reached at one moment: five seconds."""
    sent = 0

    def counted(session: http_proxy.Session, data: bytes | memoryview) -> None:
        nonlocal sent
        sent += 1

    async def main() -> int:
        server = socket.create_server(("127.0.0.1", 0), backlog=100)
        place = f"127.0.0.1:{server.getsockname()[1]}"
        greedy, other = (Run(PolicyJudge(allowing(place), nobodys), "/ws", ParentProxy()) for _ in range(2))
        monkeypatch.setattr(http_proxy.Session, "_send_upstream", counted)
        head = f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        ends = []
        for _ in range(40):
            ours, theirs = socket.socketpair()
            ends.append(ours)
            http_proxy.Session(greedy, greedy.keep(theirs, 60))
            ours.sendall(head + b"1\r\na\r\n" * 2500)
        ours, theirs = socket.socketpair()
        ends.append(ours)
        other.resolver.serve_stream(other.keep(theirs, 60))
        while not sent:
            await asyncio.sleep(0)
        ours.sendall(bytes((0, 20, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2)) + b"is\0\0\1\0\1")
        ours.setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ours, 100), 60)
        for end in (*ends, server):
            end.close()
        for run in (greedy, other):
            run.close()
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(main()) < 50_000  # of 100,000


def test_what_takes_long_to_read_is_heard_in_smaller_pieces_and_one_that_fails_keeps_no_other_waiting() -> None:
    def fail() -> None:
        raise ValueError

    async def main() -> None:
        turn, done = Turn(asyncio.get_running_loop()), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        sizes = []
        for seconds in (*[0.5] * 7, 0.0, 0.5):
            turn.spend(seconds, is_read=True)
            sizes.append(turn.few)
        turn.spend(0.5, is_read=False)
        assert (sizes, turn.few) == ([8192, 4096, 2048, 1024, 512, 512, 512, 576, 512], 512)
        turn.take(fail)
        turn.take(done.set)
        await asyncio.wait_for(done.wait(), 60)

    asyncio.run(main())


def test_what_nobody_takes_is_bounded_for_all_connections_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand downloads that nobody reads were a gigabyte at the gate, which no limit of the run counts."""
    monkeypatch.setattr(link_module, "MOST_KEPT", 1000)

    async def main() -> list[object]:
        before, pairs = Link.kept_by_all, [socket.socketpair() for _ in range(3)]
        links = [Link(asyncio.get_running_loop(), one) for one, _ in pairs]
        for one, _ in pairs[:2]:
            with contextlib.suppress(BlockingIOError):
                while one.send(bytes(4096)):
                    pass
        said: list[object] = [links[0].write(bytes(900)), links[1].write(bytes(900)), Link.kept_by_all - before]
        read: list[int] = []
        links[2].on_data = lambda view: read.append(len(view))
        pairs[2][1].send(bytes(32768))
        links[2]._readable()
        links[0].close()
        said += [read, links[1].write(b"x")]
        while Link.kept_by_all > before:
            with contextlib.suppress(BlockingIOError):
                pairs[1][1].recv(1 << 20, socket.MSG_DONTWAIT)
            await asyncio.sleep(0)
        for link, (_, other) in zip(links, pairs, strict=True):
            link.close()
            other.close()
        return [*said, Link.kept_by_all - before]

    assert asyncio.run(main()) == [True, False, 1800, [16384], True, 0]


def test_a_host_of_64_kib_is_not_remembered_as_refused() -> None:
    async def main() -> int:
        run = Run(PolicyJudge(allowing("a.test"), nobodys), "/ws", ParentProxy())
        for number in range(1000):
            run.denied(f"{number}{'x' * 60_000}", Decision(Verdict.DENY, "x" * 60_000))
        run.close()
        return sum(len(word) for told in run._reported.values() for one in told for word in one)

    assert asyncio.run(main()) == 600_000
