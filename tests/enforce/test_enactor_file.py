"""The enactor's program is missing, was changed, or could be: nothing is started, and the error says why.

Each test works on a copy, for which the product is told to take it.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.enforce.conftest import STREAMS, launched, plan_of, shell

from ringfence import enforce
from ringfence.enforce import enactor
from ringfence.model import Exited, LaunchError

assert sys.platform == "linux"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the program and its digest, which the product takes for its own."""
    program = tmp_path / "enact"
    for suffix in ("", ".sha256"):
        shutil.copy(enactor.PROGRAM + suffix, f"{program}{suffix}")
    monkeypatch.setattr(enactor, "PROGRAM", str(program))
    monkeypatch.setattr(enactor, "FALLBACK", str(tmp_path / "enact.py"))
    monkeypatch.setattr(enactor, "_opened", {})
    return program


def change_a_byte(program: Path) -> None:
    data = bytearray(program.read_bytes())
    data[len(data) // 2] ^= 1
    program.write_bytes(data)


def change_a_byte_and_the_time_back(program: Path) -> None:
    before = program.stat()
    change_a_byte(program)
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))


def append(program: Path) -> None:
    with program.open("ab") as file:
        file.write(b"\0")


def change_the_digest(program: Path) -> None:
    digest = Path(f"{program}.sha256")
    digest.write_text("0" * 64 + "\n")


def put_a_script(program: Path) -> None:
    program.write_text("#!/bin/sh\necho ran\n")


def put_a_directory(program: Path) -> None:
    program.unlink()
    program.mkdir()


CASES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "it is missing": (Path.unlink, "", "the enactor cannot be opened: No such file or directory"),
    "a byte changed": (change_a_byte, "", "the enactor is not the one that was built"),
    "a byte changed, and the clock": (change_a_byte_and_the_time_back, "", "the enactor is not the one that was built"),
    "a byte more": (append, "", "the enactor is not the one that was built"),
    "a script in its place": (put_a_script, "", "the enactor is not the one that was built"),
    "another digest": (change_the_digest, "", "the enactor is not the one that was built"),
    "no digest": (
        lambda program: Path(f"{program}.sha256").unlink(),
        ".sha256",
        "the enactor's digest cannot be read: No such file or directory",
    ),
    "its group may write it": (lambda p: p.chmod(0o775), "", "the enactor can be changed by others (mode 775)"),
    "everybody may write it": (lambda p: p.chmod(0o757), "", "the enactor can be changed by others (mode 757)"),
    "it is a directory": (put_a_directory, "", "the enactor can be changed by others (mode 755)"),
}
EACH = pytest.mark.parametrize(
    ("damage", "suffix", "what"), [pytest.param(*row, id=name) for name, row in CASES.items()]
)


@EACH
def test_nothing_runs_when(
    damage: Callable[[Path], object], suffix: str, what: str, copy: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    damage(copy)

    with pytest.raises(LaunchError) as caught:
        launched(plan_of(STREAMS, shell(f"echo > {made}")))

    place = caught.value.place if what.startswith("the enactor cannot") else f"{copy}{suffix}"
    assert (caught.value.place, caught.value.what, caught.value.exit_code) == (place, what, 125)
    assert "install ringfence again" in caught.value.hint
    assert not made.exists()


@EACH
def test_nothing_runs_when_it_happens_between_two_runs(
    damage: Callable[[Path], object], suffix: str, what: str, copy: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    assert launched(plan_of(STREAMS, shell("exit 0"))) == (Exited(0), b"")
    if suffix or damage is change_the_digest:
        os.utime(copy)  # the program is checked again when it changed; its digest alone was read long ago
    damage(copy)

    with pytest.raises(LaunchError, match=what.split(":", maxsplit=1)[0].replace("(", r"\(").replace(")", r"\)")):
        launched(plan_of(STREAMS, shell(f"echo > {made}")))

    assert not made.exists()


def test_an_untouched_copy_runs(copy: Path) -> None:
    assert launched(plan_of(STREAMS, shell("echo ran"))) == (Exited(0), b"ran\n")


def test_what_was_checked_is_what_is_started(copy: Path) -> None:
    """The program is held open: one that is put in its place after the check is not the one that runs."""
    opened = enforce.open_enactor()
    copy.unlink()
    put_a_script(copy)
    copy.chmod(0o755)

    arguments, executable = opened.command(3, 4, ids=(1, 2))

    assert os.readlink(executable) == f"{copy} (deleted)"
    assert arguments == ["ringfence-enact", "3", "4", "1", "2"]
