"""A command that was given to one that stood by says in memory that it begins: nobody is woken by it, and whoever looks
when all its watchers are gone knows that it must not be begun a second time."""

import mmap
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_assumed_streams import STANDING

from ringfence.enforce.standby import Begun

SOON = 150

PROGRAM = (
    STANDING
    + """
import signal, threading
from ringfence.enforce import linux, watch

heard = []

def times():
    with open(f"{where}/times") as file:
        return len(file.read().split())

def until(true):
    while not true():
        time.sleep(0.01)

def by_standby(act):  # until one that stood by is given the command: on a busy machine it is made late, or gone again
    while True:
        if os.path.exists(f"{where}/times"):
            os.unlink(f"{where}/times")
        while len(begun) < 8 or not begun[-1].was_standby:
            assert run("true").ok
            time.sleep(0.05)
        del begun[:], heard[:]
        found = act()
        if begun[0].was_standby:
            return found


def told():
    real = linux.Launch._hear
    linux.Launch._hear = lambda self, size: (heard.append(real(self, size)), heard[-1])[1]
    assert by_standby(lambda: run("exit 3")).ending == ringfence.Exited(3)
    assert [len(data) // 16 for data in heard] == [1], heard  # its end, and no record that it begins


def killed():
    real = standby.Begun.is_told

    def kill():
        until(lambda: begun and os.path.exists(f"{where}/times") and times())
        outer = begun[0].process.pid
        for pid in (outer, *watch.descendants(outer)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def act():
        if case == "killed, by somebody who forgets":
            standby.Begun.is_told = lambda self: False
        thread = threading.Thread(target=kill)
        thread.start()
        found = run("echo once >> times; [ $(wc -l < times) = 1 ] && sleep 60; exit 0")
        thread.join()
        standby.Begun.is_told = real
        return found

    found = by_standby(act)
    if case == "killed":
        assert found.ending == ringfence.Signalled(signal.SIGKILL), found
        assert times() == 1 == len(begun)
    else:
        assert times() == 2 == len(begun)


def gone():
    real = standby.Nursery.take

    def take(self):
        found = real(self)
        if not begun:
            os.kill(found._launch.process.pid, signal.SIGKILL)
            until(lambda: not enforce_has(found))
        return found

    def enforce_has(found):
        import select
        poller = select.poll()
        poller.register(found._request, select.POLLIN)
        return not poller.poll(0)

    def act():
        standby.Nursery.take = take
        found = run("echo once >> times")
        standby.Nursery.take = real
        return found

    assert by_standby(act).ok
    assert times() == 1
    assert len(begun) == 2


{"told": told, "gone": gone}.get(case, killed)()
print("done")
"""
)


@pytest.mark.timeout(SOON + 30)
@pytest.mark.parametrize("view", ["no", "yes"])
@pytest.mark.parametrize("case", ["told", "killed", "killed, by somebody who forgets", "gone"])
def test_a_command_is_begun_once(tmp_path: Path, settled: None, case: str, view: str) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    words = [sys.executable, "-c", PROGRAM, case, str(workspace), view]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SOON, text=True)

    assert ran.stdout == "done\n", ran.stderr


def test_a_place_that_a_later_run_has_says_that_it_may_have_begun() -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    begun = Begun(memory, Begun.PLACES + 7)
    for number, is_told in ((0, False), (7, False), (Begun.PLACES + 7, True), (2 * Begun.PLACES + 7, True)):
        memory[28:32] = number.to_bytes(4, "little")
        assert begun.is_told() is is_told
