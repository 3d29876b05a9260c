"""`python bench/service.py [tenants | rate | runs | kill [COUNT]] [fair]`: the service under load.

As root, with real users, a real PostgreSQL server and wrk. `tenants` makes them and lists them; `rate` has wrk ask the
page and the API over TCP; `runs` has so many at once stream to clients of their own; `kill` kills each of the three in
the middle of so many; `fair` measures one tenant's run alone and beside another that uses all it can. What is made is
removed in the end.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.attacks import everybody
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.serving import Client, Living, Server, free_port, living, server
from tests.tenants.spawning import Served, served
from tests.tenants.test_killed import kill_each

from ringfence.service import tokens
from ringfence.service.accounts import Accounts

LUA = """
local rows = {}
for line in io.lines(os.getenv("ROWS")) do rows[#rows + 1] = line end
local at = 0
request = function()
  at = at % #rows + 1
  local path, name, value = rows[at]:match("^(%S+) (%S+) (.+)$")
  return wrk.format("GET", path, {[name] = value, ["Host"] = "localhost"})
end
"""
STREAM = "i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i + 1)); sleep 0.6; done"  # half a minute: all live at once


class World:
    """Everything that a service of tenants is, and the names of the tenants."""

    def __init__(self, hosting: Hosting, spawner: Served, made: Living, database: Server, names: list[str], port: int):
        self.hosting, self.spawner, self.made, self.database = hosting, spawner, made, database
        self.names, self.port = names, port
        self.keys = tokens.Keys(made.database)
        rows = made.database.ask("select name, hash from accounts")
        self._stamps = {name: hashlib.sha256(kept.encode()).hexdigest() for name, kept in rows}

    def token(self, name: str) -> str:
        return tokens.issue(self.keys, name, (name,), self._stamps[name])[0]


@contextlib.contextmanager
def world(tenants: int, over_tcp: bool = True) -> Iterator[World]:
    """So many tenants with an account each, and `all` for all of them."""
    installing = everybody.installed.__wrapped__()  # type: ignore[attr-defined]
    next(installing)
    try:
        with hosted() as hosting, server() as database, served(hosting) as spawner:
            names = [hosting.create(f"t{number}").name for number in range(tenants)]
            accounts = {name: (name,) for name in names} | {"all": tuple(names[:64])}
            port = free_port()
            options = ("--listen", f"127.0.0.1:{port}") if over_tcp else ()
            with living(spawner, accounts, database.url, *options) as made:
                yield World(hosting, spawner, made, database, names, port)
    finally:
        next(installing, None)


def rate(count: int) -> None:
    """Requests a second. Of forty tenants nobody is at its limit, and each has a steward waiting; of 120 none has."""
    with world(count) as at, tempfile.TemporaryDirectory() as top:
        Path(top, "ask.lua").write_text(LUA)
        visits = {name: asyncio.run(visit(at, name)) for name in at.names}
        kinds: dict[str, Callable[[str], str]] = {
            "openapi.json": lambda name: "/openapi.json Accept */*",
            "page: log in": lambda name: "/ Accept */*",
            "page: runs": lambda name: f"/w/{name} Cookie __Host-ringfence={visits[name]}",
            "page: audit log": lambda name: f"/w/{name}/audit Cookie __Host-ringfence={visits[name]}",
            "api: runs": lambda name: f"/api/workspaces/{name}/runs Authorization Bearer {at.token(name)}",
            "api: files": lambda name: f"/api/workspaces/{name}/files Authorization Bearer {at.token(name)}",
        }
        for kind, row in kinds.items():
            Path(top, "rows").write_text("".join(f"{row(name)}\n" for name in at.names))
            words = ["wrk", "-t1", "-c16", "-d8s", "--latency", "-s", f"{top}/ask.lua", f"http://127.0.0.1:{at.port}"]
            said = subprocess.run(
                words, capture_output=True, text=True, env={**os.environ, "ROWS": f"{top}/rows"}
            ).stdout
            found = {name: re.search(pattern, said) for name, pattern in PATTERNS.items()}
            print(f"{kind:16}", *(f"{name} {match[1] if match else '0'}" for name, match in found.items()), sep="  ")


PATTERNS = {
    "a second": r"Requests/sec:\s+(\S+)",
    "50 %": r"50%\s+(\S+)",
    "99 %": r"99%\s+(\S+)",
    "not 2xx": r"Non-2xx.*: (\d+)",
}


async def visit(at: World, name: str) -> str:
    return await Accounts(at.made.database).visit(name)


def runs(count: int) -> None:
    """So many runs at once, ten for each tenant, each followed by a client of its own to its last line."""
    with world(max(1, count // 10)) as at:
        begun = time.monotonic()
        found = asyncio.run(all_of(at, count))
        lines = sum(lines for _, lines, _ in found)
        first = sorted(first for first, _, _ in found)
        print(f"{count} runs: first line after {first[0]:.1f} to {first[-1]:.1f} s, all over after", end=" ")
        print(f"{time.monotonic() - begun:.1f} s; {lines} of {count * 50} lines,", end=" ")
        print(f"{sum(code == 0 for _, _, code in found)} ended with 0")


async def all_of(at: World, count: int) -> list[tuple[float, int, int]]:
    return await asyncio.gather(*(one_of(at, at.names[number % len(at.names)]) for number in range(count)))


async def one_of(at: World, name: str) -> tuple[float, int, int]:
    begun, base = time.monotonic(), f"/api/workspaces/{name}/runs"
    head, body = (
        f"Host: localhost\r\nAuthorization: Bearer {at.token(name)}\r\n",
        json.dumps({"argv": ["sh", "-c", STREAM]}),
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(
        f"POST {base} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
    )
    answer = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(f"GET {base}/{answer['run']}/events HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
    first, lines, code = 0.0, 0, -1
    while line := await reader.readline():
        if line.startswith(b"data: "):
            data = json.loads(line[6:])
            first = first or time.monotonic() - begun
            if "stream" in data:
                lines += base64.b64decode(data["data"]).count(b"\n")
            else:
                code = data.get("exitCode", -1)
    writer.close()
    return first, lines, code


def kill(count: int) -> None:
    """A third of so many runs when the service is killed, a third when the spawner is, a third when the database is."""
    with world(max(1, count // 25), over_tcp=False) as at:
        begun = time.monotonic()
        ran = kill_each(at.hosting, at.spawner, at.made, at.database, at.names, 8)
        left = [name for name in at.hosting.registry.names() if at.hosting.registry.find(name).state.value != "active"]
        print(
            f"{ran} runs in {time.monotonic() - begun:.0f} s: all recorded, no process left, half-made tenants: {left}"
        )


def tenants(count: int) -> None:
    """Make and list them."""
    with hosted() as hosting:
        times = []
        for number in range(count):
            begun = time.monotonic()
            hosting.create(f"t{number}")
            times.append(time.monotonic() - begun)
        begun = time.monotonic()
        states = {hosting.registry.find(name).state.value for name in hosting.registry.names()}
        listed = time.monotonic() - begun
        last = statistics.median(times[-100:])
        print(f"{count} tenants: {sum(times):.0f} s, the last hundred {last * 1000:.0f} ms each;", end=" ")
        print(f"listed in {listed:.2f} s: {states}")


BUSY = ("sh", "-c", "while :; do :; done")
GREEDY = {
    "nobody": (),
    "thirty busy runs": BUSY,
    "thirty runs that say a letter at a time": ("sh", "-c", "while :; do printf x; done"),
    "thirty runs that say all they can": ("yes",),
}
WHILE = 4.0  # seconds


def fair() -> None:
    """What one tenant has beside another with thirty runs that take all they can: how long a short run and a request
    take, and the processor time of one busy run, of its fair share: half of what both got, or all of one."""
    with world(2, over_tcp=False) as at:
        greedy, other = at.names
        client = Client(at.made.path)
        client.log_in("all")

        def begin(name: str, argv: tuple[str, ...]) -> str:
            base = f"/api/workspaces/{name}/runs"
            return f"{base}/{client.ask('POST', base, data={'argv': argv})[1]['run']}"

        def short() -> None:
            client.raw("GET", f"{begin(other, ('true',))}/events", "-N")

        def ask() -> None:
            client.ask("GET", f"/api/workspaces/{other}/files")

        def share() -> float:
            ids = {name: at.hosting.registry.find(name).uid for name in at.names}
            before = {name: processor_time(uid) for name, uid in ids.items()}
            time.sleep(WHILE)
            used = {name: processor_time(uid) - before[name] for name, uid in ids.items()}
            return min(1.0, used[other] / max(0.01, min(WHILE, sum(used.values()) / 2)))

        for kind, argv in GREEDY.items():
            begun = [begin(greedy, argv) for _ in range(30 if argv else 0)]
            time.sleep(3)
            times = [statistics.median(timed(act) for _ in range(9)) * 1000 for act in (short, ask)]
            begun.append(begin(other, BUSY))
            time.sleep(2)
            print(f"beside {kind}: a run of true {times[0]:.0f} ms, a request {times[1]:.0f} ms,", end=" ")
            print(f"{share():.2f} of its share")
            for run in begun:
                client.ask("DELETE", run)
            time.sleep(2)


def timed(act: Callable[[], None]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def processor_time(uid: int) -> float:
    """Of all processes of a user that live, in seconds."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                total += sum(map(int, Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is removed then too
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    verb, *rest = sys.argv[1:] or ["rate"]
    amounts = {"tenants": 1000, "rate": 40, "runs": 200, "kill": 200}
    if verb in amounts:
        acts = {"tenants": tenants, "rate": rate, "runs": runs, "kill": kill}
        acts[verb](int(rest[0]) if rest else amounts[verb])
    else:
        fair()
