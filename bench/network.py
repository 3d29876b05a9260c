"""`python bench/network.py`: what a connection costs, by each way out, against a direct one; interleaved, medians.

A server on an address of this machine, under a name that /etc/hosts has in a mount namespace of the bench's own:
three times 2,000 requests with keep-alive, 300 connections, each with its own look at the name, six times 200 MB. The
same client runs bare and inside. For requests, client and server have a processor each where there are two, for on
one they take turns, and which it is changes from start to start; downloads move freely. These machines have fast and
slow moments: medians, and behind them the best.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "15"))
PYTHON = "/usr/bin/python3"
NAME = "bench.test"

SERVER = """
import asyncio, os, sys
if "pinned" in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 200\\r\\n\\r\\n" + b"x" * 200
BIG, PIECE = 200 << 20, b"y" * (1 << 20)
class Serve(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.kept, self.free = transport, b"", asyncio.Event()
        self.free.set()
    def pause_writing(self):
        self.free.clear()
    def resume_writing(self):
        self.free.set()
    def data_received(self, data):
        self.kept += data
        while b"\\r\\n\\r\\n" in self.kept:
            head, _, self.kept = self.kept.partition(b"\\r\\n\\r\\n")
            if b"/big" in head.split(b"\\r\\n")[0]:
                asyncio.get_running_loop().create_task(self.big())
            else:
                self.transport.write(REPLY)
    async def big(self):
        self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % BIG)
        for _ in range(BIG >> 20):
            await self.free.wait()
            self.transport.write(PIECE)
async def main():
    server = await asyncio.get_running_loop().create_server(Serve, "0.0.0.0", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

CLIENT = """
import json, os, socket, sys, time
everywhere = os.sched_getaffinity(0)
os.sched_setaffinity(0, {max(everywhere)})
way, host, port, far = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
room = bytearray(1 << 18)
def connect():
    place = {"http": ("127.0.0.1", 3128), "tunnel": ("127.0.0.1", 3128), "socks": ("127.0.0.1", 1080)}
    sock = socket.create_connection(place.get(way, (host, port)))
    sock.setsockopt(6, 1, 1)
    if way == "tunnel":
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
        assert b" 200 " in sock.recv(1000)
    if way == "socks":
        name = bytes((3, len(host))) + host.encode()
        sock.sendall(b"\\x05\\x01\\x00\\x05\\x01\\x00" + name + port.to_bytes(2, "big"))
        got = b""
        while len(got) < 12:
            got += sock.recv(12 - len(got))
    return sock
def fetch(sock, path):
    target = f"http://{host}:{port}{path}" if way == "http" else path
    sock.sendall(f"GET {target} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nUser-Agent: b\\r\\n\\r\\n".encode())
    data = b""
    while b"\\r\\n\\r\\n" not in data:
        data += sock.recv(65536)
    head, _, rest = data.partition(b"\\r\\n\\r\\n")
    left = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0]) - len(rest)
    while left:
        left -= sock.recv_into(room)
def timed(count, work):
    begin = time.perf_counter()
    for _ in range(count):
        work()
    return count / (time.perf_counter() - begin)
def once():
    with connect() as sock:
        fetch(sock, "/")
with connect() as sock:
    timed(100, lambda: fetch(sock, "/"))
    requests = timed(3 * 2000, lambda: fetch(sock, "/"))
connections = timed(300, once)
os.sched_setaffinity(0, everywhere)
port = far
with connect() as sock:
    download = timed(6, lambda: fetch(sock, "/big")) * 200
print(json.dumps([requests, connections, download]))
"""


def own_address() -> str:
    """An address of this machine that is not its loopback."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.77", 9))
        return str(sock.getsockname()[0])


def measured(way: str, address: str, ports: list[int], workspace: str) -> list[float]:
    words = [PYTHON, "-I", "-S", "client.py", "direct" if way == "by name" else way, NAME, *map(str, ports)]
    if way != "direct":
        allowed = [word for port in ports for host in (NAME, address) for word in ("--allow-host", f"{host}:{port}")]
        words = [str(Path(sys.executable).with_name("ringfence")), "run", "--as-root", *allowed, "--", *words]
    words = ["unshare", "--mount", "sh", "-c", 'mount --bind ../hosts /etc/hosts && exec "$@"', "sh", *words]
    done = subprocess.run(words, cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure, and print a table."""
    commands = [[PYTHON, "-I", "-S", "-c", SERVER, *words] for words in (["pinned"], [])]
    servers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in commands]
    ports = [int(server.stdout.readline()) for server in servers if server.stdout]
    address = own_address()
    ways = ("direct", "by name", "http", "tunnel", "socks")
    seen: dict[str, list[list[float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        workspace = f"{base}/ws"
        os.mkdir(workspace)
        Path(base, "hosts").write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")
        Path(workspace, "client.py").write_text(CLIENT)
        for _ in range(ROUNDS):
            for way in ways:
                seen[way].append(measured(way, address, ports, workspace))
    for server in servers:
        server.terminate()
        server.wait()
    print(f"{'':8} {'requests/s':>18} {'connections/s':>18} {'MB/s':>18}")
    for title, best in (("", statistics.median), (" at best", max)):
        bare = [best(column) for column in zip(*seen["direct"], strict=True)]
        for way in ways:
            found = [best(column) for column in zip(*seen[way], strict=True)]
            row = (f"{value:9.0f} {value / one:6.2f} x" for value, one in zip(found, bare, strict=True))
            print(f"{way:8}", *row, title)


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
