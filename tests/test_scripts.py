"""What is run by hand says what it is for when it is asked, and does nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = [path for path in ROOT.glob("scripts/*") if path.is_file() and path.suffix == "" and path.name != "setup"]
SCRIPTS += [path for path in ROOT.glob("bench/*.py") if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", sorted(SCRIPTS), ids=lambda path: path.name)
def test_help_is_what_the_file_says_of_itself(path: Path) -> None:
    text = path.read_text()
    is_shell = text.startswith("#!/bin/sh\n")
    program = "sh" if is_shell else sys.executable
    done = subprocess.run([program, path, "--help"], capture_output=True, text=True, timeout=60)

    first = text.partition("# " if is_shell else '"""')[2].partition("\n")[0]
    assert (done.returncode, done.stdout.splitlines()[0], done.stderr) == (0, first, "")
