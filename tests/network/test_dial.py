"""Dialling: what was judged is what is dialled, and a name that turns elsewhere is refused."""

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.network.conftest import HERE, Echo, allowing, listener, nobodys

from ringfence.gate import PolicyJudge
from ringfence.gates import with_parent
from ringfence.model import Decision, HostRule, LaunchError, Network, ParentProxy, Verdict
from ringfence.network import asks as asks_module
from ringfence.network import dial as dial_module
from ringfence.network.asks import Asked, Asks
from ringfence.network.dial import Dialler
from ringfence.network.judge import NOBODY, Denied, Judge, Unreachable
from ringfence.network.names import Names
from ringfence.network.own import is_own
from ringfence.network.run import Run

Answers = list[list[str]]


def with_dialler(network: Network, work: Callable[[Dialler], Coroutine[Any, Any, Any]], answers: Answers) -> Any:
    """Do something with a dialler whose resolver gives these answers, one after the other."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()

        async def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
            if not answers:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port)) for one in found]

        loop.getaddrinfo = resolve  # type: ignore[method-assign,assignment]  # the one seam: the world's names
        return await work(Dialler(PolicyJudge(network, is_own), Names("/ws"), network.parent))

    return asyncio.run(main())


def test_a_name_that_first_leads_outside_and_then_to_loopback_is_refused(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial_module, "_RESOLVED_SECONDS", 0.0)

    async def rebind(dialler: Dialler) -> list[object]:
        first = await dialler.resolve("a.test", echo.port, dialler.judge)
        try:
            await dialler.dial("a.test", echo.port)
        except Denied as error:
            return [first, str(error)]
        return [first, "reached"]

    first, said = with_dialler(allowing("a.test"), rebind, [["93.184.215.14"], ["127.0.0.1"]])

    assert first == [(socket.AF_INET, ("93.184.215.14", echo.port))]
    assert said == "a.test leads to 127.0.0.1, a loopback address, and nobody named that"
    assert echo.count == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "::ffff:127.0.0.1", "0.0.0.0"])
def test_of_several_addresses_only_those_that_may_be_are_dialled(address: str) -> None:
    async def resolve(dialler: Dialler) -> object:
        return await dialler.resolve("a.test", 80, dialler.judge)

    assert with_dialler(allowing("a.test"), resolve, [[address, "93.184.215.14"]]) == [
        (socket.AF_INET, ("93.184.215.14", 80))
    ]


def test_of_a_name_with_thousands_of_addresses_few_are_looked_at() -> None:
    """Whoever owns it chooses how many there are, and every other run waits meanwhile."""
    looked: list[str] = []

    def own(address: str, _port: int) -> bool:
        looked.append(address)
        return False

    async def resolve(dialler: Dialler) -> int:
        dialler.judge = PolicyJudge(allowing("a.test"), own)
        return len(await dialler.resolve("a.test", 443, dialler.judge))

    many = [f"93.184.{number >> 8}.{number & 255}" for number in range(4000)]

    assert with_dialler(allowing("a.test"), resolve, [many]) == 32 == len(looked)


def test_an_address_that_does_not_answer_is_not_the_last(echo: Echo) -> None:
    network = allowing("a.test", f"127.0.0.1:{echo.port}", f"127.0.0.2:{echo.port}")

    async def reach(dialler: Dialler) -> object:
        sock = await dialler.dial("a.test", echo.port)
        with sock:
            return sock.getpeername()[0]

    assert with_dialler(network, reach, [["127.0.0.2", "127.0.0.1"]]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("asked", "dialled"),
    [
        ("stra\xdfe.test", "xn--strae-oqa.test"),  # an older reader makes strasse.test of it
        ("GOOD.Test.", "good.test"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
    ],
)
def test_what_was_judged_is_what_is_dialled(asked: str, dialled: str) -> None:
    async def target(dialler: Dialler) -> str:
        return dialler.target(asked, 443)

    assert with_dialler(allowing("stra\xdfe.test", "good.test", "[2001:db8::1]", "1.2.3.4"), target, []) == dialled


def test_a_name_that_nobody_knows_is_unreachable() -> None:
    async def reach(dialler: Dialler) -> object:
        try:
            await dialler.dial("a.test", 80)
        except Unreachable as error:
            return error.errno
        return 0

    assert with_dialler(allowing("a.test"), reach, []) == errno.EHOSTUNREACH


class Parent:
    """Somebody else's proxy: it takes one request and then says what it hears."""

    def __init__(self, answer: bytes, size: int) -> None:
        self.sock = listener()
        self.port = self.sock.getsockname()[1]
        self.heard = b""
        self.answer, self.size = answer, size
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        client, _ = self.sock.accept()
        with client:
            with contextlib.suppress(OSError):  # whoever asked may have hung up
                for part in self.answer.split(b"|"):
                    self.heard += client.recv(self.size)
                    client.sendall(part)


