"""F3: a named pipe outside that somebody reads. Its mount is read-only, and that does not hold a pipe.

Landlock does; but for what stands inside a private directory, as the ground of these tests does, or a writable one.
That is a gap, and the plan says so.
"""

import os
import tempfile
from pathlib import Path

import pytest
from tests.attacks.conftest import EVERY_WALL, Field, Ground

PROGRAM = """
def say(flags, path):
    fd = os.open(path, flags | os.O_NONBLOCK)
    os.write(fd, b"evil")
path = EXTRA[0]
attempt("written", lambda: say(os.O_WRONLY, path))
attempt("both ends", lambda: say(os.O_RDWR, path))
attempt("made if it is not there", lambda: say(os.O_WRONLY | os.O_CREAT, path))
attempt("by its descriptor", lambda: say(os.O_WRONLY, f"/proc/self/fd/{os.open(path, os.O_PATH)}"))
"""
PLACE = "/var/lib"  # neither private nor hidden
GAP = "named pipes in read-only places inside writable or private ones unwritable"
NAMES = ("written", "both ends", "made if it is not there", "by its descriptor")


def listening(ground: Ground, where: Path) -> list[str]:
    """A pipe with somebody at its other end, who must hear nothing."""
    path = where / "pipe"
    os.mkfifo(path, 0o666)
    os.chmod(path, 0o666)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ground.stack.callback(os.close, reader)
    heard: list[bytes] = []

    def has_heard() -> bool:
        try:
            heard.append(os.read(reader, 99))
        except BlockingIOError:
            pass
        return any(heard)

    ground.harmed.append(has_heard)
    return [str(path)]


def elsewhere(ground: Ground) -> list[str]:
    base = Path(tempfile.mkdtemp(prefix="rf-", dir=PLACE))
    base.chmod(0o755)
    ground.stack.callback(base.rmdir)
    found = listening(ground, base)
    ground.stack.callback(os.unlink, found[0])
    return found


@pytest.mark.needs_root
@EVERY_WALL
def test_nobody_is_written_to_by_a_pipe(field: Field) -> None:
    field.repels(PROGRAM, elsewhere, denied=lambda _: {"allow_read": (PLACE,)})


@EVERY_WALL
def test_what_stands_in_a_private_directory_is_a_gap(field: Field) -> None:
    field.repels(PROGRAM, lambda ground: listening(ground, ground.outside), gaps={"view": dict.fromkeys(NAMES, GAP)})


@EVERY_WALL
def test_a_pipe_that_is_denied_itself_is_held_by_the_warden(field: Field) -> None:
    def kept(ground: Ground) -> list[str]:
        (ground.workspace / "kept").mkdir()
        return listening(ground, ground.workspace / "kept")

    field.repels(PROGRAM, kept, denied=lambda ground: {"deny_write": (str(ground.workspace / "kept/pipe"),)})


@EVERY_WALL
def test_and_in_the_workspace_too(field: Field) -> None:
    def kept(ground: Ground) -> list[str]:
        (ground.workspace / "kept").mkdir()
        return listening(ground, ground.workspace / "kept")

    def denied(ground: Ground) -> dict[str, tuple[str, ...]]:
        return {"deny_write": (str(ground.workspace / "kept"),)}

    field.repels(PROGRAM, kept, denied=denied, gaps={"view": dict.fromkeys(NAMES, GAP)})
