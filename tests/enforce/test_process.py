"""A child that several threads wait for."""

import os
import signal
import threading
import time

import pytest

from ringfence.enforce import process


def test_how_a_child_ended_is_known_to_all_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that forwards signals looks whether it has ended, and takes it from who waits."""
    child = process.Process("/bin/sh", ["sh", "-c", "exit 3"], (), process.Streams())
    real, taken = os.waitpid, threading.Event()

    def slowly(pid: int, options: int) -> tuple[int, int]:
        while (found := real(pid, options)) == (0, 0):
            time.sleep(0.001)
        taken.set()
        time.sleep(0.2)
        return found

    monkeypatch.setattr(os, "waitpid", slowly)
    thread = threading.Thread(target=child.poll)
    thread.start()
    taken.wait()
    child.wait()
    known = child.returncode
    thread.join()

    assert known == child.returncode == 3


def test_what_could_not_be_started_closes_nobody_elses_descriptors() -> None:
    """Its number may be another thread's by the time that the same one is closed a second time."""
    before = set(os.listdir("/proc/self/fd"))
    streams = process.Streams()
    streams.open((process.PIPE, process.PIPE, None))
    with pytest.raises(FileNotFoundError):
        process.Process("/nonexistent", ["nonexistent"], (), streams)
    streams.close()

    assert set(os.listdir("/proc/self/fd")) == before


def test_a_signal_for_a_group_that_is_not_led_yet_reaches_its_leader_to_be() -> None:
    """An enactor makes its session after it is started; whoever ends it before that must not fail."""
    child = process.Process("/bin/sleep", ["sleep", "60"], (), process.Streams())

    child.send(signal.SIGTERM, group=True)
    child.wait()

    assert child.returncode == -signal.SIGTERM
