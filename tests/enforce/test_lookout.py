"""Names that are watched through their directories: a change is seen, also one whose time somebody set back."""

import os
import sys
import time
from pathlib import Path

import msgspec
import pytest

from ringfence import enforce
from ringfence.enforce import Listings, lookout
from ringfence.enforce.lookout import (
    Brief,
    Listing,
    Lookout,
    Stamp,
    has_come,
    is_settled,
    seen_at,
    stamp_of,
    timed,
)
from ringfence.model import Access, Crowd, Kind, Mount, Origin, Place, Rule, Verdict


def own(directory: Path) -> set[int]:
    """Its file system, as one whose times are the kernel's."""
    return {directory.stat().st_dev}


def settled(directory: Path) -> None:
    """Let the directory's last change lie far enough behind."""
    time.sleep(0.06)
    assert directory.exists()


def test_a_name_that_comes_is_seen_and_an_unchanged_directory_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def has_come(path: str) -> bool:
        asked.append(path)
        return os.path.lexists(path)

    paths = [str(tmp_path / name) for name in ("a", "b")]
    watch = Lookout(paths, own(tmp_path))
    settled(tmp_path)

    assert watch.those(has_come) == []
    assert watch.those(has_come) == []
    assert asked == paths
    (tmp_path / "b").symlink_to("nowhere")
    assert watch.those(has_come) == [paths[1]]
    settled(tmp_path)
    assert watch.those(has_come) == [paths[1]]  # and it is told each time
    assert watch.those(has_come) == [paths[1]]


def test_a_time_that_is_set_back_hides_nothing(tmp_path: Path) -> None:
    watch = Lookout([str(tmp_path / "a")], own(tmp_path))
    settled(tmp_path)
    before = tmp_path.stat()
    assert watch.those(os.path.lexists) == []

    (tmp_path / "a").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert watch.those(os.path.lexists) == [str(tmp_path / "a")]


def test_a_directory_that_was_just_changed_is_asked_again(tmp_path: Path) -> None:
    watch = Lookout([str(tmp_path / "a")], own(tmp_path))
    (tmp_path / "other").touch()

    assert watch.those(os.path.lexists) == []
    (tmp_path / "a").touch()  # within one step of the clock
    assert watch.those(os.path.lexists) == [str(tmp_path / "a")]