@pytest.mark.parametrize(
    ("scheme", "answer", "heard"),
    [
        ("http", b"HTTP/1.1 200 OK\r\n\r\n", b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"),
        ("http", b"HTTP/1.1 403 No\r\n\r\n", b"CONNECT a.test:443"),
        ("socks5h", b"\x05\x00|\x05\x00\x00\x01" + bytes(6), b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb"),
        ("socks5h", b"\x05\x00|\x05\x02\x00\x01" + bytes(6), b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb"),
    ],
)
def test_a_parent_proxy_is_dialled_through(scheme: str, answer: bytes, heard: bytes) -> None:
    parent = Parent(answer, 4096)
    network = allowing("a.test", parent=ParentProxy(https=f"{scheme}://127.0.0.1:{parent.port}"))

    async def reach(dialler: Dialler) -> str:
        try:
            (await dialler.dial("a.test", 443)).close()
        except Unreachable as error:
            return str(error)
        return "reached"

    said = with_dialler(network, reach, [["127.0.0.1"]])
    parent.thread.join()
    parent.sock.close()

    good = b"200" in answer or answer.endswith(b"\x05\x00\x00\x01" + bytes(6))
    assert (said == "reached") is good
    assert parent.heard.startswith(heard)


@pytest.mark.parametrize(
    ("scheme", "answer", "heard"),
    [
        ("http", b"HTTP/1.1 200 OK\r\n\r\n", b"Proxy-Authorization: Basic bWVAaG9tZTphOmIv\r\n"),  # me@home:a:b/
        ("socks5h", b"\x05\x02|\x01\x00|\x05\x00\x00\x01" + bytes(6), b"\x01\x07me@home\x04a:b/"),
    ],
)
def test_what_a_parent_proxy_is_told_is_what_its_url_spells(scheme: str, answer: bytes, heard: bytes) -> None:
    parent = Parent(answer, 4096)
    network = allowing("a.test", parent=ParentProxy(https=f"{scheme}://me%40home:a%3Ab%2F@127.0.0.1:{parent.port}"))

    async def reach(dialler: Dialler) -> None:
        (await dialler.dial("a.test", 443)).close()

    with_dialler(network, reach, [["127.0.0.1"]])
    parent.thread.join()
    parent.sock.close()

    assert heard in parent.heard


@pytest.mark.parametrize(
    ("host", "entries", "is_direct"),
    [
        ("corp.test", "corp.test", True),
        ("git.corp.test", "other.test, Corp.test", True),  # as curl, wget, Python and Go read it
        ("git.corp.test", "other.test corp.test", True),  # as curl and wget do
        ("other.test", "other.test corp.test", True),
        ("git.corp.test", "*.corp.test", True),
        ("git.corp.test", ".corp.test", True),
        ("evilcorp.test", "corp.test,.corp.test", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("fd00::1", "10.0.0.0/8,fd00::/8", True),
        ("11.1.2.3", "10.0.0.0/8,corp/8", False),
        ("a.test", "10.0.0.0/8,,", False),
        ("a.test", "*", True),
        ("localhost", "", True),
    ],
)
def test_no_proxy_is_read_as_other_programs_read_it(host: str, entries: str, is_direct: bool) -> None:
    network = with_parent(allowing("a.test"), {"https_proxy": "proxy.test:3128", "NO_PROXY": entries})

    async def parent(dialler: Dialler) -> str:
        return dialler.parent_for(host, 443)

    assert with_dialler(network, parent, []) == ("" if is_direct else "http://proxy.test:3128")


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_parent_proxy_that_hangs_up_is_told_of(scheme: str) -> None:
    """By a reset, which the command would otherwise wait behind until its own patience ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        network = allowing("a.test", parent=ParentProxy(https=f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"))

        def hang_up() -> None:
            link = listener.accept()[0]
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()

        thread = threading.Thread(target=hang_up)
        thread.start()

        async def reach(dialler: Dialler) -> str:
            try:
                await dialler.dial("a.test", 443)
            except Unreachable as error:
                return str(error)
            return "reached"

        said = with_dialler(network, reach, [["127.0.0.1"]])
        thread.join()

    assert said.startswith("the parent proxy 127.0.0.1:")


def test_what_is_not_allowed_does_not_get_to_the_parent() -> None:
    network = allowing("a.test", parent=ParentProxy(https="http://127.0.0.1:1"))

    async def reach(dialler: Dialler) -> str:
        try:
            await dialler.dial("evil.test", 443)
        except Denied:
            return "denied"
        return "reached"

    assert with_dialler(network, reach, [["127.0.0.1"]]) == "denied"


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("10.1.2.3", "denied"),  # by its address: the parent need not resolve it, so it is ours to judge
        ("127.0.0.1", "reached"),  # this machine's, as it was named, and not the parent's own
        ("127.7.7.7", "127.7.7.7: Connection refused"),
        ("0.0.0.0", "reached"),
        ("a.test", "the parent's"),
    ],
)
def test_an_address_is_judged_and_a_loopback_is_ours_with_a_parent_too(echo: Echo, host: str, said: str) -> None:
    network = allowing(
        "10.1.2.3",
        f"localhost:{echo.port}",
        "127.7.7.7",
        "0.0.0.0",
        "a.test",
        denied_addresses=(HostRule(Verdict.DENY, "10.0.0.0/8", 0, HERE, "10.0.0.0/8"),),
        parent=ParentProxy(http="http://127.0.0.1:1", https="http://127.0.0.1:1"),
    )

    async def reach(dialler: Dialler) -> str:
        try:
            (await dialler.dial(host, echo.port)).close()
        except Denied:
            return "denied"
        except Unreachable as error:
            return "the parent's" if "parent" in str(error) else str(error).replace(f":{echo.port}", "")
        return "reached"

    assert with_dialler(network, reach, [["127.0.0.1"]]) == said


@pytest.mark.parametrize(
    ("host", "port", "is_asked"),
    [
        ("b.test", 80, True),
        ("b.test", 0, False),
        ("b.test", 70000, False),
        ("no host", 80, False),
        ('"' * 40_000, 80, False),  # longer than what passes to whoever asks
        ("denied.test", 80, False),
    ],
    ids=["a-host", "port-0", "no-port", "no-host", "long", "denied"],
)
def test_a_person_is_asked_only_what_a_person_may_grant(host: str, port: int, is_asked: bool) -> None:
    """Anything else ended whoever asks, and nobody was asked about anything any more."""
    asked: list[str] = []

    async def reach(dialler: Dialler) -> None:
        async def ask(host: str, port: int, decision: Decision, _who: object) -> Judge:
            asked.append(host)
            raise Denied(host, decision)

        dialler.ask = ask
        with pytest.raises(Denied):
            await dialler.dial(host, port)

    with_dialler(allowing("a.test", denied=("denied.test",)), reach, [["10.1.2.3"]])

    assert asked == [host] * is_asked


@pytest.mark.parametrize("keep", [False, True])
def test_an_address_that_a_person_allowed_once_is_asked_about_again(keep: bool) -> None:
    """And not for two seconds nobody's to judge, as what was resolved just now is."""
    network, asked = allowing("a.test"), list[str]()

    async def reach(dialler: Dialler) -> None:
        async def ask(host: str, port: int, _decision: object, _who: object) -> Judge:
            asked.append(f"{host}:{port}")
            judge = PolicyJudge(allowing("a.test", host), nobodys)
            if keep:
                dialler.judge = judge
            return judge

        dialler.ask = ask
        for _ in range(2):
            await dialler.resolve("a.test", 80, dialler.judge)

    with_dialler(network, reach, [["10.1.2.3"]])

    assert asked == ["10.1.2.3:80"] * (1 if keep else 2)


def test_names_that_nobody_answers_for_keep_no_other_run_waiting() -> None:
    """One run asks for hundreds of them, each of which keeps a thread of the gate's for as long as a resolver waits."""

    async def main() -> tuple[int, list[str]]:
        loop = asyncio.get_running_loop()
        asked: list[str] = []

        async def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
            asked.append(host)
            await (asyncio.sleep(0) if host == "quick.test" else loop.create_future())
            return [(socket.AF_INET, 1, 6, "", ("93.184.215.14", port))]

        loop.getaddrinfo = resolve  # type: ignore[method-assign,assignment]
        names = [f"{number}.slow.test" for number in range(3 * dial_module.RESOLVING)]
        hostile, other = (
            Dialler(PolicyJudge(allowing("*.slow.test", "quick.test"), nobodys), Names("/ws"), ParentProxy())
            for _ in range(2)
        )
        tasks = [loop.create_task(hostile.resolve(name, 80, hostile.judge)) for name in names]
        while not asked:
            await asyncio.sleep(0)
        await other.resolve("quick.test", 80, other.judge)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # who asked has given up, but no thread has
        again = loop.create_task(hostile.resolve("again.slow.test", 80, hostile.judge))
        await asyncio.wait([again], timeout=0.01)
        return len(asked), asked[-1:]

    count, last = asyncio.run(main())

    assert count < dial_module.RESOLVING // 4
    assert last == ["quick.test"]


def test_addresses_that_say_nothing_take_no_more_descriptors_than_a_run_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is tried beside the others of its name, for as long as the kernel waits: two minutes."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (800, 800))
    monkeypatch.setattr(dial_module, "_STAGGER", 0.001)
    silent = [f"93.184.215.{number}" for number in range(40)]

    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        quick: asyncio.Future[None] = loop.create_future()

        async def connect(_sock: socket.socket, place: tuple[str, int]) -> None:
            await (quick if place[0] == "93.184.216.1" else loop.create_future())

        monkeypatch.setattr(loop, "sock_connect", connect)
        greedy, other = (Run(PolicyJudge(allowing("a.test"), nobodys), "/ws", ParentProxy()) for _ in range(2))
        before = len(os.listdir("/proc/self/fd"))
        places = [(int(socket.AF_INET), (address, 443)) for address in silent]
        tasks = [loop.create_task(greedy.dialler.first(places)) for _ in range(20)]
        await asyncio.sleep(1)
        taken = len(os.listdir("/proc/self/fd")) - before
        quick.set_result(None)
        (await asyncio.wait_for(other.dialler.connect("93.184.216.1", 443), 10)).close()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        left = len(os.listdir("/proc/self/fd")) - before
        for run in (greedy, other):
            run.close()
        await asyncio.sleep(0)
        return taken, left

    assert asyncio.run(main()) == (100, 0)


@pytest.mark.parametrize(
    ("failing", "answer"),
    [
        (OSError(errno.EMFILE, "too many open files"), errno.EMFILE),
        (OverflowError("a port that is none"), errno.EHOSTUNREACH),
    ],
)
def test_whoever_asked_is_answered_whatever_goes_wrong(failing: Exception, answer: int) -> None:
    """A connection that nobody answers waits for as long as its program does."""
    said: list[int] = []

    class Failing(Asks):
        def __init__(self) -> None:
            pass

        async def _dial(self, *_: object) -> socket.socket:
            raise failing

        def _reply(self, asked: Asked, error: int, sock: socket.socket | None, flags: int = 0) -> bool:
            said.append(error)
            return True

    asyncio.run(Failing()._answer((1, 3, 0), NOBODY, "a.test", 443, socket.AF_INET))

    assert said == [answer]


def test_who_answers_at_once_goes_on_where_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nobody would answer anything more of this run, and its programs would wait for ever."""

    def fail(_place: object) -> socket.socket:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(asks_module, "_begin", fail)

    async def ask(dialler: Dialler) -> bool:
        await dialler.resolve("93.184.215.14", 80, dialler.judge)
        asks = Asks.__new__(Asks)
        asks.run = SimpleNamespace(dialler=dialler)  # type: ignore[assignment]
        return asks._at_once((1, 3, 0), NOBODY, "93.184.215.14", 80, socket.AF_INET)

    assert with_dialler(allowing("93.184.215.14"), ask, []) is False


@pytest.mark.parametrize("waits", [False, True])
def test_who_does_not_wait_is_led_to_an_address_that_there_is_a_way_to(echo: Echo, waits: bool) -> None:
    """On a machine with one of the two families most names have addresses of the other too."""
    network = allowing("a.test", f"224.0.0.1:{echo.port}", f"127.0.0.1:{echo.port}")

    async def reach(dialler: Dialler) -> str:
        asks = Asks.__new__(Asks)
        asks.run = SimpleNamespace(dialler=dialler)  # type: ignore[assignment]
        with await asks._dial("a.test", echo.port, socket.AF_INET, waits, NOBODY) as sock:
            return str(sock.getpeername()[0])

    assert with_dialler(network, reach, [["224.0.0.1", "127.0.0.1"]]) == "127.0.0.1"
    with pytest.raises(Unreachable) as none:
        with_dialler(network, reach, [["224.0.0.1"]])
    assert none.value.errno == errno.ENETUNREACH


@contextlib.contextmanager
def silent(port: int) -> Iterator[str]:
    """An address that says nothing: nobody takes who waits there, and there is no room for more."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(listener(address="127.0.0.2", port=port)).listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", port))
        yield "127.0.0.2"


def test_an_address_that_says_nothing_keeps_nobody_from_the_next(echo: Echo) -> None:
    """And is no longer tried when another has answered."""

    async def reach(dialler: Dialler) -> tuple[str, int]:
        with await dialler.dial("a.test", echo.port) as sock:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            _, left = await asyncio.wait(others, timeout=5)
            return str(sock.getpeername()[0]), len(left)

    with silent(echo.port) as address:  # behind it one that refuses
        addresses = [address, "127.0.0.3", "127.0.0.1"]
        network = allowing("a.test", *(f"{one}:{echo.port}" for one in addresses))
        assert with_dialler(network, reach, [addresses]) == ("127.0.0.1", 0)


def unreached(network: Network, host: str, port: int, answers: Answers) -> tuple[int, str]:
    """Why a host that may be reached cannot be."""

    async def reach(dialler: Dialler) -> Unreachable:
        with pytest.raises(Unreachable) as none:
            await dialler.dial(host, port)
        return none.value

    error = with_dialler(network, reach, answers)
    return error.errno, str(error)


@pytest.mark.parametrize("more", [[], ["127.0.0.1"]], ids=["alone", "and one that refuses"])
def test_a_host_that_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, closed_port: int, more: list[str]
) -> None:
    monkeypatch.setattr(dial_module, "SECONDS", 0.6)
    monkeypatch.setattr(dial_module, "_STAGGER", 0.05)
    with silent(closed_port) as address:
        network = allowing("a.test", *(f"{one}:{closed_port}" for one in [address, *more]))

        said = unreached(network, "a.test", closed_port, [[address, *more]])

    assert said == (errno.ETIMEDOUT, f"a.test:{closed_port} does not answer")


def test_a_host_of_which_every_address_refuses_says_why(closed_port: int) -> None:
    addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    network = allowing("a.test", *(f"{address}:{closed_port}" for address in addresses))

    said = unreached(network, "a.test", closed_port, [addresses])

    assert said == (errno.ECONNREFUSED, f"127.0.0.1:{closed_port}: Connection refused")


def test_while_this_machines_own_addresses_are_not_known_nothing_is_reached(echo: Echo) -> None:
    """The kernel may have no memory for an answer, and any address might be one of them."""

    def unknown(_address: str, _port: int) -> bool:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    async def reach(dialler: Dialler) -> str:
        dialler.judge = PolicyJudge(allowing("a.test"), unknown)
        with pytest.raises(Unreachable) as none:
            await dialler.dial("a.test", echo.port)
        return str(none.value)

    said = with_dialler(allowing("a.test"), reach, [["93.184.215.14"]])

    assert said == "a.test cannot be judged: Cannot allocate memory"


@pytest.mark.parametrize(
    ("addresses", "is_asked"), [(["10.1.2.3"], True), (["10.1.2.3", "93.184.215.14"], False), (["10.9.9.9"], False)]
)
def test_a_person_is_asked_about_an_address_only_where_that_opens_anything(
    addresses: list[str], is_asked: bool
) -> None:
    """Not where another address of the host may be reached, nor where no grant opens it."""
    asked: list[str] = []
    denied = (HostRule(Verdict.DENY, "10.9.0.0/16", 0, HERE, "10.9.0.0/16"),)

    async def resolve(dialler: Dialler) -> None:
        async def ask(host: str, port: int, decision: Decision, _who: object) -> Judge:
            asked.append(host)
            raise Denied(host, decision)

        dialler.ask = ask
        with contextlib.suppress(Denied):
            await dialler.resolve("a.test", 80, dialler.judge)

    with_dialler(allowing("a.test", denied_addresses=denied), resolve, [addresses])

    assert asked == ["10.1.2.3"] * is_asked


def counted(dialler: Dialler) -> list[str]:
    """The names that are resolved from now on."""
    resolve, names = dialler._loop.getaddrinfo, list[str]()

    async def count(host: str, *place: Any, **kind: Any) -> Any:
        names.append(host)
        return await resolve(host, *place, **kind)

    dialler._loop.getaddrinfo = count  # type: ignore[method-assign,assignment]
    return names


def test_a_name_is_resolved_once_in_a_moment_and_what_is_remembered_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`*.x` lets a command ask for names without end, and the process is other runs' too."""
    monkeypatch.setattr(dial_module, "_MOST_RESOLVED", 4)
    monkeypatch.setattr(dial_module, "_RESOLVED_SECONDS", 600.0)
    wanted = [f"{number}.a.test" for number in range(3 * dial_module._AT_ONCE)]

    async def resolve(dialler: Dialler) -> tuple[list[str], int]:
        names, most = counted(dialler), 0
        for name in wanted:
            for _ in range(2):
                await dialler.resolve(name, 80, dialler.judge)
            most = max(most, len(dialler._resolved))
        return names, most

    assert with_dialler(allowing("*.a.test"), resolve, [["93.184.215.14"]]) == (wanted, 4)


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("127.0.0.1:99999", "a port is a number from 1 to 65535"),
        ("http://proxy.test:\xb2", "a port is a number from 1 to 65535"),
        ("http://.proxy.test:80", "a name between its dots is missing, or too long"),
        ("https://me:secret@proxy.test", "it is spoken to as HTTP or SOCKS5, and not by TLS"),
        ("http://", "it is empty, or longer than a name may be"),
        ("socks://proxy.test", "socks5h://proxy.test"),
        ("HTTP://proxy.test/", "http://proxy.test/"),
    ],
)
def test_a_variable_names_a_proxy_or_nothing_runs(said: str, where: str) -> None:
    """Whoever connected waited for an answer without end, and a proxy of TLS was told the password in plain words."""
    try:
        found = with_parent(allowing("a.test"), {"HTTPS_PROXY": said}).parent.https
    except LaunchError as error:
        found = str(error).removeprefix("HTTPS_PROXY: names no proxy that can be dialled through: ")
    assert found == where  # and not the password


