"""Whatever the service's user could send to the spawner if it were not our service: requests and descriptors of every
wrong kind, among some that are right."""

import collections
import contextlib
import json
import os
import random
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.tenants.conftest import Hosting
from tests.tenants.spawning import served

from ringfence.workspace.tenants import life

# Says who it is where everybody can: the kernel writes down whose the file is.
STEWARD = """
import os
rows = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
said = [rows[name].split() for name in ("Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")]
name = "WHERE/" + os.urandom(8).hex()
with open(name + ".new", "w") as file:
    file.write(repr(said))
os.rename(name + ".new", name)
"""
RIGHT = ("pipe", "unix")


def _first(ends: tuple[int, int]) -> int:
    os.close(ends[1])
    return ends[0]


def _one(ends: tuple[socket.socket, socket.socket]) -> int:
    ends[1].close()
    return ends[0].detach()


def _listener() -> int:
    made = socket.socket(socket.AF_UNIX)
    made.bind("\0" + os.urandom(8).hex())
    made.listen()
    return made.detach()


def _fifo() -> int:
    path = f"{tempfile.gettempdir()}/rf-fifo-{os.urandom(4).hex()}"
    os.mkfifo(path)
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.unlink(path)


def _poll() -> int:
    with select.epoll() as made:
        return os.dup(made.fileno())


KINDS: dict[str, Callable[[], int]] = {
    "pipe": lambda: _first(os.pipe()),
    "unix": lambda: _one(socket.socketpair()),
    "datagram": lambda: _one(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "packets": lambda: _one(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)),
    "listener": _listener,
    "unconnected": lambda: socket.socket(socket.AF_UNIX).detach(),
    "tcp": lambda: socket.socket().detach(),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).detach(),
    "file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "directory": lambda: os.open("/", os.O_RDONLY),
    "device": lambda: os.open("/dev/zero", os.O_RDONLY),
    "terminal": lambda: _first(os.openpty()),
    "path": lambda: os.open("/etc/shadow", os.O_PATH),
    "link": lambda: os.open("/proc/self/exe", os.O_PATH | os.O_NOFOLLOW),
    "namespace": lambda: os.open("/proc/self/ns/mnt", os.O_RDONLY),
    "process": lambda: os.pidfd_open(os.getpid()),
    "memory": lambda: os.memfd_create("x"),
    "fifo": _fifo,
    "event": lambda: os.eventfd(0),
    "poll": _poll,
}


def _request(names: list[str], number: int, chance: random.Random) -> bytes:
    values: list[object] = ["start", "cancel", "", "a1", *names, "root", "../..", 0, -1, None, [], {}, 1e308, True]
    values += ["a" * 70, "\0", "A.TEST", "/etc", "\ud800"]
    request: dict[str, object] = {"do": "start", "tenant": chance.choice(names + names[:1] * 4), "run": f"{number:x}"}
    for _ in range(chance.randrange(3)):
        request[chance.choice(["do", "tenant", "run", "uid", "gid", "ids", "argv"])] = chance.choice(values)
    data = bytearray(json.dumps(request).encode())
    if chance.random() < 0.3:
        data[chance.randrange(len(data))] = chance.randrange(256)
    return chance.randbytes(chance.randrange(1, 6000)) if chance.random() < 0.05 else bytes(data)


def _hosts(hosting: Hosting) -> list[str]:
    """One who may run, and those who may not: suspended, half made, root by its record, another one by its record."""
    good, suspended, half, root, other = (hosting.create(word) for word in ("a", "b", "c", "d", "e"))
    life.suspend(hosting.registry, suspended.name)
    for tenant, change in (
        (half, {"state": type(half.state).MAKING}),
        (root, {"uid": 0, "gid": 0}),
        (other, {"uid": good.uid, "gid": good.gid}),
    ):
        hosting.registry.write(msgspec.structs.replace(tenant, **change))
    return [good.name, suspended.name, half.name, root.name, other.name]


def ask_wrongly(hosting: Hosting, count: int) -> collections.Counter[str]:
    """So many requests; how many were answered with which code, or started. Everybody who was started is the one
    tenant that may be, has nothing of root's, and ends; the spawner lives and holds nothing of it."""
    names, chance = _hosts(hosting), random.Random(count)
    good = hosting.registry.find(names[0])
    where = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="rf-ids-"))
    where.chmod(0o1777)
    answers: collections.Counter[str] = collections.Counter()
    with contextlib.ExitStack() as ours:
        ours.callback(shutil.rmtree, where)
        spawner = ours.enter_context(served(hosting, STEWARD.replace("WHERE", str(where))))
        asker = ours.enter_context(spawner.connect())
        held, ended = f"/proc/{spawner.process.pid}/fd", 0
        asker.send(b"{}")
        asker.recv(4096)
        before = len(os.listdir(held))
        for number in range(count):
            kinds = chance.choices([*KINDS], k=chance.choice([0, 1, 2, 3, 3, 3, 4, 9]))
            kinds = chance.choices(RIGHT, k=3) if chance.random() < 0.1 else kinds
            fds = [KINDS[kind]() for kind in kinds]
            try:
                socket.send_fds(asker, [_request(names, number, chance)], fds)
            finally:
                for fd in fds:
                    os.close(fd)
            while "ended" in (answer := json.loads(asker.recv(4096))):
                ended += 1
            answers[str(answer.get("error") or next(key for key in answer if key != "run"))] += 1
            if "started" in answer:
                assert sorted({*kinds, *RIGHT}) == sorted(RIGHT), kinds
                assert len(kinds) == 3, kinds
        while ended < answers["started"]:
            ended += "ended" in json.loads(asker.recv(4096))
        until = time.monotonic() + 60
        while len(os.listdir(held)) > before and time.monotonic() < until:
            time.sleep(0.05)
        assert spawner.process.poll() is None
        assert len(os.listdir(held)) == before
        found = [*where.iterdir()]
        ids = [[str(good.uid)] * 4, [str(good.gid)] * 4, [], ["0" * 16], ["0" * 16], ["0" * 16], ["1"]]
        assert {(path.stat().st_uid, path.stat().st_gid) for path in found} == {(good.uid, good.gid)}
        assert {path.read_text() for path in found} == {repr(ids)}
        assert len(found) <= answers["started"]  # one that is cancelled at once has not said it
    return answers