def test_a_directory_that_is_replaced_or_missing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    watch = Lookout([str(tmp_path / "d" / "a"), str(tmp_path / "no" / "b")], own(tmp_path))
    settled(tmp_path)
    assert watch.those(os.path.lexists) == []

    (tmp_path / "d").rename(tmp_path / "old")
    for name in ("d/a", "no/b"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()

    assert sorted(watch.those(os.path.lexists)) == [str(tmp_path / "d" / "a"), str(tmp_path / "no" / "b")]


def test_a_file_system_whose_times_are_somebodys_word_is_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def has_come(path: str) -> bool:
        asked.append(path)
        return False

    watch = Lookout([str(tmp_path / "a")], frozenset())
    settled(tmp_path)

    assert watch.those(has_come) == []
    assert watch.those(has_come) == []
    assert len(asked) == 2


def test_only_the_kernels_own_file_systems_are_timed() -> None:
    mounts = [
        Mount(f"/{kind}", f"8:{number}", "/", kind)
        for number, kind in enumerate(("ext4", "fuse.sshfs", "nfs4", "vfat", "9p", "tmpfs"))
    ]

    assert timed(mounts) == {os.makedev(8, 0), os.makedev(8, 5)}


def test_what_nobody_can_look_at_is_not_taken_for_missing(tmp_path: Path) -> None:
    """The kernel answers ELOOP, whoever asks; a closed directory would stop no root."""
    (tmp_path / "loop").symlink_to("loop")

    assert has_come(str(tmp_path / "loop"))
    assert not has_come(str(tmp_path / "no" / "a"))
    assert not has_come(str(tmp_path / ("n" * 300)))
    with pytest.raises(OSError, match="Too many levels"):
        has_come(str(tmp_path / "loop" / "a"))


def test_a_missing_directory_is_known_by_the_one_above_it(tmp_path: Path) -> None:
    asked: list[str] = []

    def has_come(path: str) -> bool:
        asked.append(path)
        return os.path.lexists(path)

    paths = [str(tmp_path / "no" / "deeper" / name) for name in ("a", "b")]
    watch = Lookout(paths, own(tmp_path))
    settled(tmp_path)

    assert watch.those(has_come) == []
    assert watch.those(has_come) == []
    assert asked == paths[:1]
    (tmp_path / "no").mkdir()
    settled(tmp_path)
    assert watch.those(has_come) == []
    (tmp_path / "no" / "deeper").mkdir()
    (tmp_path / "no" / "deeper" / "b").touch()
    assert watch.those(has_come) == paths[1:]


def test_names_of_a_directory_that_nobody_can_look_at_are_asked_for_each_time(tmp_path: Path) -> None:
    loop, asked = tmp_path / "loop", list[str]()
    loop.symlink_to("loop")
    watch = Lookout([str(loop / "a")], own(tmp_path))
    settled(tmp_path)

    def ask(path: str) -> bool:
        asked.append(path)
        return False

    for _ in range(2):
        assert watch.those(ask) == []
    assert asked == [str(loop / "a")] * 2
    assert seen_at(os.fsencode(loop)) is None


def test_names_that_are_added_are_asked_for_too(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "b").touch()
    watch = Lookout([str(tmp_path / "a")], own(tmp_path))
    settled(tmp_path)
    assert watch.those(os.path.lexists) == []

    watch.add(str(tmp_path / "d"), ["b"], None, time.time_ns())

    assert watch.those(os.path.lexists) == [str(tmp_path / "d" / "b")]


def test_what_is_unchanged_costs_one_look_at_each_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none at one at which somebody has just looked: each run asks this, and a hook waits for it."""
    looked: list[str] = []

    def look(path: str) -> Stamp | None:
        looked.append(path)
        return stamp_of(path)

    there, place = tmp_path / "there", str(tmp_path)
    there.mkdir()
    watch = Lookout([f"{place}/{path}" for path in ("a", "b", "no/a", "none/b", "there/a")], own(tmp_path))
    settled(tmp_path)
    assert watch.those(os.path.lexists) == []
    monkeypatch.setattr(lookout, "stamp_of", look)

    assert watch.those(os.path.lexists) == []
    assert watch.those(os.path.lexists, place, tmp_path.stat()) == []
    assert looked == [place, str(there), str(there)]


def test_a_python_without_what_asks_briefly_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for once."""
    ask = Brief()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ringfence.enforce.libc", None)
        without.delattr("ringfence.enforce.libc", raising=False)
        ask.begin({1})
    ask.begin({1})

    assert (ask.has_begun, ask.near) == (False, frozenset())


def test_a_link_that_leads_nowhere_is_asked_again(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "link").symlink_to(tmp_path / "elsewhere")
    watch = Lookout([str(there / "link" / "a")], own(tmp_path))
    settled(there)
    assert watch.those(os.path.lexists) == []

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").touch()

    assert watch.those(os.path.lexists) == [str(there / "link" / "a")]


class Reader:
    """Reads directories, and knows which."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: str) -> Listing:
        self.read.append(path)
        names = os.listdir(path)
        return Listing(tuple(sorted(names)), False, False, (), len(names))


def test_a_directory_is_read_again_when_it_was_changed_and_not_before(tmp_path: Path) -> None:
    listings, reader, path = Listings(own(tmp_path)), Reader(), str(tmp_path)
    settled(tmp_path)
    before = tmp_path.stat()
    assert listings.of(path, reader).below == ()
    assert listings.of(path, reader, tmp_path.stat()).below == ()
    assert reader.read == [path]

    (tmp_path / "a").mkdir()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert listings.of(path, reader).below == ("a",)


def test_one_that_was_just_changed_is_read_each_time(tmp_path: Path) -> None:
    listings, reader, path = Listings(own(tmp_path)), Reader(), str(tmp_path)
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        assert listings.of(path, reader).entries == number + 1
    assert len(reader.read) == 20


def test_another_directory_at_its_path_is_read(tmp_path: Path) -> None:
    listings, reader, path = Listings(own(tmp_path)), Reader(), str(tmp_path / "here")
    (tmp_path / "here").mkdir()
    (tmp_path / "other" / "inside").mkdir(parents=True)
    settled(tmp_path)
    assert listings.of(path, reader).below == ()

    (tmp_path / "here").rename(tmp_path / "gone")
    (tmp_path / "other").rename(tmp_path / "here")

    assert listings.of(path, reader).below == ("inside",)


def test_a_listing_of_a_device_that_is_not_believed_is_not_kept(tmp_path: Path) -> None:
    listings, reader, path = Listings(), Reader(), str(tmp_path)
    settled(tmp_path)
    listings.of(path, reader)
    listings.of(path, reader)

    assert reader.read == [path, path]


def test_no_more_directories_are_kept_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listings, "MOST", 1)
    for name in "ab":
        (tmp_path / name).mkdir()
    settled(tmp_path)
    listings, reader = Listings(own(tmp_path)), Reader()
    for path in [str(tmp_path / name) for name in "abab"]:
        listings.of(path, reader)

    assert [os.path.basename(path) for path in reader.read] == ["a", "b", "b"]


def test_a_stamp_says_something_when_the_names_were_read_well_after_it() -> None:
    changed = 1_000_000_000
    stamp = (7, 1, changed - 5, changed)

    assert is_settled(stamp, changed + 60_000_000, {7})
    assert not is_settled(stamp, changed + 1_000_000, {7})
    assert not is_settled(stamp, changed + 60_000_000, {8})


@pytest.fixture
def crowd(tmp_path: Path) -> Crowd:
    """Two names that must not be written, of which one is there, as they were a moment ago."""
    (tmp_path / "present").touch()
    settled(tmp_path)
    facts = tmp_path.stat()
    place = Place(str(tmp_path), str(tmp_path), Kind.DIRECTORY, facts.st_dev, facts.st_ino)
    origin = Origin("a test")
    rules = {name: Rule(Access.WRITE, Verdict.DENY, str(tmp_path / name), origin) for name in ("present", "missing")}
    present = {"present": (tmp_path / "present").stat().st_ino}
    return Crowd(place, Access.WRITE, rules, present, stamp=stamp_of(str(tmp_path)))


@pytest.mark.parametrize("is_read", [False, True], ids=["write", "read"])
@pytest.mark.parametrize("is_stamped", [False, True], ids=["no stamp", "stamp"])
@pytest.mark.parametrize("is_late", [False, True], ids=["after", "before"])
def test_what_came_or_went_since_a_crowd_was_looked_at_is_seen(
    tmp_path: Path, crowd: Crowd, is_late: bool, is_stamped: bool, is_read: bool
) -> None:
    """Also when it did before anybody kept watch. Of what may not be read nobody is told that it appeared."""
    asked, mounts = time.time_ns(), enforce.mounts()
    crowd = crowd if is_stamped else msgspec.structs.replace(crowd, stamp=None)
    crowd = msgspec.structs.replace(crowd, access=Access.READ) if is_read else crowd

    def change() -> None:
        (tmp_path / "missing").touch()
        (tmp_path / "present").rename(tmp_path / "elsewhere")
        (tmp_path / "present").touch()

    if is_late:
        change()
    ground = enforce.Ground((), (), dict, [(crowd, ("missing",))], mounts, asked)
    if not is_late:
        assert not ground.has_appeared(str(tmp_path), None)
        assert ground.appeared(str(tmp_path), None) == ()
        assert ground.is_covered()
        change()

    assert ground.has_appeared(str(tmp_path), None)
    assert ground.appeared(str(tmp_path), None) == (() if is_read else (str(tmp_path / "missing"),))
    assert not ground.is_covered()


@pytest.mark.parametrize("is_free", [False, True], ids=["held", "held by nobody"])
def test_what_is_covered_is_the_object_that_was_seen(tmp_path: Path, crowd: Crowd, is_free: bool) -> None:
    """Where nobody holds it, one that was changed since may be another with its number. It stands beside a crowd."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    facts, asked = secret.stat(), time.time_ns()

    def ground() -> enforce.Ground:
        known = {str(secret): (facts.st_dev, facts.st_ino, is_free)}
        now = msgspec.structs.replace(crowd, stamp=stamp_of(str(tmp_path)))
        return enforce.Ground((), (), lambda: known, [(now, ())], enforce.mounts(), asked)

    settled(tmp_path)
    secret.rename(tmp_path / "away")
    gone = ground().is_covered()
    secret.write_text("x")
    other = ground().is_covered()
    (tmp_path / "away").replace(secret)
    back = ground().is_covered()

    assert (gone, other, back) == (False, False, not is_free)
