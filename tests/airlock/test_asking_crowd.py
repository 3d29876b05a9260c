"""64 processes ask at once, answers come in random order, half of the askers are killed: each answer finds its own."""

import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.airlock.asked import Place, Run
from tests.looking import common_place, until

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]
COUNT = 64
# Each child opens a file of its own, and says what came of it; on a word from outside half of them are killed.
PROGRAM = f"""
import os, signal, sys, time
pids = []
for number in range({COUNT}):
    pid = os.fork()
    if pid:
        pids.append(pid)
        continue
    try:
        text = open(f"../home/data/f{{number}}").read()
    except OSError as error:
        text = error.strerror
    open(f"said{{number}}", "w").write(text)
    os._exit(0)
while not os.path.exists("kill"):
    time.sleep(0.01)
for word in open("kill").read().split():
    os.kill(pids[int(word)], signal.SIGKILL)
for pid in pids:
    os.waitpid(pid, 0)
try:
    text = open("../home/data/f0").read()
except OSError as error:
    text = error.strerror
print(text)
"""


@pytest.fixture(params=["view", "landlock"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-ask-") as base:
        made = Place(Path(base), request.param)
        for number in range(COUNT):
            (made.home / f"data/f{number}").write_text(f"text {number}")
        yield made


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def number_of(query: dict[str, object]) -> int:
    return int(str(query["path"]).rpartition("/f")[2])


def test_every_answer_reaches_its_asker(place: Place) -> None:
    rng = random.Random(7)
    with place.python(PROGRAM) as run:
        queries = {number_of(query): query for query in [run.query() for _ in range(COUNT)]}
        before = open_files(run.process.pid)
        assert sorted(queries) == list(range(COUNT))
        killed = set(rng.sample(range(1, COUNT), COUNT // 2))
        (place.workspace / "kill.new").write_text(" ".join(map(str, killed)))
        os.rename(place.workspace / "kill.new", place.workspace / "kill")
        answered = rng.sample(sorted(queries), COUNT)
        granted = set(rng.sample(answered, COUNT // 2))
        for number in answered[: COUNT // 2]:
            (run.allow if number in granted else run.deny)(queries[number])
        withdrawn = _until_gone(run, {str(queries[number]["query_id"]) for number in killed - set(answered[:32])})
        assert withdrawn
        for number in answered[COUNT // 2 :]:  # also of those who are gone: no effect
            (run.allow if number in granted else run.deny)(queries[number])
        living = [number for number in range(COUNT) if number not in killed]
        last = run.query() if 0 in granted else None  # once was for whoever waited then
        for number in living:
            wanted = f"text {number}" if number in granted else "Permission denied"
            assert (place.workspace / f"said{number}").read_text() == wanted
        # The audit log stays open; of 64 answers nothing does, once it is over.
        assert until(lambda: open_files(run.process.pid) <= before + 4)
        if last is not None:
            run.allow(last)
        code, out, _ = run.end()
    assert (code, out) == (0, "text 0\n" if last is not None else "Permission denied\n")


def _until_gone(run: Run, numbers: set[str]) -> bool:
    """Wait until all these questions are withdrawn."""
    while numbers:
        line = json.loads(run.lines.readline())
        if line["state"] in ("withdrawn", "answered"):
            numbers.discard(str(line["query_id"]))
    return not numbers
