"""A file of the run's own (in its private /tmp, in its layer above a cache) is moved to where a person lets it. The
host has another file of that name; nobody was asked about that one, and it stays."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.airlock.asked import PYTHON, Place
from tests.attacks.test_asking import place as place

pytestmark = [pytest.mark.needs_userns, pytest.mark.needs_landlock(6)]

PROGRAM = """
import os, sys
moves, source, target = sys.argv[1:]
try:
    os.makedirs(os.path.dirname(source), exist_ok=True)
    open(source, "w").write("the run's own")
    os.rename(source, target) if moves == "rename" else os.link(source, target)
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(params=["temporary", "cached"])
def source(request: pytest.FixtureRequest, place: Place) -> Iterator[Path]:
    """A file of the host's, where the command has one of its own."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rf-") as directory:
        above = Path(directory) if request.param == "temporary" else place.home / ".cache/pip"
        above.mkdir(parents=True, exist_ok=True)
        (above / "file").write_text("the host's")
        yield above / "file"


@pytest.mark.parametrize("moves", ["rename", "link"])
def test_what_the_host_has_there_stays(place: Place, source: Path, moves: str) -> None:
    target = place.home / "data/new"
    words = (PYTHON, "-I", "-S", "-c", PROGRAM, moves, str(source), str(target))
    subprocess.run(words, check=True)
    assert target.read_text() == "the run's own"  # bare, there is only one of them
    target.unlink()
    source.write_text("the host's")

    with place.start(*words) as run:
        for line in map(json.loads, run.lines):
            if line["state"] == "query":
                (run.allow if line["path"] == str(target) else run.deny)(line)
        _, out, err = run.end()

    assert source.read_text() == "the host's", out + err
    assert not target.exists() or target.read_text() == "the run's own"
