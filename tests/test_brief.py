"""Of many runs at once what only looks is asked in another way (enforce/libc.py): it sees the same, at once.

Each change is made between two runs, while what was prepared for the first is still relied on.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.backends import on
from tests.looking import until

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import lookout

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=["by os", "keeping the lock"])
def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None, unhurried: None
) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config").mkdir()
    place = tmp_path / "ws"
    place.mkdir()
    keeps = request.param == "keeping the lock"
    near = lookout.timed(enforce.mounts())
    assert {path.stat().st_dev for path in (tmp_path, Path("/etc"), Path("/"))} <= near, "the test needs such a disk"
    if keeps:
        enforce.brief.begin(near)
    monkeypatch.setattr(enforce.brief, "near", near if keeps else frozenset())
    monkeypatch.setattr(enforce.brief, "has_begun", keeps)
    with on("landlock"):
        yield place


def run(workspace: Path, script: str = "true", **more: object) -> ringfence.Outcome:
    flags = ringfence.Flags(cwd=str(workspace), enforcement=ringfence.Enforcement.BEST_EFFORT)
    options: dict[str, object] = {"flags": flags, "capture": True, "as_root": AS_ROOT, "timeout": 30, **more}
    return ringfence.run(["sh", "-c", script], workspace=str(workspace), **options)  # type: ignore[arg-type]


def several(workspace: Path) -> None:
    for _ in range(6):
        assert run(workspace).ok


def test_a_policy_that_appears_between_two_runs_is_seen_at_once(workspace: Path, tmp_path: Path) -> None:
    several(workspace)
    assert run(workspace).policies == ()
    own = tmp_path / "config" / "ringfence"
    own.mkdir(mode=0o700)
    (own / "policy.json").write_text('{"filesystem": {"denyWrite": ["./kept"]}}')

    found = run(workspace)
    assert found.policies == (str(own / "policy.json"),)
    several(workspace)
    theirs = workspace / ".ringfence"
    theirs.mkdir()
    (theirs / "policy.json").write_text('{"filesystem": {"denyWrite": ["./more"]}}')
    assert set(run(workspace).policies) == {str(own / "policy.json"), str(theirs / "policy.json")}
    (own / "policy.json").unlink()
    assert run(workspace).policies == (str(theirs / "policy.json"),)


def test_a_workspace_that_another_took_the_place_of_is_the_other(workspace: Path) -> None:
    (workspace / "name").write_text("first")
    several(workspace)
    other = workspace.parent / "other"
    other.mkdir()
    (other / "name").write_text("second")
    workspace.rename(workspace.parent / "away")
    other.rename(workspace)

    assert run(workspace, "cat name").stdout == b"second"
    assert run(workspace, "echo x > made").ok
    assert (workspace / "made").exists()


def test_what_a_run_plants_is_found_when_it_ends(workspace: Path) -> None:
    several(workspace)
    (workspace / "sub").mkdir()
    several(workspace)
    found = run(workspace, "mkdir -p sub/.git/hooks sub/.git/objects sub/.git/refs; echo x > sub/.git/HEAD;"
                           "printf '[core]\\n\\tfsmonitor = false\\n' > sub/.git/config")  # fmt: skip
    assert f"{workspace}/sub/.git" in found.planted


def test_limits_and_masks_of_the_moment_are_the_commands(workspace: Path) -> None:
    several(workspace)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    mask = os.umask(0o022)
    try:
        for number in (soft - 1, soft - 2):
            resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
            assert run(workspace, "ulimit -n").stdout == b"%d\n" % number
            several(workspace)
        for number in (0o077, 0o027):
            os.umask(number)
            assert run(workspace, "umask").stdout == b"%04o\n" % number
            several(workspace)
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


BESIDE = """
import os, sys, threading, msgspec, ringfence
from ringfence import enforce
from ringfence.enforce import enactor
host = enforce.probe()
enactor._hosts[os.geteuid()] = msgspec.structs.replace(host, namespaces=False)

def run(script):
    flags = ringfence.Flags(cwd=sys.argv[1], enforcement=ringfence.Enforcement.BEST_EFFORT)
    assert ringfence.run(["sh", "-c", script], workspace=sys.argv[1], flags=flags, as_root=os.geteuid() == 0).ok

for _ in range(6):
    run("true")
assert not enforce.brief.has_begun and "ctypes" not in sys.modules, "one after the other needs none of it"
threads = [threading.Thread(target=run, args=("sleep 0.2",)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert enforce.brief.has_begun
assert os.stat(sys.argv[1]).st_dev in enforce.brief.near
"""


def test_it_begins_when_one_runs_beside_another(tmp_path: Path) -> None:
    environ = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "ws").mkdir()
    subprocess.run([sys.executable, "-c", BESIDE, str(tmp_path / "ws")], env=environ, check=True, timeout=60)


def test_a_device_that_is_not_near_is_asked_by_os(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def noted(paths: Sequence[bytes]) -> bool:
        asked.extend(paths)
        return any(map(os.path.lexists, paths))

    several(workspace)
    monkeypatch.setattr(enforce.brief, "is_any_there", noted, raising=False)
    assert run(workspace).ok
    assert bool(asked) == enforce.brief.has_begun
    asked.clear()
    monkeypatch.setattr(enforce.brief, "near", frozenset())  # as if all of it were a server's
    assert run(workspace).ok
    assert asked == []


def test_of_two_that_load_a_policy_at_once_one_is_relied_on(workspace: Path) -> None:
    with ThreadPoolExecutor(6) as threads:  # which hands on what one of them raises
        assert all(threads.map(lambda _: run(workspace).ok, range(6)))
    several(workspace)
    (made,) = keep._prepared.values()
    assert until(lambda: made.loaded is keep.load_policy(made.request))
