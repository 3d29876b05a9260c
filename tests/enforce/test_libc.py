"""What is asked without letting go of the interpreter's lock is answered as `os` answers it."""

import fcntl
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.looking import until

from ringfence.enforce import libc, lookout


def test_a_name_is_there_or_not_as_for_os(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    odd = os.fsencode(tmp_path) + b"/\xff\n"
    os.mkdir(odd)
    paths = [
        os.fsencode(tmp_path / name) for name in (".", "file", "dangling", "loop", "none", "file/below", "n" * 300)
    ]

    for path in (*paths, odd, odd + b"x"):
        assert libc.is_any_there([b"/nowhere", path]) == os.path.lexists(path), path


def test_a_path_is_seen_as_os_sees_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    for path in (tmp_path, tmp_path / "link", Path("/dev"), Path("/dev/shm"), Path("/")):
        seen, facts = libc.stat(os.fsencode(path)), path.stat()
        for name in ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_mtime_ns", "st_ctime_ns"):
            assert getattr(seen, name) == getattr(facts, name), (path, name)
    with pytest.raises(FileNotFoundError):
        libc.stat(os.fsencode(tmp_path / "none"))


def test_an_open_file_is_seen_to_grow_and_to_go(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"x" * 70_000)
        os.link(tmp_path / "file", tmp_path / "other")
        assert libc.links_and_size(file.fileno()) == (2, 70_000)
        (tmp_path / "file").unlink()
        (tmp_path / "other").unlink()
        assert libc.links_and_size(file.fileno()) == (0, 70_000)
    with pytest.raises(OSError, match="Bad file"):
        libc.links_and_size(999_999)


def test_a_file_of_proc_is_read_as_it_is_now() -> None:
    fd = os.open("/proc/self/status", os.O_RDONLY)
    before = os.umask(0o022)
    try:
        for mask in (0o027, 0o077):
            os.umask(mask)
            assert b"\nUmask:\t%04o\n" % mask in libc.read(fd)
    finally:
        os.umask(before)
        os.close(fd)
    with pytest.raises(OSError, match="Bad file"):
        libc.read(999_999)


def test_threads_that_ask_at_once_have_each_their_own_answer(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / str(number)).write_text(f"{number}" * 4000)
    wrong: list[int] = []

    def work(number: int) -> None:
        fd = os.open(tmp_path / str(number), os.O_RDONLY)
        for _ in range(2000):
            if libc.read(fd) != b"%d" % number * 4000 or libc.links_and_size(fd) != (1, 4000):
                wrong.append(number)
        os.close(fd)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_who_has_a_file_for_himself_is_waited_for_and_nobody_else_is_kept_waiting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    theirs, ours = (os.open(tmp_path / "file", os.O_RDWR) for _ in range(2))
    fcntl.flock(theirs, fcntl.LOCK_EX)
    got = threading.Event()

    def have() -> None:
        libc.lock(ours)
        got.set()

    waiting = threading.Thread(target=have)
    waiting.start()
    assert not got.wait(0.2)  # and we run meanwhile
    libc.unlock(theirs)
    waiting.join(10)
    assert got.is_set()
    with pytest.raises(BlockingIOError):
        fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    libc.unlock(ours)
    fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for fd in (theirs, ours):
        os.close(fd)


def test_where_it_cannot_be_had_everything_is_asked_by_os(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ringfence.enforce.libc", None)
    monkeypatch.delattr("ringfence.enforce.libc", raising=False)
    found = lookout.Brief()
    for _ in range(2):
        found.begin({1})
        assert not found.has_begun
        assert not found.near


def test_the_lock_is_kept(tmp_path: Path) -> None:
    """Another thread that wants it has it while somebody asks by os, and not before he is through who asks so."""
    path = os.fsencode(tmp_path)
    fd = os.open("/proc/self/status", os.O_RDONLY)
    turns: list[int] = []
    is_over = threading.Event()

    def count() -> None:
        while not is_over.is_set():
            turns.append(1)
            os.stat(path)

    def has_turns(ask: Callable[[], object]) -> bool:
        before = len(turns)
        for _ in range(20_000):  # most often he who lets go has it again before the other is awake
            ask()
        return len(turns) > before

    patience = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # so long it is not taken from anybody
    other = threading.Thread(target=count)
    other.start()
    try:
        assert until(lambda: has_turns(lambda: os.path.lexists(path)))
        asked: list[Callable[[], object]] = [lambda: libc.is_any_there([path]), lambda: libc.stat(path)]
        asked += [lambda: libc.read(fd), lambda: libc.links_and_size(fd), lambda: libc.unlock(fd)]
        for ask in asked:
            assert not has_turns(ask)
    finally:
        is_over.set()
        sys.setswitchinterval(patience)
        other.join()
        os.close(fd)
