"""A tenant from its making to its end, with real users; interrupted anywhere; and with a tree that was prepared."""

import contextlib
import errno
import os
import pwd
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.tenants.conftest import Hosting, as_user

from ringfence.model import TenantError
from ringfence.model.tenant import TenantState
from ringfence.workspace.tenants import life, tree
from ringfence.workspace.tenants.registry import Registry

pytestmark = pytest.mark.needs_root


def code_of(caught: "pytest.ExceptionInfo[TenantError]") -> str:
    return caught.value.code


def test_the_whole_life(hosting: Hosting) -> None:
    made = hosting.create("a", aliases=(hosting.name("www"),))
    entry = pwd.getpwnam(made.user)
    assert (entry.pw_uid, entry.pw_shell) == (made.uid, "/usr/sbin/nologin")
    assert made.uid >= 40000
    found = tree.resolve(hosting.base, hosting.registry.find(hosting.name("WWW") + "."))
    assert (found.uid, found.gid, found.root) == (made.uid, made.gid, f"{hosting.base}/{made.name}/user/src")
    for below in ("", "user", "user/src", "worktrees"):
        facts = os.stat(f"{hosting.base}/{made.name}/{below}")
        assert (facts.st_mode & 0o7777, facts.st_uid, facts.st_gid) == (0o700, made.uid, made.gid)

    sleeper = subprocess.Popen(["sleep", "60"], user=made.uid, group=made.gid, extra_groups=[])
    life.suspend(hosting.registry, made.name)
    assert sleeper.wait(60) == -9
    with pytest.raises(TenantError) as caught:
        tree.resolve(hosting.base, hosting.registry.find(made.name))
    assert code_of(caught) == "TENANT_SUSPENDED"
    assert life.suspend(hosting.registry, made.name, off=True).state is TenantState.ACTIVE

    Path(found.root, "kept.txt").write_text("work")
    archive = life.remove(hosting.registry, hosting.base, made.name)
    with tarfile.open(archive) as tar:
        assert tar.extractfile(f"{made.name}/user/src/kept.txt").read() == b"work"  # type: ignore[union-attr]
    assert os.stat(archive).st_mode & 0o777 == 0o600
    assert os.listdir(hosting.base) == [life.ARCHIVE]
    assert hosting.registry.names() == []
    with pytest.raises(KeyError):
        pwd.getpwnam(made.user)


def test_one_tenant_cannot_go_where_another_is(hosting: Hosting) -> None:
    one, other = hosting.create("a"), hosting.create("b")
    secret = f"{hosting.base}/{other.name}/user/src/secret"
    Path(secret).write_text("s")
    os.chmod(secret, 0o644)
    assert as_user(one.uid, one.gid, lambda: os.close(os.open(secret, os.O_RDONLY))) == errno.EACCES
    assert as_user(one.uid, one.gid, lambda: os.scandir(hosting.base).close()) == errno.EACCES
    assert as_user(other.uid, other.gid, lambda: os.close(os.open(secret, os.O_RDONLY))) == 0  # it is there


def test_a_name_is_taken_once(hosting: Hosting) -> None:
    hosting.create("a", aliases=(hosting.name("b"),))
    for word, aliases in (("a", ()), ("b", ()), ("c", (hosting.name("a"),)), ("c", (hosting.name("c"),))):
        with pytest.raises(TenantError) as caught:
            hosting.create(word, aliases=aliases)
        assert code_of(caught) == "TENANT_EXISTS"
    assert hosting.registry.names() == [hosting.name("a")]


@pytest.mark.parametrize("swapped", ["", "user", "user/src"])
def test_a_swapped_directory_chooses_nobody(hosting: Hosting, swapped: str) -> None:
    one, other = hosting.create("a"), hosting.create("b")
    at = f"{hosting.base}/{one.name}/{swapped}".rstrip("/")
    os.rename(at, f"{hosting.base}/away")
    os.symlink(f"{hosting.base}/{other.name}/{swapped}".rstrip("/"), at)
    with pytest.raises(TenantError) as caught:
        tree.resolve(hosting.base, one)
    assert code_of(caught) == "TENANT_OUTSIDE"
    os.unlink(at)
    os.rename(f"{hosting.base}/{other.name}", at)
    with pytest.raises(TenantError) as caught:
        tree.resolve(hosting.base, one)
    assert code_of(caught) == "TENANT_OWNER_MISMATCH"