@pytest.mark.parametrize(
    ("network", "asks", "is_read"),
    [
        (allowing(), False, False),
        (allowing(6379, "127.0.0.1:5432", "[::1]:80", denied=("a.test",)), False, False),
        (allowing(6379), True, True),  # a person may grant another host yet
        (allowing(6379, "a.test"), False, True),
        (allowing("*.a.test"), False, True),
    ],
)
def test_who_is_allowed_this_machine_alone_needs_no_proxy(network: Network, asks: bool, is_read: bool) -> None:
    """What a variable says that nobody dials through is no reason to refuse a run with a database of this machine."""
    try:
        with_parent(network, {"HTTPS_PROXY": "https://proxy.test"}, asks)
    except LaunchError:
        assert is_read
    else:
        assert not is_read


def test_a_parent_proxy_is_looked_for_at_every_address_of_its_name() -> None:
    """As localhost, which is ::1 first, and most proxies listen at 127.0.0.1."""
    parent = Parent(b"HTTP/1.1 200 OK\r\n\r\n", 4096)
    network = allowing("a.test", parent=ParentProxy(https=f"http://proxy.test:{parent.port}"))

    async def reach(dialler: Dialler) -> None:
        (await dialler.dial("a.test", 443)).close()

    with parent.sock:
        with_dialler(network, reach, [["::1", "127.0.0.1"]])
        parent.thread.join()


