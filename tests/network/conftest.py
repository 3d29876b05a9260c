"""The real gate, serving sockets on loopback, and servers for it to dial."""

import contextlib
import http.server
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringfence.model import Network, Origin, Verdict
from ringfence.network.control import Refusal
from ringfence.network.start import Gate
from ringfence.policy.reach import host_rule

HERE = Origin("test")


def allowing(*entries: str | int, denied: tuple[str, ...] = (), **facts: Any) -> Network:
    hosts = [host_rule(Verdict.ALLOW, entry, HERE) for entry in entries]
    hosts += [host_rule(Verdict.DENY, entry, HERE) for entry in denied]
    return Network(hosts=tuple(hosts), **facts)


def nobodys(_address: str, _port: int) -> bool:
    """No address is this machine's own."""
    return False


def listener(kind: int = socket.SOCK_STREAM, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    sock.bind((address, port))
    if kind == socket.SOCK_STREAM:
        sock.listen(128)
    return sock


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, and nobody will meanwhile."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


class Served:
    """One run at the gate, by its doors' ports."""

    def __init__(self, gate: Gate, network: Network, doors: tuple[str, ...]) -> None:
        kinds = [socket.SOCK_DGRAM if door.endswith("udp") else socket.SOCK_STREAM for door in doors]
        socks = [listener(kind) for kind in kinds]
        self.ports = {door: sock.getsockname()[1] for door, sock in zip(doors, socks, strict=True)}
        self.gate = gate
        self.number = gate.serve(network, "/ws", doors, tuple(sock.detach() for sock in socks))

    def connect(self, door: str) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.ports[door]), 10)
        sock.settimeout(10)
        return sock

    def ask(self, door: str, data: bytes) -> bytes:
        """Say something, and everything that is answered."""
        with self.connect(door) as sock:
            sock.sendall(data)
            return everything(sock)

    def refusals(self) -> list[Refusal]:
        return [one for one in self.gate.stop(self.number) if not one.allowed]


def everything(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := sock.recv(65536):
            data += more
    return data


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    made = Gate(None)
    yield made
    made.close()


Serve = Callable[..., Served]


@pytest.fixture
def serve(gate: Gate) -> Serve:
    def make(network: Network, *doors: str) -> Served:
        return Served(gate, network, doors)

    return make


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        said = f"{self.command} {self.path} {self.headers['Host']} {body.decode()}".encode()
        self.seen.append(f"{self.requestline}|{self.headers}")
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in said) + b"0\r\n\r\n")
        elif self.path == "/until-closed":
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(said)
        else:
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said)

    do_GET = do_POST = do_HEAD = answer  # noqa: N815 -- as http.server looks for them

    @property
    def seen(self) -> list[str]:
        return self.server.seen  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: object) -> None:
        pass


class Web:
    """An HTTP server on loopback; what was asked of it."""

    def __init__(self) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.seen = []  # type: ignore[attr-defined]
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def seen(self) -> list[str]:
        return self.server.seen  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Echo:
    """A TCP server that says what it hears, and remembers it."""

    def __init__(self, greeting: bytes = b"", address: str = "127.0.0.1", port: int = 0) -> None:
        self.sock = listener(address=address, port=port)
        self.port = self.sock.getsockname()[1]
        self.heard: list[bytes] = []
        self.count = 0
        self.greeting = greeting
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.sock.accept()
                self.count += 1
                threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.sendall(self.greeting)
            while data := client.recv(65536):
                self.heard.append(data)
                client.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.sock.close()


def hello_for(name: str) -> bytes:
    """A ClientHello with a server name, as OpenSSL makes it."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name or None)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def socks_request(host: str | bytes, port: int) -> bytes:
    name = host.encode() if isinstance(host, str) else host
    return b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes((len(name),)) + name + struct.pack(">H", port)
