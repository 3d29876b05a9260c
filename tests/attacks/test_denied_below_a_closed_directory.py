"""A denied file lies in a directory that is closed by its mode, and whose owner the command is: it opens it."""

import contextlib

from tests.attacks.conftest import Field, Ground

from ringfence import RingfenceError

PROGRAM = """
attempt("opened and read", lambda: (os.chmod("un/sub", 0o700), read("un/sub/secret")))
"""


def prepare(ground: Ground) -> None:
    ground.file("ws/un/sub/secret")
    ground.own()
    (ground.workspace / "un/sub").chmod(0)


def test_a_denied_file_stays_closed_when_its_directory_is_opened(field: Field) -> None:
    ground = field.ground()
    prepare(ground)

    with contextlib.suppress(RingfenceError):  # refusing to start is an answer too
        seen = field.program(ground, PROGRAM, deny_read=(str(ground.workspace / "un/sub/secret"),))
        assert "done" not in seen.answers.values(), f"{seen.said}\n{[gap.what for gap in seen.gaps]}"


def test_a_store_closed_by_its_mode_is_not_opened_in_a_writable_home(field: Field) -> None:
    ground = field.ground()
    ground.own()
    (ground.home / ".ssh").chmod(0)

    with contextlib.suppress(RingfenceError):
        program = 'attempt("opened", lambda: (os.chmod(HOME + "/.ssh", 0o700), read(HOME + "/.ssh/id_ed25519")))'
        seen = field.program(ground, program, allow_write=(str(ground.home),))
        assert "done" not in seen.answers.values(), f"{seen.said}\n{[gap.what for gap in seen.gaps]}"
