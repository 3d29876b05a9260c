"""The spawner: who a steward is comes from the registry, there is no way back, and nothing hostile gets through."""

import base64
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.malformed import ask_wrongly
from tests.tenants.spawning import START, Served, served

from ringfence.workspace.tenants import life

pytestmark = [pytest.mark.needs_root, pytest.mark.usefixtures("installed")]
# A steward that tries to be root again, by every way that it could have been left.
BACK = (
    START
    + """
import ctypes, json, os
libc, ways = ctypes.CDLL(None, use_errno=True), []
def tries(name, act):
    try:
        act()
    except (OSError, ValueError):
        return
    ways.append(name)
def call(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), name)
for name, words in (("setuid", (0,)), ("seteuid", (0,)), ("setreuid", (0, 0)), ("setresuid", (-1, 0, -1)),
                    ("setgid", (0,)), ("setegid", (0,)), ("setresgid", (-1, -1, 0)), ("setgroups", (0, None)),
                    ("initgroups", (b"root", 0))):
    tries(name, lambda: call(name, *words))
tries("kill 1", lambda: os.kill(1, 0))
tries("kill the spawner", lambda: os.kill(os.getppid(), 0))
tries("trace the spawner", lambda: call("ptrace", 0x4206, os.getppid(), None, None))
tries("its memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
tries("its descriptors", lambda: os.listdir(f"/proc/{os.getppid()}/fd"))
tries("shadow", lambda: open("/etc/shadow"))
tries("chroot", lambda: os.chroot("/"))
def keys():
    number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    found = libc.syscall(number, 10, -3, b"user", b"rf-of-root", 0)  # search our session's
    if found < 0 or libc.syscall(number, 11, found, ctypes.create_string_buffer(64), 64) < 0:
        raise OSError(ctypes.get_errno(), "keys")
tries("keys of the spawner's session", keys)
tries("lower nice", lambda: os.nice(-5))
for program in ("su", "sudo", "passwd", "mount", "newgrp"):
    path = f"/usr/bin/{program}"
    if os.path.exists(path) and os.stat(path).st_mode & 0o4000:
        import subprocess
        shown = subprocess.run(["/bin/sh", "-c", f"cp {path} ./x 2>/dev/null; grep NoNewPrivs /proc/self/status"],
                               capture_output=True, text=True).stdout
        if shown.split()[-1:] != ["1"]:
            ways.append("a setuid program")
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
caps = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
print(json.dumps({"ways": ways, "uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups(), "fds": fds,
                  "caps": caps, "environ": dict(os.environ), "umask": os.umask(0)}), flush=True)
"""
)


