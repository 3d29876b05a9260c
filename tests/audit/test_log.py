"""The audit log holds what was written: whole, in order, whoever writes at the same time and however they end."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.looking import until

from ringfence.audit import Log, LogError
from ringfence.audit import log as logs
from ringfence.audit.chain import verify
from ringfence.audit.index import find
from ringfence.audit.log import _Due
from ringfence.audit.wanted import Wanted, event_of
from ringfence.enforce.lookout import Brief
from ringfence.model.event import AnyEvent, Noted, Ran

LOST = "the head of the log was missing or damaged: whether something was cut off before cannot be known"


def ran(word: str = "true") -> Ran:
    return Ran(at=logs.now(), run="aa", workspace="/ws", argv=(word,), cwd="/ws")


def written(directory: Path, *words: str) -> Log:
    log = Log(str(directory))
    for word in words:
        log.append([ran(word)])
    return log


def events(directory: Path) -> list[AnyEvent]:
    return [event for event, _ in find(str(directory), Wanted())]


def words(directory: Path) -> list[str]:
    return [event.argv[0] if isinstance(event, Ran) else f"({event.what})" for event in events(directory)
            if isinstance(event, Ran | Noted)]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def test_what_is_written_is_read_and_verifies(place: Path) -> None:
    written(place, "one", "two", "three").close()

    assert words(place) == ["(the log begins)", "one", "two", "three"]
    assert verify(str(place)).ok
    assert verify(str(place)).events == 4


def test_nobody_else_can_read_it(place: Path) -> None:
    written(place, "one").close()

    assert {path.stat().st_mode & 0o077 for path in (place, *place.iterdir())} == {0}


def test_a_directory_that_others_can_write_is_refused(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)

    with pytest.raises(LogError, match="by others"):
        Log(str(place))


def test_a_link_in_its_place_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        Log(str(place))


@pytest.mark.parametrize("name", ["a\udcffb", "line\nbreak", "\x00", "ü€"])
def test_any_name_can_be_written(place: Path, name: str) -> None:
    written(place, name).close()

    assert verify(str(place)).ok
    assert len(words(place)) == 2


def test_it_goes_on_in_another_file_when_one_is_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 1000)
    names = [f"w{number}" for number in range(40)]
    written(place, *names).close()

    assert len(list(place.glob("*.jsonl"))) > 3
    assert words(place)[1:] == names
    assert verify(str(place)).ok


# ---- What was changed is found ----


@given(data=st.data())
def test_any_edit_and_any_cut_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place = tmp_path_factory.mktemp("log") / "audit"
    written(place, *"abcdef").close()
    file = place / "000001.jsonl"
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    how = data.draw(st.sampled_from(("flip", "remove", "swap", "double", "truncate", "insert")))
    index = data.draw(st.integers(0, len(lines) - 1))
    if how == "flip":
        at = data.draw(st.integers(0, len(whole) - 1))
        changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    elif how == "remove":
        changed = b"".join(lines[:index] + lines[index + 1 :])
    elif how == "swap":
        other = (index + 1) % len(lines)
        lines[index], lines[other] = lines[other], lines[index]
        changed = b"".join(lines)
    elif how == "double":
        changed = b"".join([*lines[: index + 1], lines[index], *lines[index + 1 :]])
    elif how == "truncate":
        changed = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at = data.draw(st.integers(0, len(whole)))
        changed = whole[:at] + data.draw(st.binary(min_size=1, max_size=20)) + whole[at:]
    file.write_bytes(changed)

    report = verify(str(place))
    # What stands behind the end that the head knows, without the end of a line, is what a killed writer leaves.
    is_torn = changed.startswith(whole) and b"\n" not in changed[len(whole) :]
    assert report.ok == is_torn
    assert bool(report.remarks) == is_torn


def test_a_change_stays_found_when_the_log_goes_on(place: Path) -> None:
    written(place, *"abcdef").close()
    file = place / "000001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-2]))
    written(place, "later").close()

    assert "events" not in verify(str(place)).remarks
    assert any("missing" in fault for fault in verify(str(place)).faults)
    assert any("cut off" in word for word in words(place))
    assert words(place)[-1] == "later"


def test_a_missing_file_and_a_missing_head_are_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 500)
    written(place, *"abcdefgh").close()
    (place / "000002.jsonl").unlink()
    assert any("000002.jsonl is missing" in fault for fault in verify(str(place)).faults)

    (place / "000001.jsonl").unlink()
    (place / "head").unlink()
    faults = " ".join(verify(str(place)).faults)
    assert "what came before is missing" in faults
    assert "the head is missing" in faults


def test_a_whole_new_chain_is_found_by_a_hash_that_was_kept_elsewhere(place: Path) -> None:
    written(place, *"abc").close()
    kept = verify(str(place)).head
    assert verify(str(place), kept).ok
    written(place, "d").close()
    assert verify(str(place), kept).ok

    for path in place.iterdir():
        path.unlink()
    written(place, *"abcd").close()

    assert verify(str(place)).ok  # by itself nobody can tell
    assert not verify(str(place), kept).ok


def test_a_lost_head_is_made_again_and_told(place: Path) -> None:
    written(place, "a", "b").close()
    (place / "head").write_bytes(b"nonsense")
    written(place, "c").close()

    assert verify(str(place)).faults == (f"000001.jsonl:4: {LOST}",)
    assert words(place)[-2:] == ["(the head of the log was missing or damaged)", "c"]


def test_what_was_cut_off_with_the_head_is_not_whole_again_with_the_next_event(place: Path) -> None:
    written(place, *"abcd").close()
    file = place / "000001.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    (place / "head").unlink()
    assert not verify(str(place)).ok
    written(place, "e").close()
    assert verify(str(place)).faults == (f"000001.jsonl:4: {LOST}",)


def test_a_writer_that_is_killed_as_the_log_begins_leaves_a_whole_one(place: Path) -> None:
    written(place, "gone").close()
    file = place / "000001.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    (place / "head").write_bytes(b"")
    written(place, "a").close()
    assert verify(str(place)).ok
    assert words(place) == ["(the log begins)", "(the head of the log was missing or damaged)", "a"]


def test_a_log_that_begins_where_there_is_no_room_for_its_head_is_a_whole_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr("ringfence.audit.log.os.pwrite", full)
        for name in "abc":
            with pytest.raises(OSError, match="full"):
                written(place, name)
    written(place, "d").close()
    assert verify(str(place)).ok
    assert words(place)[-1] == "d"


def test_a_command_does_not_speak_for_the_writer(place: Path) -> None:
    what = '","kind":"log","what":"the head of the log was missing or damaged","'
    written(place, "a", "b", what, what[3:-3]).close()
    assert verify(str(place)).ok


# ---- Writers that end in the middle ----


@pytest.mark.parametrize("cut", [1, 40, 90])
def test_an_unfinished_line_is_set_aside_by_the_next_writer(place: Path, cut: int) -> None:
    written(place, "a", "b").close()
    file = place / "000001.jsonl"
    whole = file.read_bytes()
    torn = b'{"n":4,"kind":"run","at":"2026-01-01T00:00:00.000000Z","argv":["c"],"hash":"0123456789abcdef'[:cut]
    file.write_bytes(whole + torn)

    assert verify(str(place)).ok
    written(place, "d").close()

    assert verify(str(place)).ok
    assert [path.read_bytes() for path in place.glob("torn-*")] == [torn]
    assert words(place)[-2:] == [f"({cut} bytes of an unfinished line were set aside)", "d"]


def test_a_line_that_the_head_does_not_know_yet_counts(place: Path) -> None:
    log = written(place, "a")
    before = (place / "head").read_bytes()
    log.append([ran("b")])
    log.close()
    (place / "head").write_bytes(before)  # killed between the two writes

    assert verify(str(place)).ok
    written(place, "c").close()

    assert verify(str(place)).ok
    assert words(place)[1:] == ["a", "b", "c"]


def test_lines_that_somebody_adds_are_kept_and_told(place: Path) -> None:
    written(place, "a").close()
    with (place / "000001.jsonl").open("ab") as file:
        file.write(b'{"n":3,"kind":"log","what":"forged"}\n')
    written(place, "b").close()

    assert any("is not a line" in fault for fault in verify(str(place)).faults)
    assert "(1 lines were added to 000001.jsonl that are not ours)" in words(place)


def test_a_full_disk_leaves_whole_lines(place: Path) -> None:
    log = written(place, "a")
    size = (place / "000001.jsonl").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            log.append([ran("x" * 500)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (place / "000001.jsonl").stat().st_size == size
    log.append([ran("b")])
    log.close()

    assert verify(str(place)).ok
    assert words(place)[1:] == ["a", "b"]


WRITER = """
import os, sys
from ringfence.audit import Log
from ringfence.audit.log import now
from ringfence.model.event import Ran
log, name, count = Log(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    log.append([Ran(at=now(), argv=(f"{name}-{number}",))])
    os.write(1, f"{name}-{number}\\n".encode())
"""


def writer(place: Path, name: str, count: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WRITER, str(place), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_writers_killed_at_any_moment_leave_a_chain_with_everything_they_reported(place: Path) -> None:
    reported: list[str] = []
    for turn in range(3):
        writers = [writer(place, f"{turn}{letter}", 100_000) for letter in "abc"]
        outputs = [process.stdout for process in writers if process.stdout]
        for output in outputs:
            reported += [output.readline().decode().strip() for _ in range(20)]
        for process in writers:
            process.send_signal(signal.SIGKILL)
        for process, output in zip(writers, outputs, strict=True):
            reported += [
                line.decode().strip() for line in output.read().splitlines(keepends=True) if line.endswith(b"\n")
            ]
            process.wait()
            output.close()
        assert verify(str(place)).faults == ()
    written(place, "after").close()

    found = words(place)
    assert verify(str(place)).ok
    assert set(reported) <= set(found)
    assert len(reported) > 100


def test_threads_share_a_log(place: Path) -> None:
    log = Log(str(place))

    def write(name: str) -> None:
        for number in range(50):
            log.append([ran(f"{name}{number}")])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    assert verify(str(place)).ok
    assert len(words(place)) == 401


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_threads_that_are_written_for_together_fail_each_for_itself(
    place: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    """Four wait while one writes. What they have together does not fit, and one of them does not fit by itself; or the
    one who writes for all is told to end."""
    log, put, told = Log(str(place)), Log._put, list[str]()
    begun, may_end = threading.Event(), threading.Event()

    def slow(self: Log, events: list[AnyEvent], durable: bool) -> None:
        if not begun.is_set():
            begun.set()
            assert may_end.wait(30)
        words = [event.argv[0] for event in events if isinstance(event, Ran)]
        if (isinstance(fault, KeyboardInterrupt) and len(words) > 1 and not told) or (
            isinstance(fault, OSError) and (len(words) > 1 or words == ["3"])
        ):
            told.append("fault")
            raise fault
        put(self, events, durable)

    def append(number: int) -> None:
        try:
            log.append([ran(str(number))])
        except (OSError, KeyboardInterrupt) as error:
            told.append(f"{number} {type(error).__name__}")

    monkeypatch.setattr(Log, "_put", slow)
    threads = [threading.Thread(target=append, args=(number,)) for number in range(5)]
    threads[0].start()
    assert begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    assert until(lambda: len(log._due) == 4)
    may_end.set()
    for thread in threads:
        thread.join()

    written = {event.argv[0] for event, _ in find(str(place), Wanted()) if isinstance(event, Ran)}
    failed = {words.split()[0] for words in told if words != "fault"}
    assert written | failed == set("01234")
    assert len(failed) == 1
    assert written.isdisjoint(failed)
    assert verify(str(place)).ok
    assert isinstance(fault, KeyboardInterrupt) or failed == {"3"}


def test_nothing_is_written_twice_when_the_one_who_writes_each_by_itself_is_told_to_end(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, put, alone = Log(str(place)), Log._put, list[str]()
    due = [_Due([ran(name)], False) for name in "abcd"]

    def interrupted(self: Log, events: list[AnyEvent], durable: bool) -> None:
        names = [event.argv[0] for event in events if isinstance(event, Ran)]
        if len(names) > 1:
            raise OSError(errno.ENOSPC, "full")
        alone.extend(names)
        if alone == list("abc"):
            raise KeyboardInterrupt
        put(self, events, durable)

    monkeypatch.setattr(Log, "_put", interrupted)
    log._due.extend(due)
    with pytest.raises(KeyboardInterrupt):
        log._write_due(due[2])
    assert list(log._due) == [due[3]]  # the first two are written, and the third is told to end
    log.append([ran("e")])
    log.close()

    assert words(place)[1:] == list("abde")


# ---- The index ----


def test_the_index_is_made_anew_when_it_does_not_fit(place: Path) -> None:
    written(place, *"abc").close()
    assert words(place)[1:] == list("abc")
    index = place / "index.sqlite"
    index.write_bytes(b"this is no database" * 100)
    assert words(place)[1:] == list("abc")

    for path in place.iterdir():
        if path != index:
            path.unlink()
    written(place, *"xy").close()

    assert words(place)[1:] == list("xy")


def test_the_index_is_never_believed(place: Path) -> None:
    import sqlite3

    written(place, *"abc").close()
    assert len(words(place)) == 4
    link = sqlite3.connect(place / "index.sqlite")
    with link:
        link.execute("UPDATE events SET denied = 1")
    link.close()

    assert list(find(str(place), Wanted(denied=True))) == []


def test_events_are_found_by_time_session_and_run(place: Path) -> None:
    log = Log(str(place))
    for number, session in enumerate(("", "one", "two", "one")):
        at = f"2026-01-0{number + 1}T00:00:00.000000Z"
        log.append([Ran(at=at, run=f"r{number}", session=session, argv=(f"w{number}",))])
    log.close()

    def found(wanted: Wanted) -> list[str]:
        return [event.argv[0] for event, _ in find(str(place), wanted) if isinstance(event, Ran)]

    assert found(Wanted(since="2026-01-03")) == ["w2", "w3"]
    assert found(Wanted(session="one")) == ["w1", "w3"]
    assert found(Wanted(session="one", since="2026-01-03")) == ["w3"]
    assert found(Wanted(run="r0")) == ["w0"]


def test_a_line_that_is_none_gives_no_event() -> None:
    assert event_of(b"{}\n") is None
    assert event_of(b"\xff\n") is None


# ---- What happens to a log under a writer that lives ----


@pytest.fixture(params=["by os", "keeping the lock"])
def living(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    """Makes writers that ask as one run does, or one of many."""
    brief = Brief()
    if request.param == "keeping the lock":
        brief.begin({tmp_path.stat().st_dev})
        assert brief.has_begun
    return lambda: Log(str(tmp_path / "audit"), brief)


def test_two_that_live_write_in_turns(place: Path, living: Callable[[], Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 2000)
    writers = [living(), living()]
    order = [0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1]
    for number, which in enumerate(order):
        writers[which].append([ran(str(number))])
        assert verify(str(place)).ok
    assert words(place)[1:] == [str(number) for number in range(len(order))]
    assert len(list(place.glob("*.jsonl"))) > 2


def test_many_that_live_write_at_once(place: Path, living: Callable[[], Log]) -> None:
    writers = [living() for _ in range(3)]
    threads = [
        threading.Thread(target=lambda log=log: [log.append([ran("x")]) for _ in range(50)])
        for log in writers
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words(place).count("x") == 300
    assert verify(str(place)).ok


def test_what_is_cut_off_under_a_living_writer_is_told(place: Path, living: Callable[[], Log]) -> None:
    log, file = living(), place / "000001.jsonl"
    log.append([ran("a")])
    whole = file.read_bytes()
    log.append([ran("b")])
    file.write_bytes(whole)
    log.append([ran("c")])

    assert any("was cut off" in word for word in words(place))
    assert words(place)[-1] == "c"


def test_what_another_wrote_and_is_cut_off_under_a_living_writer_is_told(
    place: Path, living: Callable[[], Log]
) -> None:
    log, other, file = living(), living(), place / "000001.jsonl"
    log.append([ran("a")])
    as_left = file.read_bytes()
    other.append([ran("b")])
    file.write_bytes(as_left)  # as long as the first one left it
    log.append([ran("c")])

    assert any("was cut off" in word for word in words(place))
    assert not verify(str(place)).ok
    assert words(place)[-1] == "c"


def test_a_head_that_is_removed_under_a_living_writer_is_made_again(place: Path, living: Callable[[], Log]) -> None:
    log = living()
    log.append([ran("a")])
    (place / "head").unlink()
    log.append([ran("b")])

    assert verify(str(place)).faults == (f"000001.jsonl:3: {LOST}",)
    assert words(place)[-2:] == ["(the head of the log was missing or damaged)", "b"]


def test_a_head_that_is_damaged_under_a_living_writer_is_made_again(place: Path, living: Callable[[], Log]) -> None:
    log = living()
    log.append([ran("a")])
    for damage in (b"", b"nonsense", b"0" * 110):
        (place / "head").write_bytes(damage)
        log.append([ran("b")])
    assert verify(str(place)).faults == tuple(f"000001.jsonl:{number}: {LOST}" for number in (3, 5, 7))


def test_a_log_that_is_removed_under_a_living_writer_begins_anew(place: Path, living: Callable[[], Log]) -> None:
    log = living()
    log.append([ran("a")])
    (place / "000001.jsonl").unlink()
    log.append([ran("b")])
    assert words(place)[-1] == "b"
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    log.append([ran("c")])
    assert words(place) == ["(the log begins)", "c"]


def test_a_line_that_is_nested_too_deep_is_left_out_and_the_others_are_read(place: Path) -> None:
    written(place, "one").close()
    with open(place / "000001.jsonl", "ab") as file:
        file.write(b'{"n":3,"kind":"log","at":"","x":' + b"[" * 200_000 + b"\n")
    written(place, "two").close()

    assert [word for word in words(place) if not word.startswith("(")] == ["one", "two"]


@pytest.mark.parametrize("name", ["000001.jsonl", "000002.jsonl", "head"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_said_and_nobody_waits(place: Path, name: str, make: Callable[[Path], None]) -> None:
    written(place, "one").close()
    (place / name).unlink(missing_ok=True)
    make(place / name)

    if name != "000002.jsonl":  # which is not written yet
        with pytest.raises(OSError, match=r"is no regular file|Is a directory"):
            written(place, "two")
    if name != "head":
        assert f"{name}: is no regular file" in verify(str(place)).faults
        with pytest.raises(OSError, match="is no regular file"):
            events(place)
    else:
        with pytest.raises(OSError, match="is no regular file"):
            verify(str(place))


def test_a_file_that_cannot_be_opened_leaves_no_number_that_is_anothers_next(place: Path, tmp_path: Path) -> None:
    log = written(place, "one")
    (place / "000001.jsonl").unlink()
    (place / "000001.jsonl").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        log.append([ran("two")])
    (tmp_path / "anothers").write_bytes(b"no line of a log")

    with open(tmp_path / "anothers", "r+b"):
        with pytest.raises(OSError, match="Is a directory"):
            log.append([ran("three")])

    assert (tmp_path / "anothers").read_bytes() == b"no line of a log"
