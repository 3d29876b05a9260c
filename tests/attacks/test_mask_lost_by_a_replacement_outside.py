"""Somebody outside replaces a protected file while the command runs, as editors and `git config` do.

A mount covers an object, not a name: when the name is given to another object, the cover goes with the old one.
"""

import os
import threading

from tests.attacks.conftest import Field, Ground, with_git

PROGRAM = """
import time
write("src/begun")
for _ in range(500):
    if os.path.exists("src/replaced"):
        break
    time.sleep(0.01)
attempt("read what was denied", lambda: read(".env"))
attempt("read in what was denied", lambda: read("private/new"))
attempt("write what is protected", lambda: write(".git/config", flags=os.O_APPEND))
"""


def replace(ground: Ground) -> None:
    """What an editor, `git config` and a person do outside, once the command has begun."""

    def work(stop: threading.Event) -> None:
        while not (ground.workspace / "src/begun").exists():
            if stop.wait(0.01):
                return
        for name in (".env", ".git/config"):
            ground.file(f"ws/{name}.new", "[core]\n")
            os.chown(ground.workspace / f"{name}.new", ground.uid, ground.gid)
            os.rename(ground.workspace / f"{name}.new", ground.workspace / name)
        (ground.workspace / "private").rename(ground.workspace / "private.old")
        ground.file("ws/private/new")
        ground.file("ws/src/replaced")

    ground.thread(work)


def test_what_is_replaced_outside_stays_protected_or_it_is_said(field: Field) -> None:
    ground = field.ground()
    with_git(ground)
    ground.file("ws/.env")
    ground.file("ws/private/old")
    ground.own()
    replace(ground)

    denied = (str(ground.workspace / ".env"), str(ground.workspace / "private"))
    seen = field.program(ground, PROGRAM, deny_read=denied)

    escaped = {name for name, answer in seen.answers.items() if answer == "done"}
    if field.walls.backend == "landlock":
        escaped -= {"write what is protected"}  # there it is a stated gap in any case
    gaps = [gap.what for gap in seen.gaps]
    assert not escaped or any("replaced" in what for what in gaps), f"{sorted(escaped)}, and no gap says so: {gaps}"
