"""Control groups of tenants: by the kernel's own version 1 here, and by a tree that is laid out as version 2 is."""

import os
import time
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.serving import Client, events, living
from tests.tenants.spawning import served
from tests.tenants.test_killed import wait

from ringfence.model import TenantError
from ringfence.workspace.tenants.shares import Shares, parts


def groups() -> tuple[str, ...]:
    return Shares().controllers if os.geteuid() == 0 else ()


# Each takes what there is, again and again, and says so in a file when it first could not have more.
FORKS = """import os, time
while True:
    try:
        os.fork() or (time.sleep(60), os._exit(0))
    except OSError:
        open("held", "w").close()
        time.sleep(0.01)"""
TAKES = {
    "memory": ("sh", "-c", "while :; do python3 -c 'x = bytearray(600 << 20)' || : > held; done"),
    "processes": ("python3", "-c", FORKS),
    "disk": ("sh", "-c", "while :; do head -c 5000000 /dev/zero >> big; : > held; sleep 0.1; done"),
}
# What another does meanwhile, and each of it is more than the first one has.
WANTS = {
    "memory": ("python3", "-c", "print(len(bytearray(600 << 20)) >> 20)"),
    "processes": ("sh", "-c", "for i in $(seq 60); do sleep 1 & done; wait; echo 600"),
    "disk": ("sh", "-c", "head -c 600000 /dev/zero > more && head -c 8000000 /dev/zero > big && echo 600"),
}


@pytest.mark.needs_root
@pytest.mark.needs_program("curl")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", TAKES)
def test_a_tenant_at_its_limit_is_held_and_another_is_not(hosting: Hosting, kind: str) -> None:
    if {"pids", "memory"} - {*groups()}:
        pytest.skip("no control groups that root may divide")
    limited = hosting.create("a", limits={"processes": 40, "memory": 300 << 20, "disk": 4 << 20})
    free = hosting.create("b")
    with served(hosting) as spawner, living(spawner, {"both": (limited.name, free.name)}) as made:
        client = Client(made.path)
        client.log_in("both")

        def begin(name: str, *argv: str) -> str:
            home = f"/api/workspaces/{name}/runs"
            return f"{home}/{client.ask('POST', home, data={'argv': argv})[1]['run']}"

        greedy = begin(limited.name, *TAKES[kind])
        held = Path(hosting.base, limited.name, "user", "src", "held")
        wait(held.exists, "it has all that it asks for", 60)
        said, ended = events(client, begin(free.name, *WANTS[kind]))
        assert (said["stdout"], ended.get("exitCode")) == ("600\n", 0), (said, ended)
        assert client.ask("DELETE", greedy)[0] == 202


LOOK = "find /sys/fs/cgroup -path '*/USER/*' '(' -name memory.usage_in_bytes -o -name memory.current ')' -exec cat {} +"


@pytest.mark.needs_root
@pytest.mark.needs_program("curl")
@pytest.mark.usefixtures("installed")
def test_what_another_has_and_does_is_not_seen(hosting: Hosting) -> None:
    """What a group counts is exact, and of this moment: it says when another works, and with how much."""
    if "memory" not in groups():
        pytest.skip("no control groups that root may divide")
    one, other = hosting.create("a"), hosting.create("b")
    with served(hosting) as spawner, living(spawner, {"both": (one.name, other.name)}) as made:
        client = Client(made.path)
        client.log_in("both")

        def begin(name: str, *argv: str) -> str:
            home = f"/api/workspaces/{name}/runs"
            return f"{home}/{client.ask('POST', home, data={'argv': argv})[1]['run']}"

        def seen(user: str) -> int:
            return len(events(client, begin(one.name, "sh", "-c", LOOK.replace("USER", user)))[0]["stdout"].split())

        working = begin(other.name, "sh", "-c", "touch up; exec sleep 100")
        wait(Path(hosting.base, other.name, "user", "src", "up").exists, "it works", 60)
        assert (seen(one.user), seen(other.user)) == (1, 0)
        for path, _, _ in os.walk("/sys/fs/cgroup"):  # which passes over what goes meanwhile: others' groups
            if os.path.basename(path) == other.user:
                os.chmod(path, 0o755)
        assert seen(other.user) == 1
        assert client.ask("DELETE", working)[0] == 202


def laid_out(tmp_path: Path) -> Shares:
    own = tmp_path / "own"
    own.write_text("0::/system.slice/ringfence-spawner.service\n")
    group = tmp_path / "system.slice/ringfence-spawner.service"
    for name in ("spawner", "site-a"):
        (group / name).mkdir(parents=True)
        (group / name / "cgroup.procs").touch()
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    return Shares(str(tmp_path), str(own))


def test_version_two_is_divided_below_our_own_group(tmp_path: Path) -> None:
    shares = laid_out(tmp_path)
    group = tmp_path / "system.slice/ringfence-spawner.service"
    assert shares.controllers == ("cpu", "memory", "pids")
    assert (group / "spawner/cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (group / "spawner/cpu.weight").read_text() == "10000"
    (held,) = shares.open("site-a", {"memory": 1 << 30, "processes": 64, "runs": 3})
    os.write(held, b"0")
    os.close(held)
    written = {path.name: path.read_text() for path in (group / "site-a").iterdir()}
    assert written == {"cgroup.procs": "0", "memory.max": str(1 << 30), "pids.max": "64"}
    (held,) = shares.open("site-a", {})
    os.close(held)
    written = {path.name: path.read_text() for path in (group / "site-a").iterdir()}
    assert written["memory.max"] == str(parts()["memory"]), "of whom nothing is said, there is a part of the host"
    assert 0 < int(written["pids.max"]) < int(Path("/proc/sys/kernel/pid_max").read_text()) // 3


def test_what_a_killed_spawner_left_is_swept(tmp_path: Path) -> None:
    laid_out(tmp_path)
    group = tmp_path / "system.slice/ringfence-spawner.service"
    for name, age in (("site-old", 100), ("site-new", 0), ("other", 100)):
        (group / name).mkdir()
        os.utime(group / name, (time.time() - age,) * 2)
    Shares(str(tmp_path), str(tmp_path / "own"))
    assert {path.name for path in group.iterdir() if path.is_dir()} == {"spawner", "site-a", "site-new", "other"}


def test_a_limit_that_cannot_be_held_is_an_error_and_a_share_is_not(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("1:name=systemd:/x\n")
    shares = Shares(str(tmp_path), str(tmp_path / "own"))
    assert shares.open("site-a", {"runs": 3}) == []
    with pytest.raises(TenantError, match="memory"):
        shares.open("site-a", {"memory": 1})
