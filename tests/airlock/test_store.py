"""The memory of approvals: many writers, nothing lost, and nobody else's file touched."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence import PolicyError
from ringfence.airlock import Store
from ringfence.airlock.store import MOST
from ringfence.model.grant import Answer, Grant, Operation


def grant(number: int = 0, **more: object) -> Grant:
    told: dict[str, object] = {"id": f"{number:08x}", "operation": Operation.READ, "target": f"/data/{number}"}
    return Grant(**{**told, "answer": Answer.ALWAYS, "made": number, **more})  # type: ignore[arg-type]


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a"))
    assert store.grants() == []
    assert not os.path.exists(store.path)
    given = [
        grant(1),
        grant(2, operation=Operation.CONNECT, target="x.example:443", answer=Answer.PROJECT, workspace="/w", until=9),
        grant(3, answer=Answer.SESSION, workspace="/w", boot="b", reason="because; DROP TABLE grants"),
    ]
    store.add(given)
    assert Store(str(tmp_path / "a")).grants() == given
    assert store.remove(["00000001", "nobody"]) == [given[0]]
    assert store.grants() == given[1:]
    assert os.stat(store.path).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "a").st_mode & 0o777 == 0o700


def test_the_same_again_takes_the_place_of_the_old(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a"))
    store.add([grant(1)])
    store.add([grant(2, target="/data/1", until=5)])
    assert [one.id for one in store.grants()] == ["00000002"]


@pytest.mark.needs_root
def test_on_a_full_disk_the_grants_are_read(tmp_path: Path) -> None:
    """There nothing ran, once something had been approved, or somebody had tried to."""
    program = f"""
import os, sys
from ringfence import PolicyError
from ringfence.airlock import Store
from tests.airlock.test_store import grant
def fill():
    with open("fill", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
def hint(act):
    try:
        act()
    except PolicyError as error:
        return error.hint
os.chdir({str(tmp_path)!r})
store = Store("a")
os.mkdir("a", 0o700)
fill()
print(hint(lambda: store.add([grant(1)])), store.grants())
os.unlink("fill")
store.add([grant(1)])
fill()
print(hint(lambda: store.remove(["00000001"])), store.grants() == [grant(1)])
os.unlink("fill")
print(len(store.remove(["00000001"])), store.grants())
"""
    script = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, str(tmp_path), sys.executable, "-c", program]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert done.stdout == "its file system is full []\nits file system is full True\n1 []\n", done.stderr


def test_where_nothing_can_be_written_the_grants_are_read_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a read-only home nothing ran, once something had been approved."""
    store = Store(str(tmp_path / "a?b %"))
    store.add([grant(1)])
    before = sorted(os.listdir(tmp_path / "a?b %"))
    monkeypatch.setattr("ringfence.airlock.store.is_read_only", lambda path: True)

    assert store.grants() == [grant(1)]
    with pytest.raises(PolicyError) as caught:
        store.add([grant(2)])
    assert caught.value.hint == "its file system is read-only"
    assert sorted(os.listdir(tmp_path / "a?b %")) == before


def test_all_or_none(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a"))
    store.add([grant(1)])
    with pytest.raises(PolicyError):
        store.add([grant(number) for number in range(2, MOST + 2)])
    assert store.grants() == [grant(1)]


def test_sixty_four_writers_at_once(tmp_path: Path) -> None:
    """They make the file, too; half of them take something back as well."""
    children = []
    for number in range(64):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store = Store(str(tmp_path / "a"))
                store.add([grant(number), grant(1000 + number)])
                if number % 2:
                    assert store.remove([f"{1000 + number:08x}"])
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 64
    wanted = {f"{number:08x}" for number in range(64)} | {f"{1000 + number:08x}" for number in range(0, 64, 2)}
    assert {one.id for one in Store(str(tmp_path / "a")).grants()} == wanted


def _open(path: Path) -> None:
    path.touch()
    path.chmod(0o666)


def _foreign(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE things (x)")


def _later(path: Path) -> None:
    Store(str(path.parent)).add([grant(1)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 9")


def _odd_row(path: Path) -> None:
    Store(str(path.parent)).add([grant(1)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE grants SET operation = 'everything'")


def _cut(path: Path) -> None:
    Store(str(path.parent)).add([grant(number) for number in range(200)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    path.write_bytes(content[:5000] + b"\xff" * (len(content) - 5000))


@pytest.mark.parametrize("damage", ["text", "zeros", "foreign", "later", "row", "cut", "link", "directory", "open"])
def test_a_file_that_is_not_ours_or_damaged_is_refused_and_kept(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "a"
    place.mkdir(mode=0o700)
    path = place / "approvals.db"
    made: dict[str, Callable[[], object]] = {
        "text": lambda: path.write_text("not a database, but somebody's text " * 40),
        "zeros": lambda: path.write_bytes(bytes(8192)),
        "foreign": lambda: _foreign(path),
        "later": lambda: _later(path),
        "row": lambda: _odd_row(path),
        "cut": lambda: _cut(path),
        "link": lambda: path.symlink_to(tmp_path / "elsewhere"),
        "directory": path.mkdir,
        "open": lambda: _open(path),
    }
    made[damage]()
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(PolicyError) as caught:
        Store(str(place)).grants()
    with pytest.raises(PolicyError):
        Store(str(place)).add([grant(7)] if damage not in ("row", "cut") else [grant(0, made="x")])
    assert "left as it is" in caught.value.hint
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("end", ["wal", "shm", "journal"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_lies_beside_the_file_is_a_plain_file_of_ours_too(tmp_path: Path, end: str, kind: str) -> None:
    """SQLite waits at a pipe for somebody to write, and no signal ended that."""
    place = tmp_path / "a"
    Store(str(place)).add([grant(1)])
    beside = place / f"approvals.db-{end}"
    if kind == "pipe":
        os.mkfifo(beside)
    else:
        (tmp_path / "elsewhere").write_text("x" * 600)
        beside.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PolicyError, match="is not a plain file"):
        Store(str(place)).grants()
    with pytest.raises(PolicyError, match="is not a plain file"):
        Store(str(place)).add([grant(2)])


def test_a_place_that_others_can_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(PolicyError):
        Store(str(tmp_path / "a")).add([grant(1)])