def test_root_is_nobodys_tenant(hosting: Hosting) -> None:
    made = hosting.create("a")
    hosting.registry.write(msgspec.structs.replace(made, uid=0, gid=0))
    os.chown(f"{hosting.base}/{made.name}", 0, 0)
    with pytest.raises(TenantError) as caught:
        tree.resolve(hosting.base, hosting.registry.find(made.name))
    assert code_of(caught) == "TENANT_OWNER_MISMATCH"


def test_repair_gives_back_and_follows_nothing(hosting: Hosting) -> None:
    made = hosting.create("a")
    source = Path(hosting.base, made.name, "user", "src")
    outside = Path(hosting.base, "outside")
    outside.write_text("root's")
    (source / "mine").write_text("m")
    (source / "deep").mkdir()
    (source / "deep" / "link").symlink_to(outside)
    os.link(outside, source / "second")
    os.chmod(source / "mine", 0o4755)
    _, changed, left = life.repair(hosting.registry, hosting.base, made.name)
    assert left == ["user/src/second"]
    assert changed == 3
    assert outside.stat().st_uid == 0
    assert {entry.lstat().st_uid for entry in (source / "mine", source / "deep", source / "deep" / "link")} == {
        made.uid
    }
    assert not (source / "mine").stat().st_mode & 0o4000


@contextlib.contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at: int) -> Iterator[None]:
    """What is done ends in the middle: at the so-many-th call of a function."""
    real, calls = getattr(owner, name), []

    def dies(*args: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, dies)
        with pytest.raises(KeyboardInterrupt):
            yield


