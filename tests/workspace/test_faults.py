"""A fault at every git call and every file operation of start, end and merge: the session is whole, or gone with all
its work on its branch.

The operations are found by the interpreter's own audit events, so none can be forgotten: in a child of ours the n-th
fails, or kills the process (every second time all it had written and not flushed is torn, as when the power goes), or
(for git) does its work and then fails. Afterwards a person lists the sessions, and every byte is compared. A start is
spoiled from the moment the ledger is opened; the others, where that would be the same again, from then on.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.conftest import files, git, in_commit, is_sound, session

from ringfence import RingfenceError, SessionError
from ringfence.model.session import Fault, State
from ringfence.session import merge, opened
from ringfence.workspace import life
from ringfence.workspace.git import Git

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "subprocess.Popen"}
MODES = ("fails", "dies", "git fails afterwards")

Act = Callable[["Injector"], object]


def is_change(event: str, given: tuple[object, ...]) -> bool:
    if event == "open":
        return isinstance(given[2], int) and bool(given[2] & WRITING) and given[0] != "/dev/null"
    return event in CHANGES


class Injector:
    """Counts the changes of the world, and spoils one of them."""

    def __init__(self, mode: str, at: int) -> None:
        self.mode, self.at, self.count = mode, at, 0
        self.armed = False
        if mode == "git fails afterwards":
            self._wrap()
        else:
            sys.addaudithook(self._hook)
        self.unflushed: dict[str, None] = {}
        if mode == "dies":
            self._watch()

    def _watch(self) -> None:
        """Know which files were written and not put on the disk: they are torn when the power goes."""
        really = {name: getattr(os, name) for name in ("open", "fsync", "rename")}

        def path_of(fd: int) -> str:
            return os.readlink(f"/proc/self/fd/{fd}")

        def opened_(path: str, flags: int, *given: object, **named: object) -> int:
            fd: int = really["open"](path, flags, *given, **named)
            if self.armed and flags & WRITING:
                self.unflushed[path_of(fd)] = None
            return fd

        def fsync(fd: int) -> None:
            self.unflushed.pop(path_of(fd), None)
            really["fsync"](fd)

        def rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            really["rename"](old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if self.unflushed.pop(f"{path_of(src_dir_fd)}/{old}", "no") is None:
                self.unflushed[f"{path_of(dst_dir_fd)}/{new}"] = None

        for wrapper, name in ((opened_, "open"), (fsync, "fsync"), (rename, "rename")):
            setattr(os, name, wrapper)  # in a child that ends soon

    def _tear(self) -> None:
        self.armed = False
        for number, path in enumerate(self.unflushed):
            if os.path.isfile(path):
                size = os.path.getsize(path)
                os.truncate(path, 0 if number % 2 else size // 2)
                os.truncate(path, size if number % 3 else size // 2)

    def _hook(self, event: str, given: tuple[object, ...]) -> None:
        if not self.armed or not is_change(event, given):
            return
        self.count += 1
        if self.count == self.at and self.mode == "dies":
            if self.at % 2:
                self._tear()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == self.at and self.mode == "fails":
            raise OSError(errno.ENOSPC, "no space left, says the test")

    def _wrap(self) -> None:
        real = Git._run

        def late(of: Git, *given: object) -> object:
            done = real(of, *given)  # type: ignore[arg-type]
            self.count += self.armed
            if self.armed and self.count == self.at:
                raise SessionError(Fault.GIT_FAILED, "git", "it did its work and then failed, says the test")
            return done

        Git._run = late  # type: ignore[method-assign,assignment]  # in a child that ends soon


def in_child(act: Act, mode: str, at: int) -> int:
    """Do something in a child with one fault; how many changes it made, or -1 if it died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            injector = Injector(mode, at)
            try:
                act(injector)
            except (RingfenceError, OSError):
                pass
            finally:
                injector.armed = False
            os.write(write, str(injector.count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    told = os.read(read, 99)
    os.close(read)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "the child met an error that it does not know"
    return int(told) if told else -1


def each_fault(act: Callable[[str], Act], check: Callable[[str], None], mode: str) -> int:
    """Spoil every change in turn, with a new name each time, until there is none left to spoil."""
    at = 0
    while True:
        at += 1
        name = f"f{at}"
        count = in_child(act(name), mode, at)
        check(name)
        if count != -1 and count < at:
            return at - 1


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", MODES)
def test_a_fault_anywhere_in_a_start(repo: Path, mode: str) -> None:
    (repo / "node_modules" / "m").mkdir(parents=True)
    (repo / "node_modules" / "m" / "f").write_text("dependency\n")
    left = (".git/",) if mode != "dies" else (".git/", "node_modules/")  # a copy is no work, and not flushed
    wanted = {name: data for name, data in files(repo).items() if not name.startswith(left)}
    main = git(repo, "rev-parse", "main")

    def act(name: str) -> Act:
        def start(injector: Injector) -> None:
            injector.armed = True
            session(repo, name, copy=["node_modules"]).start()

        return start

    def check(name: str) -> None:
        with opened(str(repo)) as found:
            record = found.ledger.find(name)
        branch = git(repo, "branch", "--list", f"ringfence/{name}", "--format=%(objectname)")
        admin = repo / ".git" / "worktrees" / f"ringfence@{name}"
        listed = [line for line in git(repo, "worktree", "list").splitlines() if f"/{name} " in line]
        if record is None:
            assert (branch, admin.exists(), listed) == ("", False, [])
        else:
            assert (record.state, branch, len(listed)) == (State.ACTIVE, main, 1)
            made = {name: data for name, data in files(record.worktree).items() if not name.startswith(left)}
            assert made == wanted
            session(repo, name).resume().end(delete_branch=True)

    count = each_fault(act, check, mode)
    assert count > (5 if mode == MODES[2] else 25)
    with opened(str(repo)) as found:
        assert found.ledger.names() == []
    session(repo, f"f{count}").start().end(delete_branch=True)  # the last name that failed is free again
    assert is_sound(repo)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", MODES)
def test_a_fault_anywhere_in_an_end(repo: Path, home: Path, tmp_path: Path, mode: str) -> None:
    one = session(repo).start()
    top = Path(one.path)
    (top / "a").write_text("changed\n")
    (top / "sub" / "b").unlink()
    (top / "new").mkdir()
    (top / "new" / "precious").write_bytes(os.urandom(64))
    (top / "new" / "link").symlink_to("precious")
    git(top, "add", "new")
    git(top, "commit", "-qm", "some of it")
    (top / "a").write_text("stashed\n")
    git(top, "stash")
    (top / "new" / "precious").write_bytes(os.urandom(64))
    work = files(top)
    places = [str(place) for place in (repo, home)]
    (tmp_path / "before").mkdir()
    subprocess.run(["cp", "-a", *places, "--target-directory", tmp_path / "before"], check=True)

    def act(_name: str) -> Act:
        subprocess.run(["rm", "-rf", *places], check=True)  # a copy is there in a tenth of the time that a start takes
        subprocess.run(["cp", "-a", f"{tmp_path}/before/.", tmp_path], check=True)

        def end(injector: Injector) -> None:
            with opened(str(repo)) as found:
                injector.armed = True
                try:
                    life.end(found.ledger, "x")
                finally:
                    injector.armed = False

        return end

    def check(name: str) -> None:
        with opened(str(repo)) as found:
            record = found.ledger.get("x")
        if record.state is State.ACTIVE:
            assert files(one.path) == work
            one.end()
        else:
            assert record.state is State.ENDED
        assert not os.path.exists(one.path)
        assert not (repo / ".git" / "worktrees" / "ringfence@x").exists()
        assert in_commit(repo, "ringfence/x", tmp_path / name) == work
        assert git(repo, "show", "refs/ringfence/x/stash/0000:a") == "stashed"
        with opened(str(repo)) as found:
            assert os.listdir(f"{found.ledger.place}/trash") == []
        assert is_sound(repo)

    assert each_fault(act, check, mode) > (8 if mode == MODES[2] else 25)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", MODES)
def test_a_fault_anywhere_in_a_merge(repo: Path, mode: str) -> None:
    one = session(repo).start()
    top = Path(one.path)
    (top / "a").write_text("one\ntwo\nthree\nfour\n")
    (top / "sub" / "b").unlink()
    (top / "n").write_text("new\n")
    (top / "link").symlink_to("nowhere")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "theirs")
    (repo / "mine").write_text("not committed\n")
    one.run(["true"])
    old = git(repo, "rev-parse", "main")
    before = {name: data for name, data in files(repo).items() if not name.startswith(".git/")}
    after = files(one.path) | {"mine": b"not committed\n"}

    def act(_name: str) -> Act:
        def merged(injector: Injector) -> None:
            with opened(str(repo)) as found:
                injector.armed = True
                try:
                    merge(found.ledger, "x")
                finally:
                    injector.armed = False

        return merged

    def check(_name: str) -> None:
        with opened(str(repo)) as found:
            assert found.ledger.get("x").state is State.ACTIVE
        now = {name: data for name, data in files(repo).items() if not name.startswith(".git/")}
        merged = git(repo, "rev-parse", "main") != old
        assert now == (after if merged else before)
        assert git(repo, "status", "--porcelain") == "?? mine"
        assert not (repo / ".git" / "index.lock").exists()
        git(repo, "reset", "-q", "--hard", old)

    assert each_fault(act, check, mode) > (6 if mode == MODES[2] else 15)
    assert is_sound(repo)


SLOW = """#!/bin/sh
case "$*" in
*" -u "*) touch "{mark}"; sleep 1 ;;
esac
exec {git} "$@"
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["start", "merge"])
def test_who_is_killed_while_git_works_is_followed_when_git_has_ended(repo: Path, tmp_path: Path, what: str) -> None:
    one = session(repo).start()
    Path(one.path, "a").write_text("theirs\n")
    git(one.path, "commit", "-qam", "theirs")
    before = {name: data for name, data in files(repo).items() if not name.startswith(".git/")}
    mark, place = repo / ".git/mark", tmp_path / "bin"  # where git may write
    place.mkdir()
    (place / "git").write_text(SLOW.format(mark=mark, git=shutil.which("git")))
    (place / "git").chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
            _ = session(repo, "y").start() if what == "start" else one.merge()
        finally:
            os._exit(1)
    while not mark.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with pytest.raises(SessionError) as caught, opened(str(repo), wait=0.1):
        pass
    assert caught.value.fault is Fault.LOCKED
    with opened(str(repo)) as found:
        assert [one.name for one in found.ledger.sessions()] == ["x"]
        assert found.ledger.get("x").state is State.ACTIVE
        assert "was" in found.recovered[0]
        assert "could not" not in found.recovered[0]
    assert {name: data for name, data in files(repo).items() if not name.startswith(".git/")} == before
    assert git(repo, "status", "--porcelain") == ""
    assert is_sound(repo)


KILLS = """#!/bin/sh
case "$*" in
*" -u "*) {git} "$@"; kill -9 $PPID ;;
*) exec {git} "$@" ;;
esac
"""


@pytest.mark.parametrize("was", ["file", "directory"])
def test_what_took_the_place_of_a_directory_goes_back_whole(repo: Path, tmp_path: Path, was: str) -> None:
    shapes = {"file": "echo d > d", "directory": "mkdir -p d/e; echo f > d/e/f; echo g > d/g"}
    subprocess.run(shapes.pop(was), shell=True, cwd=repo, check=True)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "second")
    one = session(repo).start()
    subprocess.run(f"rm -r d; {shapes.popitem()[1]}", shell=True, cwd=one.path, check=True)
    one.end()
    before = {name: data for name, data in files(repo).items() if not name.startswith(".git/")}
    place = tmp_path / "bin"
    place.mkdir()
    (place / "git").write_text(KILLS.format(git=shutil.which("git")))
    (place / "git").chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
            one.merge()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert git(repo, "status", "--porcelain") != ""
    with opened(str(repo)) as found:
        assert found.recovered == ("x: its merge was interrupted, and is undone",)
    assert {name: data for name, data in files(repo).items() if not name.startswith(".git/")} == before
    assert git(repo, "status", "--porcelain") == ""
    one.merge()
    assert git(repo, "status", "--porcelain") == ""


def test_a_full_disk_leaves_no_lock_that_nobody_knows(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = session(repo).start()
    Path(one.path, "a").write_text("theirs\n")
    one.end()

    def full(fd: int, mode: str) -> object:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(f"{repo}/.git/index"):
            os.close(fd)
            raise OSError(errno.ENOSPC, "no space left, says the test")
        return open(fd, mode)

    with monkeypatch.context() as patched:
        patched.setattr("ringfence.workspace.git.open", full, raising=False)
        with pytest.raises((RingfenceError, OSError)):
            one.merge()
    git(repo, "add", "-A")
    one.merge()
    assert (repo / "a").read_text() == "theirs\n"
