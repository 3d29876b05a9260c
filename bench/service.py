"""`python bench/service.py VERB [COUNT]`: the service under load, as root, with real users, PostgreSQL and wrk.

tenants  makes a thousand, and lists them
spawner  sends it 100,000 requests and descriptors of every wrong kind
runs     has 200 at once say 10,000 lines each to clients of their own, who compare every letter
rate     has wrk ask the page and the API of 40 tenants over TCP; of more than 96, each request needs a new steward
kill     kills the service, the spawner and the database in the middle of runs, with each kind of database, and makers
         of tenants in the middle of making them
fair     measures the work of one tenant's run alone, and beside another tenant that takes all it can

Each says what it saw, and ends with 1 if that is not what it should be. What is made is removed in the end.
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
from tests.looking import free_port
from tests.tenants.conftest import Hosting, hosted
from tests.tenants.malformed import KINDS, ask_wrongly
from tests.tenants.serving import Client, Living, Server, events, living, server
from tests.tenants.spawning import Served, served
from tests.tenants.test_killed import kill_each, kill_makers

from ringfence.service import tokens
from ringfence.service.accounts import Accounts
from ringfence.workspace.tenants import tree

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
# Half a minute: all live at once. What each says is another text than what any other does.
STREAM = "i=0; while [ $i -lt 50 ]; do seq -f $0-%g $((i * 200 + 1)) $((i * 200 + 200)); i=$((i + 1)); sleep 0.6; done"
LINES = 10_000
_missed: list[str] = []


def must(is_so: bool, what: str) -> None:
    """What must be seen; one that is not makes this end with 1."""
    print(f"  {'seen' if is_so else 'NOT SEEN'}: {what}")
    if not is_so:
        _missed.append(what)


def seconds_since(begun: float) -> str:
    return f"{time.monotonic() - begun:.0f} s"


class World:
    """Everything that a service of tenants is, and the names of the tenants."""

    def __init__(
        self, hosting: Hosting, spawner: Served, made: Living, database: Server | None, names: list[str], port: int
    ):
        self.hosting, self.spawner, self.made, self.database = hosting, spawner, made, database
        self.names, self.port = names, port
        self.keys = tokens.Keys(made.database)
        rows = made.database.ask("select name, hash from accounts")
        self._stamps = {name: hashlib.sha256(kept.encode()).hexdigest() for name, kept in rows}

    def token(self, name: str) -> str:
        return tokens.issue(self.keys, name, (name,), self._stamps[name])[0]


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """What tenants' stewards import."""
    installing = everybody.installed.__wrapped__()  # type: ignore[attr-defined]
    next(installing)
    try:
        yield
    finally:
        next(installing, None)


@contextlib.contextmanager
def world(tenants: int, over_tcp: bool = True, database: str = "PostgreSQL") -> Iterator[World]:
    """So many tenants with an account each, and `all` for all of them."""
    with contextlib.ExitStack() as ours:
        ours.enter_context(installed())
        hosting = ours.enter_context(hosted())
        kept = ours.enter_context(server()) if database == "PostgreSQL" else None
        spawner = ours.enter_context(served(hosting))
        names = [hosting.create(f"t{number}").name for number in range(tenants)]
        accounts = {name: (name,) for name in names} | {"all": tuple(names[:64])}
        port = free_port()
        options = ("--listen", f"127.0.0.1:{port}") if over_tcp else ()
        made = ours.enter_context(living(spawner, accounts, kept.url if kept else "", *options))
        yield World(hosting, spawner, made, kept, names, port)


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
            found = {name: match[1] for name, pattern in PATTERNS.items() if (match := re.search(pattern, said))}
            print(f"{kind:16}", *(f"{name} {value}" for name, value in found.items()), sep="  ")
            wrong = found.keys() & {"not 2xx", "broken"}
            must(float(found.get("a second", "0")) > 0 and not wrong, f"{kind}: every answer is a good one")


PATTERNS = {
    "a second": r"Requests/sec:\s+(\S+)",
    "50 %": r"\n +50%\s+(\S+)",
    "99 %": r"\n +99%\s+(\S+)",
    "not 2xx": r"Non-2xx.*: (\d+)",
    "broken": r"Socket errors: (.*)",
}