@pytest.mark.parametrize("step", ["write 1", "useradd", "make", "link", "write 2"])
def test_an_interrupted_making_goes_on(hosting: Hosting, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    word, _, count = step.partition(" ")
    owner, name = {"useradd": (life, "_call"), "make": (tree, "make")}.get(word, (Registry, word))
    with interrupted(monkeypatch, owner, name, int(count or 1)):
        hosting.create("a", aliases=(hosting.name("b"),))
    if step == "write 1":
        assert hosting.registry.names() == []
        assert os.listdir(hosting.base) == []
        return
    with pytest.raises(TenantError) as caught:
        tree.resolve(hosting.base, hosting.registry.find(hosting.name("a")))
    assert code_of(caught) == "TENANT_UNFINISHED"
    with pytest.raises(TenantError):  # which is not the same that was begun
        hosting.create("a", limits={"runs": 3})
    if step in ("useradd", "link"):
        assert hosting.create("a", aliases=(hosting.name("b"),)).aliases == (hosting.name("b"),)
    else:
        life.repair(hosting.registry, hosting.base, hosting.name("a"))
    assert tree.resolve(hosting.base, hosting.registry.find(hosting.name("b"))).uid >= 40000


@pytest.mark.parametrize("step", ["end_processes", "_archive", "remove_tree", "_call 2", "forget"])
def test_an_interrupted_removal_goes_on(hosting: Hosting, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    made = hosting.create("a")
    Path(hosting.base, made.name, "user", "src", "kept").write_text("work")
    word, _, count = step.partition(" ")
    with interrupted(monkeypatch, Registry if word == "forget" else life, word, int(count or 1)):
        life.remove(hosting.registry, hosting.base, made.name)
    with pytest.raises(TenantError):
        tree.resolve(hosting.base, hosting.registry.find(made.name))
    archive = life.remove(hosting.registry, hosting.base, made.name)
    with tarfile.open(archive) as tar:
        assert f"{made.name}/user/src/kept" in tar.getnames()
    assert hosting.registry.names() == []


def test_many_at_once(hosting: Hosting) -> None:
    """Sixteen makers in four processes, of eight names: each name is made once, whole."""
    script = """
import sys
from ringfence.model import TenantError
from ringfence.workspace.tenants import life
from ringfence.workspace.tenants.registry import Registry
registry = Registry(sys.argv[2])
for host in sys.argv[3:]:
    try:
        life.create(registry, sys.argv[1], host)
        print("made")
    except TenantError as error:
        print(error.code)
"""
    hosts = [hosting.name(f"m{number}") for number in range(4)]
    words = [sys.executable, "-c", script, hosting.base, hosting.records]
    makers = [subprocess.Popen([*words, *hosts], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [maker.communicate(timeout=120)[0].split() for maker in makers]
    assert sorted(word for words in said for word in words) == ["TENANT_EXISTS"] * 12 + ["made"] * 4
    found = [hosting.registry.find(host) for host in hosts]
    assert len({tenant.uid for tenant in found}) == 4
    assert {tree.resolve(hosting.base, tenant).tenant for tenant in found} == {*hosts}


def test_a_registry_that_others_can_write_is_refused(hosting: Hosting) -> None:
    made = hosting.create("a")
    record = f"{hosting.records}/{made.name}.json"
    os.chmod(record, 0o666)
    with pytest.raises(TenantError) as caught:
        hosting.registry.find(made.name)
    assert code_of(caught) == "TENANT_UNSAFE"
    os.chmod(record, 0o644)
    os.chmod(hosting.records, 0o777)
    with pytest.raises(TenantError) as caught:
        Registry(hosting.records)
    assert code_of(caught) == "TENANT_UNSAFE"
    os.chmod(hosting.records, 0o755)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"name":1}', b"[" * 5000, b"{" * 70000])
def test_a_record_that_is_none_is_refused(hosting: Hosting, content: bytes) -> None:
    Path(hosting.records, "x.test.json").write_bytes(content)
    with pytest.raises(TenantError) as caught:
        hosting.registry.find("x.test")
    assert code_of(caught) == "TENANT_UNSAFE"
    os.unlink(f"{hosting.records}/x.test.json")


def test_an_alias_points_at_a_record_beside_it(hosting: Hosting) -> None:
    for target in ("/etc/passwd", "../x.json", "missing", "a/b.json", ".json"):
        os.symlink(target, f"{hosting.records}/alias.test.json")
        with pytest.raises(TenantError) as caught:
            hosting.registry.find("alias.test")
        assert code_of(caught) in ("TENANT_UNSAFE", "TENANT_INVALID_NAME")
        os.unlink(f"{hosting.records}/alias.test.json")


def test_somebody_else_who_makes_a_user_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that change users say so and give up; what is wrong otherwise is said at once."""
    script = '#!/bin/sh\n[ -e "$1" ] && exit 0\n: > "$1"\necho "useradd: cannot lock /etc/passwd; $2" >&2\nexit 1\n'
    (tmp_path / "useradd").write_text(script)
    (tmp_path / "useradd").chmod(0o755)
    monkeypatch.setattr(life, "SYSTEM_PATH", str(tmp_path))
    life._call("useradd", f"{tmp_path}/once", "try again later.")
    assert (tmp_path / "once").exists()
    monkeypatch.setattr(life, "LOCKED", "another word")
    with pytest.raises(TenantError, match="cannot lock"):
        life._call("useradd", f"{tmp_path}/twice", "try again later.")


def test_readers_see_whole_records(hosting: Hosting) -> None:
    made = hosting.create("a")
    stop, faults = threading.Event(), []

    def reads() -> None:
        while not stop.is_set():
            try:
                hosting.registry.find(made.name)
            except TenantError as error:
                faults.append(error)

    reader = threading.Thread(target=reads)
    reader.start()
    for number in range(200):
        hosting.registry.write(msgspec.structs.replace(made, limits={"runs": number}))
    stop.set()
    reader.join()
    assert faults == []
