"""Control groups of tenants: by the kernel's own version 1 here, and by a tree that is laid out as version 2 is."""

import os
import time
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.serving import Client, events, living
from tests.tenants.spawning import served

from ringfence.model import TenantError
from ringfence.workspace.tenants.shares import Shares


def groups() -> tuple[str, ...]:
    return Shares().controllers if os.geteuid() == 0 else ()


@pytest.mark.needs_root
@pytest.mark.needs_program("curl")
@pytest.mark.usefixtures("installed")
def test_a_tenant_at_its_limit_is_held_and_another_is_not(hosting: Hosting) -> None:
    if {"pids", "memory"} - {*groups()}:
        pytest.skip("no control groups that root may divide")
    limited = hosting.create("a", limits={"processes": 40, "memory": 300 << 20})
    free = hosting.create("b")
    script = "for i in $(seq 60); do sleep 3 & done; echo all"
    taking = "import sys; x = bytearray(600 << 20); print(len(x))"
    with served(hosting) as spawner, living(spawner, {"both": (limited.name, free.name)}) as made:
        client = Client(made.path)
        client.log_in("both")

        def ran(name: str, *argv: str) -> tuple[str, str, object]:
            home = f"/api/workspaces/{name}"
            run = client.ask("POST", f"{home}/runs", data={"argv": argv})[1]["run"]
            said, ended = events(client, f"{home}/runs/{run}")
            return said["stdout"], said["stderr"], ended.get("exitCode")

        assert ran(free.name, "sh", "-c", script)[0] == "all\n"
        out, errors, status = ran(limited.name, "sh", "-c", script)
        assert (out, "fork" in errors.lower()) == ("", True), (out, errors, status)
        assert ran(free.name, "python3", "-c", taking)[0] == f"{600 << 20}\n"
        out, errors, status = ran(limited.name, "python3", "-c", taking)
        assert (out, status == 0) == ("", False)


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
    (held,) = shares.open("site-a", {"memory": 1 << 30, "processes": 64, "runs": 3})
    os.write(held, b"0")
    os.close(held)
    written = {path.name: path.read_text() for path in (group / "site-a").iterdir()}
    assert written == {"cgroup.procs": "0", "memory.max": str(1 << 30), "pids.max": "64"}


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
