"""The rule of conftest.py, tried on small suites: which skips CI accepts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
TOO_NEW = "@pytest.mark.needs_landlock(9999)"
BY_HAND = "@pytest.mark.skip(reason='not today')"
MARKERS = "[pytest]\nmarkers =\n    needs_landlock(abi)\n    needs_bwrap\n"


def outcome(tmp_path: Path, mark: str, *, ci: bool, path: str = os.environ["PATH"]) -> int:
    """The exit code of a suite with one test so marked."""
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(MARKERS)
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n{mark}\ndef test_it() -> None: ...\n")
    environ = {**os.environ, "CI": "true" if ci else "", "PATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True).returncode


@pytest.mark.parametrize(
    ("mark", "ci", "passes"),
    [
        ("", True, True),
        (TOO_NEW, False, True),
        (TOO_NEW, True, True),  # no kernel has it: excused
        (BY_HAND, False, True),
        (BY_HAND, True, False),
    ],
)
def test_a_skip_passes_in_ci_only_when_the_machine_makes_it(tmp_path: Path, mark: str, ci: bool, passes: bool) -> None:
    assert (outcome(tmp_path, mark, ci=ci) == 0) is passes


@pytest.mark.parametrize(("ci", "passes"), [(False, True), (True, False)])
def test_a_program_that_could_be_installed_is_no_excuse_in_ci(tmp_path: Path, ci: bool, passes: bool) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    assert (outcome(tmp_path, "@pytest.mark.needs_bwrap", ci=ci, path=str(empty)) == 0) is passes


@pytest.mark.parametrize(("ci", "passes"), [(False, True), (True, False)])
def test_a_whole_file_cannot_skip_itself_in_ci(tmp_path: Path, ci: bool, passes: bool) -> None:
    mark = "pytest.skip('not here', allow_module_level=True)"

    assert (outcome(tmp_path, mark, ci=ci) in (0, 5)) is passes