def test_a_parent_proxy_that_says_too_much_keeps_nobody_waiting() -> None:
    """It was heard a byte at a time, while every other run waited."""
    parent = Parent(b"HTTP/1.1 200 OK\r\n" + b"x" * 20_000 + b"|", 4096)
    network = allowing("a.test", parent=ParentProxy(https=f"http://127.0.0.1:{parent.port}"))
    heard: list[int] = []

    async def reach(dialler: Dialler) -> None:
        receive = dialler._loop.sock_recv

        def counted(sock: socket.socket, count: int) -> Coroutine[Any, Any, bytes]:
            heard.append(count)
            return receive(sock, count)

        dialler._loop.sock_recv = counted  # type: ignore[method-assign,assignment]
        with pytest.raises(Unreachable):
            await dialler.dial("a.test", 443)

    with parent.sock:
        with_dialler(network, reach, [["127.0.0.1"]])
        parent.thread.join()
    assert len(heard) < 100


@pytest.mark.parametrize(
    ("parent", "ports"),
    [
        (ParentProxy(http="http://one.test:1", https="http://two.test:2"), {80: 1, 443: 2, 8080: 2}),
        (ParentProxy(https="http://two.test:2"), {80: 2, 443: 2}),
        (ParentProxy(https="http://two.test"), {443: 80}),
        (ParentProxy(https="socks5h://two.test"), {443: 1080}),
    ],
)
def test_which_port_of_which_parent_proxy_is_dialled(parent: ParentProxy, ports: dict[int, int]) -> None:
    async def reach(dialler: Dialler) -> dict[int, int]:
        seen: dict[int, int] = {}

        async def resolve(host: str, number: int, **_: object) -> object:
            assert host in ("one.test", "two.test")
            seen[port] = number
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        dialler._loop.getaddrinfo = resolve  # type: ignore[method-assign,assignment]
        for port in ports:
            with pytest.raises(Unreachable):
                await dialler.dial("a.test", port)
        return seen

    assert with_dialler(allowing("a.test", parent=parent), reach, []) == ports


