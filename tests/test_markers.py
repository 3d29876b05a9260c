"""The rule of conftest.py, tried on small suites: which skips CI accepts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
MARKERS = "[pytest]\nmarkers =\n    needs_landlock(abi)\n    needs_bwrap\n"
FILES = {
    "plain": "",
    "too_new": "@pytest.mark.needs_landlock(9999)",  # no kernel has it: excused
    "by_hand": "@pytest.mark.skip(reason='not today')",
    "not_installed": "@pytest.mark.needs_bwrap",  # it could be
    "whole_file": "pytest.skip('not here', allow_module_level=True)",
}


@pytest.mark.parametrize(("ci", "refused"), [("", set()), ("true", {"by_hand", "not_installed", "whole_file"})])
def test_a_skip_passes_in_ci_only_when_the_machine_makes_it(tmp_path: Path, ci: str, refused: set[str]) -> None:
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(MARKERS)
    for name, mark in FILES.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\n{mark}\ndef test_it() -> None: ...\n")
    environ = {**os.environ, "CI": ci, "PATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--continue-on-collection-errors"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)

    assert {*re.findall(r"^(?:FAILED|ERROR) test_(\w+)\.py", done.stdout, re.MULTILINE)} == refused, done.stdout
    assert (done.returncode == 0) is not bool(refused)
    assert re.findall(r"^PASSED test_(\w+)\.py", done.stdout, re.MULTILINE) == ["plain"]
    assert len(re.findall(r"^SKIPPED ", done.stdout, re.MULTILINE)) == len(FILES) - 1 - len(refused), done.stdout
