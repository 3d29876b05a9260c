"""Runs of one nursery, whose views are copies of one template: each has its own, and none has what another left."""

import contextlib
import errno
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.looking import until
from tests.test_run import resumed as resumed

import ringfence
from ringfence import enforce, keep
from ringfence.enforce import standby
from ringfence.model import StepKind
from ringfence.plan import view
from ringfence.run import make_request, plan_for

AS_ROOT = os.geteuid() == 0
pytestmark = pytest.mark.needs_userns
SECRET = "the secret"


class Place:
    """A workspace with something hidden and something unwritable in it, and a directory outside that may be written."""

    def __init__(self, path: Path, many: int) -> None:
        self.workspace, self.other = path / "ws", path / "other"
        self.hidden = self.workspace / "private" / "key"
        for directory in (self.hidden.parent, self.other, self.workspace / "many"):
            directory.mkdir(parents=True)
        self.hidden.write_text(SECRET)
        self.many = [self.workspace / "many" / str(number) for number in range(many)]
        for file in self.many:
            file.write_text(SECRET)
        self.flags = ringfence.Flags(
            deny_read=(str(self.hidden), *map(str, self.many)),
            allow_write=(str(self.other),),
            enforcement=ringfence.Enforcement.BEST_EFFORT,
        )

    def run(self, script: str, **more: object) -> ringfence.Outcome:
        options: dict[str, object] = {"capture": True, "as_root": AS_ROOT, "timeout": 50, **more}
        return ringfence.run(["sh", "-c", script], workspace=str(self.workspace), flags=self.flags, **options)  # type: ignore[arg-type]

    def nursery(self) -> standby.Nursery:
        """The one that the next run's standby is from, with nobody standing by."""
        (kept,) = keep._prepared.values()
        assert kept._nursery is not None
        nursery = kept._nursery[0]
        while nursery._asked:
            nursery.take().close()
        return nursery


FEW, MANY = 300, 600  # names: from 512 on what stands in a private directory is not copied a second time