SOCKS_OK = b"\x05\x00|\x05\x00\x00"


@pytest.mark.parametrize(
    ("scheme", "host", "answer"),
    [
        ("http", "2001:db8::1", b"HTTP/1.1 200\r\n\r\n"),
        ("http", "a.test", b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n"),
        ("socks5h", "a.test", SOCKS_OK + b"\x01" + bytes(4 + 2)),
        ("socks5h", "a.test", SOCKS_OK + b"\x03" + bytes((9,)) + bytes(9 + 2)),
        ("socks5h", "a.test", SOCKS_OK + b"\x04" + bytes(16 + 2)),
    ],
)
def test_what_comes_behind_a_parent_proxys_answer_is_the_hosts(scheme: str, host: str, answer: bytes) -> None:
    parent = Parent(answer + b"first", 4096)
    network = allowing("a.test", "[2001:db8::1]", parent=ParentProxy(https=f"{scheme}://127.0.0.1:{parent.port}"))

    async def reach(dialler: Dialler) -> bytes:
        with await dialler.dial(host, 443) as sock:
            return await dialler._loop.sock_recv(sock, 100)

    with parent.sock:
        assert with_dialler(network, reach, [["127.0.0.1"]]) == b"first"
        parent.thread.join()
    if scheme == "http":
        name = f"[{host}]" if ":" in host else host
        assert parent.heard == f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("url", "answer", "said"),
    [
        ("http://", b"", "does not answer as one"),
        ("http://", b"HTTP/1.1 200 OK\r\n", "does not answer as one"),
        ("http://", b"HTTP/1.1 200 OK\r\n" + b"x" * 20_000 + b"|", "does not answer as one"),
        ("http://", b"hello\r\n\r\n", "says "),
        ("http://", b"HTTP/1.1 407 No\r\n\r\n", "says 407 No"),
        ("http://", b"HTTP/1.1 503 \x1b[2J\nringfence: it is well\r\n\r\n", "says 503 ?[2J?ringfence: it is well"),
        ("socks5://", b"\x05\xff|" + SOCKS_OK + b"\x01" + bytes(6), "refuses"),
        ("socks5://", b"\x05\x00|\x05", "hangs up"),
        ("socks5://me:no@", b"\x05\x02|\x01\x01|" + SOCKS_OK + b"\x01" + bytes(6), "refuses the password"),
    ],
)
def test_a_parent_proxy_that_does_not_lead_there_is_no_way(url: str, answer: bytes, said: str) -> None:
    """Nothing of what it says is taken for the host's, and its connection is closed."""
    parent = Parent(answer, 4096)
    network = allowing("a.test", parent=ParentProxy(https=f"{url}127.0.0.1:{parent.port}"))

    with parent.sock:
        found = unreached(network, "a.test", 443, [["127.0.0.1"]])
        parent.thread.join()

    assert found == (errno.ECONNREFUSED, f"the parent proxy {said}")


def test_an_address_that_was_granted_for_a_while_is_not_reached_after_it(echo: Echo) -> None:
    """What it had led to was kept for some seconds, whoever judged by then."""

    async def reach(dialler: Dialler) -> list[str]:
        said = []
        for network in (allowing("a.test", f"127.0.0.1:{echo.port}"), allowing("a.test")):
            dialler.rejudge(PolicyJudge(network, is_own))
            try:
                (await dialler.dial("a.test", echo.port)).close()
                said.append("reached")
            except Denied as refused:
                said.append(str(refused))
        return said

    refusal = "a.test leads to 127.0.0.1, a loopback address, and nobody named that"
    assert with_dialler(Network(), reach, [["127.0.0.1"]]) == ["reached", refusal]