async def visit(at: World, name: str) -> str:
    known = Accounts(at.made.database)
    return await known.visit(name, (await known.opened(name))[1])


def runs(count: int) -> None:
    """So many runs at once, ten for each tenant, each followed by a client of its own to its last line."""
    with world(max(1, count // 10)) as at:
        begun = time.monotonic()
        found = asyncio.run(all_of(at, count))
        first = sorted(first for first, _, _ in found)
        print(f"{count} runs: first line after {first[0]:.1f} to {first[-1]:.1f} s, over after {seconds_since(begun)}")
        lines, whole = sum(lines for _, lines, _ in found), sum(whole for _, _, whole in found)
        must(lines == count * LINES, f"{lines:,} of {count * LINES:,} lines")
        must(whole == count, f"{whole} of {count} runs ended with 0, and each letter that they said has come once")


async def all_of(at: World, count: int) -> list[tuple[float, int, bool]]:
    return await asyncio.gather(*(one_of(at, at.names[number % len(at.names)]) for number in range(count)))


async def one_of(at: World, name: str) -> tuple[float, int, bool]:
    """When its first line came, how many came, and whether they are what was said, to its end."""
    begun, base, mark = time.monotonic(), f"/api/workspaces/{name}/runs", os.urandom(4).hex()
    head, body = (
        f"Host: localhost\r\nAuthorization: Bearer {at.token(name)}\r\n",
        json.dumps({"argv": ["sh", "-c", STREAM, mark]}),
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(
        f"POST {base} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
    )
    answer = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(f"GET {base}/{answer['run']}/events HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
    first, said, code = 0.0, b"", -1
    while line := await reader.readline():
        if line.startswith(b"data: "):
            data = json.loads(line[6:])
            first = first or time.monotonic() - begun
            if "stream" in data:
                said += base64.b64decode(data["data"])
            else:
                code = data.get("exitCode", -1)
    writer.close()
    whole = "".join(f"{mark}-{number}\n" for number in range(1, LINES + 1)).encode()
    return first, said.count(b"\n"), code == 0 and said == whole


def kill(count: int) -> None:
    """So many runs in the middle of which the service, the spawner or PostgreSQL is killed; then the same with SQLite,
    which lives in the service; and makers of tenants, at any moment."""
    for kind in ("PostgreSQL", "SQLite"):
        begun = time.monotonic()
        with world(max(1, count // 24), over_tcp=False, database=kind) as at:
            ran = kill_each(at.hosting, at.spawner, at.made, at.database, at.names, 8)
            must(
                ran > 0,
                f"{kind}: {ran} runs in {seconds_since(begun)}: all in the audit logs, no process left, goes on",
            )
    with hosted() as hosting:
        half, whole = kill_makers(hosting, 60)
        must(whole == 60, f"60 makers of tenants killed, {half} half way: asked again, {whole} tenants are whole")


def spawner(count: int) -> None:
    """Requests and descriptors of every wrong kind; whatever is not as it should be is an error there."""
    begun = time.monotonic()
    with installed(), hosted() as hosting:
        answers = ask_wrongly(hosting, count)
        started = answers.pop("started")
        print(
            f"{count:,} requests, {len(KINDS)} kinds of descriptors, {seconds_since(begun)}: {started:,} started",
            answers,
        )
        must(started > 0, "everybody who was started is the one tenant that may be, and has ended")
        must(sum(answers.values()) + started == count, "every request has its answer, and the spawner holds nothing")


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
        print(f"listed in {listed * 1000:.0f} ms")
        ids = {hosting.registry.find(name).uid for name in hosting.registry.names()}
        must(states == {"active"} and len(ids) == count, f"{len(ids)} users, all tenants {', '.join(states)}")
        for name in hosting.registry.names():
            tree.resolve(hosting.base, hosting.registry.find(name))


# What one thread gets done in a while, in pieces that are all the same, and the processor time that it had for it.
WORK = """import time
end, done = time.perf_counter() + WHILE, 0
while time.perf_counter() < end:
    sum(range(10000))
    done += 1
print(done, time.process_time())"""
WHILE, ROUNDS, LEAST = 3.0, 3, 0.9
CORES, TICKS = os.cpu_count() or 1, os.sysconf("SC_CLK_TCK")
GREEDY = {
    "runs of two busy processes each": ("python3", "-c", "import os\nos.fork()\nwhile True: pass"),
    "runs that say a letter at a time": ("sh", "-c", "while :; do printf x; done"),
    "runs that say all they can": ("yes",),
}


def fair(count: int) -> None:
    """One tenant's one thread, a short run and a request, while another tenant is stopped and while it goes on, in
    turns. A thread's fair share is a processor; or half of what the two tenants have, where others have the rest (the
    service is one): that can be seen beside others' work too. That its work is not less is seen alone."""
    with world(1 + len(GREEDY), over_tcp=False) as at:
        other, *greedy = at.names
        client = Client(at.made.path)
        client.log_in("all")

        def begin(name: str, argv: tuple[str, ...]) -> str:
            base = f"/api/workspaces/{name}/runs"
            return f"{base}/{client.ask('POST', base, data={'argv': argv})[1]['run']}"

        def short() -> float:
            return timed(lambda: events(client, begin(other, ("true",))))

        def ask() -> float:
            return timed(lambda: client.ask("GET", f"/api/workspaces/{other}/files"))

        def work(uid: int) -> tuple[float, float, float]:
            """What was done, of which share of a processor, and of how much of its fair share."""
            run = begin(other, ("python3", "-c", WORK.replace("WHILE", str(WHILE))))
            time.sleep(0.5)
            before, begun = (busy(), processor_time(uid)), time.monotonic()
            time.sleep(WHILE - 1)
            spent = time.monotonic() - begun
            all_of_it, theirs = (busy() - before[0]) / spent, (processor_time(uid) - before[1]) / spent
            done, used = map(float, events(client, run)[0]["stdout"].split())
            share = used / WHILE
            others = max(0.0, all_of_it - theirs - share)
            return done, share, share / min(1.0, max(0.1, CORES - others) / 2)

        for name, (kind, argv) in zip(greedy, GREEDY.items(), strict=True):
            uid = at.hosting.registry.find(name).uid
            for _ in range(count):
                begin(name, argv)
            time.sleep(2)
            seen: dict[int, list[tuple[float, ...]]] = {signal.SIGSTOP: [], signal.SIGCONT: []}
            for _ in range(ROUNDS):
                for number, found in seen.items():
                    signal_all(uid, number)
                    found.append((*work(uid), *(statistics.median(act() for _ in range(3)) for act in (short, ask))))
            signal_all(uid, signal.SIGSTOP)
            alone, beside = (
                [statistics.median(column) for column in zip(*rows, strict=True)] for rows in seen.values()
            )
            ratio = statistics.median(now[0] / then[0] for then, now in zip(*seen.values(), strict=True))
            print(f"beside {count} {kind}: work {ratio:.2f} of alone, {beside[1]:.2f} of a processor;", end=" ")
            print(f"a run of true {beside[3] * 1000:.0f} ms, alone {alone[3] * 1000:.0f};", end=" ")
            print(f"a request {beside[4] * 1000:.0f} ms, alone {alone[4] * 1000:.0f}")
            must(beside[2] >= LEAST, f"{beside[2]:.2f} of its fair share of the processors; {LEAST} is wanted")
        for name in greedy:
            signal_all(at.hosting.registry.find(name).uid, signal.SIGKILL)


def busy() -> float:
    """Processor time of everybody, in seconds."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(word) for at, word in enumerate(words[:7]) if at not in (3, 4)) / TICKS


def processor_time(uid: int) -> float:
    """Of all processes of a user that live, in seconds."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                total += sum(map(int, Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return total / TICKS


def timed(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def signal_all(uid: int, number: int) -> None:
    """To all processes of a user."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                os.kill(pid, number)


VERBS: dict[str, tuple[Callable[[int], None], int]] = {
    "tenants": (tenants, 1000),
    "spawner": (spawner, 100_000),
    "runs": (runs, 200),
    "rate": (rate, 40),
    "kill": (kill, 192),
    "fair": (fair, 25),
}

if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is removed then too
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    verb, *rest = sys.argv[1:] or [""]
    if verb not in VERBS:
        sys.exit(__doc__)
    act, amount = VERBS[verb]
    act(int(rest[0]) if rest else amount)
    sys.exit(1 if _missed else 0)