@pytest.fixture(params=[FEW, MANY])
def place(tmp_path: Path, settled: None, unhurried: None, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place where the next run comes from a nursery."""
    keep.forget_all()
    made = Place(tmp_path, request.param)
    for _ in range(4):
        assert made.run("true").ok
    yield made
    keep.forget_all()


PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")


def test_what_one_run_leaves_in_its_private_places_the_next_does_not_see(place: Place, resumed: list[int]) -> None:
    for number in range(5):
        left = "; ".join(
            f"ls -A {path}; echo {number} > {path}/left-{number}; test -s {path}/left-*" for path in PRIVATE
        )

        outcome = place.run(left)

        assert outcome.ok
        assert b"left" not in (outcome.stdout or b"")
    assert len(resumed) == 5


def test_two_runs_at_the_same_time_do_not_see_what_the_other_makes(place: Place, resumed: list[int]) -> None:
    made, seen = place.workspace / "made", place.workspace / "seen"
    fill = "; ".join(f"echo x > {path}/mine" for path in PRIVATE)
    wait = "for i in $(seq 300); do test -e seen && exit 0; sleep 0.1; done; exit 1"
    outcomes: list[ringfence.Outcome] = []
    first = threading.Thread(target=lambda: outcomes.append(place.run(f"{fill}; echo > made; {wait}")))
    first.start()
    while not made.exists() and first.is_alive():
        time.sleep(0.01)

    second = place.run(f"ls -A {' '.join(PRIVATE)}; echo > seen")
    first.join()

    assert seen.exists()
    assert outcomes[0].ok
    assert second.ok
    assert b"mine" not in (second.stdout or b"")
    assert len(resumed) == 2


def test_what_is_hidden_stays_hidden_in_each(place: Place, resumed: list[int]) -> None:
    assert place.hidden.read_text() == SECRET
    for _ in range(3):
        outcome = place.run(f"cat {place.hidden} many/*; rm -f {place.hidden}; mv private elsewhere; mv many elsewhere")

        assert SECRET.encode() not in (outcome.stdout or b"")
        assert place.hidden.read_text() == SECRET
        assert place.many[0].read_text() == SECRET
    assert len(resumed) == 3


def refused(found: standby.Standby) -> ringfence.Refused:
    """What a standby says that does not come to stand by."""
    with found._launch as launched:
        found._request.close()
        ending = launched.wait()[0]
    assert isinstance(ending, ringfence.Refused)
    return ending


def by_a_link(path: Path) -> None:
    """The same object again, after its name was gone."""
    os.link(path, f"{path}-2")
    path.unlink()
    os.rename(f"{path}-2", path)


def by_another(path: Path) -> None:
    path.rename(f"{path}-2")
    path.mkdir()


def hidden(place: Place) -> Path:
    return place.hidden


def one_of_many(place: Place) -> Path:
    return place.many[7]


def other(place: Place) -> Path:
    return place.other


@pytest.mark.parametrize(
    ("what", "swap"),
    [(hidden, by_a_link), (one_of_many, by_a_link), (other, by_another)],
    ids=["hidden", "many", "bound"],
)
def test_what_was_replaced_since_the_nursery_was_made_is_found(
    place: Place, what: Callable[[Place], Path], swap: Callable[[Path], None]
) -> None:
    nursery = place.nursery()
    nursery.take().close()  # all is as it was
    swap(what(place))

    found = refused(nursery.take())

    assert found.errno == errno.ESTALE


@pytest.mark.parametrize(("what", "swap"), [(hidden, by_a_link), (one_of_many, by_a_link)], ids=["hidden", "many"])
def test_a_mask_that_went_with_its_name_is_there_again_in_the_next_run(
    place: Place, what: Callable[[Place], Path], swap: Callable[[Path], None]
) -> None:
    swap(what(place))
    time.sleep(1.2)  # whoever stood by already saw it go, as a run does that has begun

    outcome = place.run(f"cat {what(place)}")

    assert what(place).read_text() == SECRET
    assert SECRET.encode() not in (outcome.stdout or b"")


def test_what_is_written_goes_to_the_directory_that_stands_there_now(place: Place) -> None:
    by_another(place.other)

    assert place.run(f"echo new > {place.other}/file").ok
    assert (place.other / "file").read_text() == "new\n"


def by_a_symbolic_link(path: Path) -> None:
    path.rename(f"{path}-2")
    path.symlink_to(f"{path}-2")


def by_a_file(path: Path) -> None:
    path.unlink()
    path.write_text("another")


def by_nothing(path: Path) -> None:
    assert path.exists()


@pytest.mark.parametrize(
    ("swap", "error"),
    [(by_nothing, 0), (by_a_file, 0), (by_a_symbolic_link, errno.ESTALE)],
    ids=["as it was", "file", "link"],
)
def test_one_of_many_names_that_became(swap: Callable[[Path], None], error: int, place: Place) -> None:
    request = make_request(str(place.workspace), str(place.workspace), place.flags, as_root=AS_ROOT)
    plan = plan_for(request, ["cat", str(place.many[7])], {"PATH": "/usr/bin:/bin"})
    swap(place.many[7])

    with enforce.start(plan, enforce.encode(plan.steps), capture=True, feed=True) as launched:
        ending, out, _ = launched.wait()

    assert any(step.numbers[:1] == (view.MASK_EACH,) for step in plan.steps if step.kind is StepKind.MOUNT)
    assert (ending.errno if isinstance(ending, ringfence.Refused) else 0) == error
    assert not out


TAKE_OFF = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for fd in [os.open(f"/proc/{sys.argv[1]}/ns/{name}", os.O_RDONLY) for name in ("user", "mnt")]:
    assert libc.setns(fd, 0) == 0, os.strerror(ctypes.get_errno())
print(0 if libc.umount2(os.fsencode(sys.argv[2]), 0) == 0 else ctypes.get_errno())
"""


def taken_off(place: Place, target: Path) -> bool:
    """Whether somebody with every right in the namespaces of a run can take a mount off there."""
    living: list[enforce.Launch] = []
    began = place.workspace / "began"
    began.unlink(missing_ok=True)
    run = threading.Thread(target=lambda: place.run("echo > began; exec sleep 50", on_start=living.append))
    run.start()
    assert until(lambda: began.exists() and bool(living))
    pid = inmost(living[-1].process.pid)
    try:
        done = subprocess.run([sys.executable, "-c", TAKE_OFF, str(pid), str(target)], capture_output=True, check=True)
    finally:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        run.join()
    assert done.stdout in (b"0\n", f"{errno.EINVAL}\n".encode()), done
    return done.stdout == b"0\n"


def inmost(pid: int) -> int:
    """The command, which is the last of a row of only children."""

    def below() -> bool:
        nonlocal pid
        if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
            return True
        pid = int([str(pid), *Path(f"/proc/{pid}/task/{pid}/children").read_text().split()][-1])
        return False

    assert until(below)
    return pid


def test_nobody_takes_a_mask_off_a_copy(place: Place, resumed: list[int]) -> None:
    assert not taken_off(place, place.hidden)
    assert resumed
    keep.forget_all()
    assert not taken_off(place, place.hidden)  # nor off a view that was made for it alone
    assert len(resumed) == 1


@pytest.mark.parametrize("place", [FEW], indirect=True)
def test_what_the_template_has_of_a_private_directory_is_unwritable(place: Place, resumed: list[int]) -> None:
    """Every run has a copy of it below its own."""
    shown = place.run("cat /proc/self/mountinfo").stdout or b""
    private = [line.split() for line in shown.decode().splitlines() if line.split()[4] == "/tmp"]

    assert resumed
    *below, own = [words[5].split(",")[0] for words in private]
    assert (own, below) == ("rw", ["ro"] * str(place.workspace).startswith("/tmp/"))  # as a place for the workspace


@pytest.mark.parametrize("place", [MANY], indirect=True)
def test_a_private_directory_in_which_the_workspace_stands_is_another_file_system_for_each(
    place: Place, resumed: list[int]
) -> None:
    (kept,) = keep._prepared.values()
    assert kept._nursery is not None
    mounts = Path(f"/proc/{kept._nursery[0]._launch.process.pid}/mountinfo")
    before, devices = len(mounts.read_text().splitlines()), []

    for _ in range(6):
        shown = place.run("cat /proc/self/mountinfo; sleep 0.1").stdout or b""
        private = [line.split() for line in shown.decode().splitlines() if line.split()[4] == "/tmp"]
        devices += [words[2] for words in private]
        assert [words[5].split(",")[0] for words in private] == ["rw"]

    assert len(resumed) == 6
    assert all(device != other for device, other in itertools.pairwise(devices))
    assert until(lambda: len(mounts.read_text().splitlines()) == before)  # nothing is left where it was put together


def test_a_nursery_with_a_template_does_not_keep_it_for_ever(place: Place) -> None:
    nursery = place.nursery()

    nursery._launch.outlast(30)

    assert nursery._launch.process.returncode == 0
    assert place.run("echo again").stdout == b"again\n"