class Started:
    """What the service holds of a steward."""

    def __init__(self, asker: socket.socket, tenant: str, run: str = "a1") -> None:
        ours: list[int] = []
        theirs: list[int] = []
        for number in range(3):
            read, write = os.pipe2(os.O_CLOEXEC)
            theirs.append(read if number == 0 else write)
            ours.append(write if number == 0 else read)
        self.input, self.output, self.errors = ours
        document = json.dumps({"do": "start", "tenant": tenant, "run": run}).encode()
        socket.send_fds(asker, [document], theirs)
        for fd in theirs:
            os.close(fd)
        self.answer = json.loads(asker.recv(4096))
        self._file = os.fdopen(self.output, "rb")

    def ask(self, **request: object) -> list[dict[str, object]]:
        """One request, and every line up to the last of its answer."""
        os.write(self.input, json.dumps(request).encode() + b"\n")
        lines: list[dict[str, object]] = []
        while not lines or "stream" in lines[-1]:
            lines.append(json.loads(self._file.readline()))
        return lines

    def line(self) -> dict[str, object]:
        return json.loads(self._file.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        for fd in (self.input, self.errors):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._file.close()


def test_a_steward_is_the_tenant_and_works_for_it(hosting: Hosting) -> None:
    tenant = hosting.create("a")
    with served(hosting) as spawner, spawner.connect() as asker:
        steward = Started(asker, hosting.name("A"))
        assert steward.answer == {"run": "a1", "started": True}
        assert steward.ask(do="write", path="x.txt", data=base64.b64encode(b"hello").decode()) == [{"written": 5}]
        assert os.stat(f"{hosting.base}/{tenant.name}/user/src/x.txt").st_uid == tenant.uid
        [read] = steward.ask(do="read", path="x.txt")
        assert base64.b64decode(str(read["data"])) == b"hello"
        script = "id -u; cat x.txt; echo made > y.txt; echo no > ../z; cat /etc/shadow; exit 3"
        *output, ended = steward.ask(do="run", argv=["sh", "-c", script], timeout=30)
        text = b"".join(base64.b64decode(str(line["data"])) for line in output if line["stream"] == "stdout")
        assert text.decode() == f"{tenant.uid}\nhello"
        assert ended["exitCode"] == 3
        assert os.stat(f"{hosting.base}/{tenant.name}/user/src/y.txt").st_uid == tenant.uid
        assert not os.path.exists(f"{hosting.base}/{tenant.name}/user/z")
        [listed] = steward.ask(do="list", path="")
        assert [entry["name"] for entry in listed["entries"]] == ["x.txt", "y.txt"]  # type: ignore[attr-defined]
        os.close(steward.input)
        assert json.loads(asker.recv(4096)) == {"run": "a1", "ended": 0}
        steward.close()


OUTSIDE = ["../../../etc/passwd", "/etc/passwd", "..", "a/../../x", "link/passwd", "../src/../../x", "\0"]


def test_paths_stay_in_the_workspace(hosting: Hosting) -> None:
    tenant = hosting.create("a")
    source = Path(hosting.base, tenant.name, "user", "src")
    (source / "link").symlink_to("/etc")
    (source / "passwd").symlink_to("/etc/passwd")
    (source / "fifo").touch()
    with served(hosting) as spawner, spawner.connect() as asker:
        steward = Started(asker, tenant.name)
        for path in (*OUTSIDE, "passwd", "link"):
            for request in ({"do": "read"}, {"do": "write", "data": ""}, {"do": "list"}):
                [answer] = steward.ask(**request, path=path)
                assert answer["error"] in ("path_outside_workspace", "path_invalid"), (request, path)
        [answer] = steward.ask(do="run", argv=["true"], cwd="../..")
        assert answer["error"] == "path_outside_workspace"
        [answer] = steward.ask(do="read", path="missing")
        assert answer["error"] == "path_not_found"
        assert steward.ask(do="fly")[0]["error"] == "bad_request"
        steward.close()


@pytest.fixture
def key_of_root() -> None:
    """Whoever is started from here has a key of ours, as who is started by hand has the keys of a login."""
    libc = ctypes.CDLL(None, use_errno=True)
    join, add = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
    if libc.syscall(join, 1, None, 0, 0, 0) < 0:
        pytest.skip("the kernel keeps no keys")
    assert libc.syscall(add, b"user", b"rf-of-root", b"secret", 6, -3) > 0


@pytest.mark.usefixtures("key_of_root")
def test_there_is_no_way_back_to_root(hosting: Hosting) -> None:
    tenant = hosting.create("a")
    with served(hosting, BACK) as spawner, spawner.connect() as asker:
        steward = Started(asker, tenant.name)
        seen = steward.line()
        steward.close()
    assert seen["ways"] == []
    assert (seen["uids"], seen["gids"], seen["groups"]) == ([tenant.uid] * 3, [tenant.gid] * 3, [])
    assert set(seen["caps"].values()) == {"0" * 16}  # type: ignore[attr-defined]
    assert seen["fds"][:4] == [0, 1, 2, 3] and len(seen["fds"]) == 5  # type: ignore[index, arg-type]  # noqa: PT018
    assert sorted(seen["environ"]) == ["HOME", "LANG", "LOGNAME", "PATH", "RINGFENCE_TENANT", "SHELL", "USER"]  # type: ignore[call-overload]
    assert seen["umask"] == 0o077


@pytest.mark.usefixtures("key_of_root")
def test_the_ways_back_work_for_who_has_them(tmp_path: Path) -> None:
    """What `BACK` tries would be found: root itself finds nearly all of it."""
    shown = subprocess.run(["/usr/bin/python3", "-I", "-c", BACK], capture_output=True, text=True, cwd=tmp_path)
    found = json.loads(shown.stdout)["ways"]
    assert {"setuid", "setgroups", "kill 1", "its memory", "shadow", "chroot", "keys of the spawner's session"} <= {
        *found
    }


def test_only_the_service_is_heard(hosting: Hosting) -> None:
    hosting.create("a")
    with served(hosting) as spawner:
        for uid in (0, 1000):
            with spawner.connect(uid) as asker, contextlib.suppress(ConnectionError, BrokenPipeError):
                asker.send(json.dumps({"do": "cancel", "run": "a1"}).encode())
                assert asker.recv(4096) == b""


def test_a_suspended_or_unknown_tenant_starts_nothing(hosting: Hosting) -> None:
    tenant = hosting.create("a")
    with served(hosting) as spawner, spawner.connect() as asker:
        life.suspend(hosting.registry, tenant.name)
        for name, code in (
            (tenant.name, "TENANT_SUSPENDED"),
            ("b.test", "TENANT_NOT_FOUND"),
            ("..", "TENANT_INVALID_NAME"),
        ):
            started = Started(asker, name)
            assert started.answer["error"] == code
            started.close()


def test_a_run_ends_by_cancel_and_by_every_death(hosting: Hosting) -> None:
    tenant = hosting.create("a")
    mark = f"3{os.getpid()}"

    def alive() -> bool:
        shown = subprocess.run(["ps", "-u", str(tenant.uid), "-o", "stat="], capture_output=True, text=True).stdout
        return any(state[0] != "Z" for state in shown.split())  # somebody else may have to reap it

    def is_gone() -> bool:
        until = time.monotonic() + 60
        while alive() and time.monotonic() < until:
            time.sleep(0.02)
        return not alive()

    def start(spawner: Served, asker: socket.socket, run: str, first: str = "") -> Started:
        steward = Started(asker, tenant.name, run)
        argv = ["sh", "-c", f"{first} (setsid sleep {mark} &) ; echo up; sleep {mark}"]
        os.write(steward.input, json.dumps({"do": "run", "argv": argv}).encode() + b"\n")
        assert "stream" in steward.line()
        assert alive()
        return steward

    with served(hosting) as spawner:
        with spawner.connect() as asker:
            steward = start(spawner, asker, "a1", "trap '' TERM;")
            asker.send(json.dumps({"do": "cancel", "run": "a1"}).encode())
            assert json.loads(asker.recv(4096)) == {"run": "a1", "cancelling": True}
            assert "ended" in json.loads(asker.recv(4096))
            assert is_gone()
            steward.close()
            steward = start(spawner, asker, "a2")
            steward.close()  # the service lets go of its streams
            assert is_gone()
            assert json.loads(asker.recv(4096))["run"] == "a2"
            steward = start(spawner, asker, "a3")
        assert is_gone()  # the service is gone
        steward.close()
        with spawner.connect() as asker:
            steward = start(spawner, asker, "a4")
            found = subprocess.run(
                ["pgrep", "-u", str(tenant.uid), "-P", str(spawner.process.pid)], capture_output=True
            )
            os.kill(int(found.stdout.split()[0]), signal.SIGKILL)  # the steward is gone
            assert is_gone()
            steward.close()
            steward = start(spawner, asker, "a5")
            life.suspend(hosting.registry, tenant.name)
            assert is_gone()
            life.suspend(hosting.registry, tenant.name, off=True)
            steward.close()
    with served(hosting) as spawner, spawner.connect() as asker:
        steward = start(spawner, asker, "a6")
        spawner.process.kill()  # the spawner is gone
        assert is_gone()
        steward.close()


def test_as_many_runs_as_a_tenant_may_have(hosting: Hosting) -> None:
    tenant = hosting.create("a", limits={"runs": 2})
    with served(hosting) as spawner, spawner.connect() as asker:
        stewards = [Started(asker, tenant.name, f"a{number}") for number in range(3)]
        assert [sorted(one.answer) for one in stewards] == [["run", "started"]] * 2 + [["error", "run", "what"]]
        again = Started(asker, tenant.name, "a1")
        assert again.answer["error"] == "TENANT_EXISTS"
        for one in (*stewards, again):
            one.close()


def test_hostile_requests_start_nobody(hosting: Hosting) -> None:
    """Requests and descriptors of every wrong kind; `bench/service.py spawner` sends 100,000."""
    asked = ask_wrongly(hosting, 3000)
    assert asked["started"] > 30  # and whoever asks rightly in the middle of it is served
    assert sum(asked.values()) == 3000


def test_what_a_record_says_decides_and_no_request(hosting: Hosting) -> None:
    """A record that names root, or ids that do not own the tree, starts nobody."""
    tenant = hosting.create("a")
    with served(hosting) as spawner, spawner.connect() as asker:
        for ids in ((0, 0), (tenant.uid, 0), (1000, 1000)):
            hosting.registry.write(msgspec.structs.replace(tenant, uid=ids[0], gid=ids[1]))
            started = Started(asker, tenant.name)
            assert started.answer["error"] == "TENANT_OWNER_MISMATCH"
            started.close()
        hosting.registry.write(tenant)
