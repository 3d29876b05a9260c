"""A tenant's disk: held by the kernel where its file system keeps quotas, and measured by the steward where not."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import installed as installed
from tests.tenants.conftest import Hosting
from tests.tenants.spawning import served
from tests.tenants.test_spawner import Started

from ringfence import steward
from ringfence.cli.tenant import main
from ringfence.workspace.tenants import life, quota, tree

MIB = 1 << 20


def b64(count: int) -> str:
    return "QUFB" * (count // 3)


def test_what_the_kernel_is_told() -> None:
    """As linux/quota.h has it: 72 bytes, in blocks of 1 KiB; and inodes too, for a million empty files fill a disk."""
    assert quota.LIMITS.size == 72
    assert quota.SET == 0x80000800
    read, write = os.pipe()
    assert not quota.limit(read, 12345, 5 * MIB)  # what has no quotas holds nothing, and says so
    assert not quota.is_held(write, 12345, 5 * MIB)
    os.close(read)
    os.close(write)


@pytest.mark.needs_root
def test_who_holds_it_is_said(hosting: Hosting, capsys: pytest.CaptureFixture[str]) -> None:
    made = hosting.create("a", limits={"disk": 8 * MIB})
    changed = life.limit(hosting.registry, hosting.base, made.name, {"disk": 4 * MIB, "runs": 3})
    assert changed.limits == {"disk": 4 * MIB, "runs": 3}
    assert hosting.registry.find(made.name) == changed
    held = tree.open_base(hosting.base)
    by_kernel = quota.is_held(held, made.uid, 4 * MIB)
    os.close(held)
    assert main(["show", made.name, "--json", "--base", hosting.base, "--registry", hosting.records]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["disk"].startswith("the kernel" if by_kernel else "measured")


@pytest.mark.needs_root
def test_who_has_the_ids_of_a_removed_tenant_next_has_not_its_limit(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps a limit by the number of a user, also of one that is gone; and numbers are given again."""
    kept: dict[int, tuple[int, ...]] = {}

    def kernel(fd: int, what: int, uid: int, data: bytearray) -> bool:
        words = quota.LIMITS.unpack(data)
        kept[uid] = (words[0], words[3])  # bytes in KiB, and files
        return True

    monkeypatch.setattr(quota, "_call", kernel)
    gone = hosting.create("a", limits={"disk": 4 * MIB})
    assert kept == {gone.uid: (4096, 1024)}
    life.remove(hosting.registry, hosting.base, gone.name)
    assert kept == {gone.uid: (0, 0)}  # which is none, in linux/quota.h


@pytest.fixture
def full(hosting: Hosting) -> Iterator[tuple[Path, Started]]:
    """A steward of a tenant that may have four megabytes, and where its files are."""
    made = hosting.create("a", limits={"disk": 4 * MIB})
    with served(hosting) as spawner, spawner.connect() as asker:
        started = Started(asker, made.name)
        yield Path(hosting.base, made.name, "user", "src"), started
        started.close()


@pytest.mark.needs_root
@pytest.mark.usefixtures("installed")
def test_a_tenant_has_what_it_may_and_no_more(full: tuple[Path, Started]) -> None:
    source, started = full
    assert started.ask(do="write", path="a", data=b64(3 * MIB))[-1] == {"written": 3 * MIB}
    assert started.ask(do="write", path="b", data=b64(3 * MIB))[-1]["error"] == "no_space"
    fill = "while :; do head -c 1000000 /dev/zero >> big; sleep 0.05; done"
    ended = started.ask(do="run", argv=["sh", "-c", fill])[-1]
    assert ended["error"] == "no_space", ended
    assert (source / "big").stat().st_size < 200 * MIB
    assert started.ask(do="run", argv=["sh", "-c", "head -c 100000 /dev/zero > more"])[-1]["exitCode"] != 0
    assert (source / "more").stat().st_size <= 4096  # where there is no room, one can still make some
    assert started.ask(do="run", argv=["rm", "big"])[-1]["exitCode"] == 0
    assert started.ask(do="run", argv=["sh", "-c", "head -c 100000 /dev/zero > more"])[-1]["exitCode"] == 0
    assert started.ask(do="write", path="b", data=b64(3 * MIB))[-1]["error"] == "no_space"


def test_nothing_is_hidden_from_the_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut" / "big").write_bytes(b"x" * MIB)
    (tmp_path / "shut").chmod(0)
    (tmp_path / "out").symlink_to("/usr")
    assert MIB <= steward.measured() < 2 * MIB
    monkeypatch.setattr(steward, "_most", 8 << 20)
    for number in range(2100):
        (tmp_path / str(number)).touch()
    assert steward.measured() > 1 << 60  # so many files are too much too
    for number in range(2100):
        (tmp_path / str(number)).unlink()
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        there = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    assert steward.measured() > 1 << 60  # too deep to look at is too much
    subprocess.run(["rm", "-rf", tmp_path / ("d" * 200)], check=True)


def test_what_goes_while_it_is_measured_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes and removes names without end had the rest of their directory not counted."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "gone").touch()
    (tmp_path / "big").write_bytes(b"x" * MIB)
    listed = os.scandir

    def late(path: str) -> contextlib.nullcontext[list[os.DirEntry[str]]]:
        with listed(path) as found:
            entries = sorted(found, key=lambda entry: entry.name != "gone")
        (tmp_path / "gone").unlink()
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", late)

    assert steward.measured() >= MIB
