"""Standard streams that are files behave as a shell's user expects, and are no way out."""

import fcntl
import os
import socket
import subprocess

import pytest
from tests.attacks.conftest import PYTHON, Field, Ground, ringfence_words, said


def shell(field: Field, ground: Ground, script: str) -> str:
    """A script in which $run is ringfence; what it prints."""
    import shlex

    ground.own()
    done = said(["bash", "-c", script.replace("$run", shlex.join(ringfence_words(field.walls)))], ground.workspace)
    return done.out + done.err


def test_output_goes_on_where_the_next_command_writes(field: Field) -> None:
    ground = field.ground()
    shell(field, ground, "(echo 0; $run echo a; echo b; $run echo c; echo d) > ../outside/log")

    assert (ground.outside / "log").read_text() == "0\na\nb\nc\nd\n"


def test_output_is_appended(field: Field) -> None:
    ground = field.ground()
    shell(field, ground, "$run echo a >> ../outside/canary")

    assert (ground.outside / "canary").read_text() == "canary\na\n"


def test_both_outputs_in_one_file_keep_their_order(field: Field) -> None:
    ground = field.ground()
    shell(field, ground, "$run sh -c 'for i in 1 2 3 4 5 6; do echo out $i; echo err $i >&2; done' > log 2>&1")

    expected = [f"{name} {number}" for number in range(1, 7) for name in ("out", "err")]
    assert (ground.workspace / "log").read_text().splitlines() == expected


def test_input_begins_where_it_was_left(field: Field) -> None:
    ground = field.ground()
    ground.file("outside/lines", "1\n2\n3\n")

    assert shell(field, ground, "(read first; $run cat) < ../outside/lines") == "2\n3\n"


def test_input_that_may_not_be_seen_inside_is_given_all_the_same(field: Field) -> None:
    ground = field.ground()

    assert shell(field, ground, "$run cat < ../home/.bashrc") == "canary\n"


def test_a_here_document_is_input(field: Field) -> None:
    assert shell(field, field.ground(), "$run cat <<end\nwords\nend\n") == "words\n"


def test_output_of_megabytes_arrives_whole(field: Field) -> None:
    ground = field.ground()
    shell(field, ground, "$run head -c 5000000 /dev/zero > ../outside/zeros; echo after >> ../outside/zeros")

    assert (ground.outside / "zeros").stat().st_size == 5_000_006


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr"])
def test_output_by_its_other_names(field: Field, name: str) -> None:
    outcome = field.run(field.ground(), ["sh", "-c", f"echo x > {name}"])

    assert (outcome.stdout or b"") + (outcome.stderr or b"") == b"x\n", outcome


def test_what_is_written_to_a_log_cannot_be_taken_back(field: Field) -> None:
    ground = field.ground()
    program = "import os; os.write(1, b'evidence'); os.ftruncate(1, 0)"
    words = f'/usr/bin/python3 -c "{program}"'

    said_ = shell(field, ground, f"{words} > ../outside/bare; $run {words} > ../outside/log")

    logs = [(ground.outside / name).read_text() for name in ("bare", "log")]
    assert logs == ["", "evidence"], said_


NONBLOCKING = """
import fcntl, os
for fd in range(3):
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC)
"""


def _pair() -> list[int]:
    return [end.detach() for end in socket.socketpair()]


@pytest.mark.parametrize("kind", ["pipes", "sockets"])
def test_streams_are_given_back_as_they_were(field: Field, kind: str) -> None:
    """Whoever writes to the same pipe after the command must not fail because that one does not block any more."""
    ground = field.ground()
    ground.own()
    ends = [*os.pipe(), *os.pipe()] if kind == "pipes" else _pair() + _pair()
    streams = {"stdin": ends[0], "stdout": ends[3], "stderr": ends[3]}

    def flags() -> list[int]:
        return [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (ends[0], ends[3])]

    try:
        before = flags()
        words = [PYTHON, "-I", "-S", "-c", NONBLOCKING]
        subprocess.run(words, **streams, check=True, timeout=60)  # type: ignore[call-overload]
        assert flags() != before
        for fd, value in zip((ends[0], ends[3]), before, strict=True):
            fcntl.fcntl(fd, fcntl.F_SETFL, value)
        whole = [*ringfence_words(field.walls), *words]
        done = subprocess.run(whole, cwd=ground.workspace, **streams, timeout=60)  # type: ignore[call-overload]
        assert (done.returncode, flags()) == (0, before)
    finally:
        for end in ends:
            os.close(end)
