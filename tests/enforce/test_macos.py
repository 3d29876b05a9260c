"""Launching as on a Mac, tried here with a stand-in for sandbox-exec: it holds nothing, and takes the same words."""

import contextlib
import os
import sys
from pathlib import Path

import msgspec
import pytest
from tests.looking import until

from ringfence import plan
from ringfence.enforce import macos
from ringfence.model import (
    BUILT_IN,
    Access,
    Command,
    Exited,
    Host,
    Kind,
    LaunchError,
    Plan,
    Policy,
    Refused,
    Rule,
    Signalled,
    TimedOut,
    Verdict,
)
from ringfence.plan import seatbelt

STAND_IN = """#!/bin/sh
while [ "$1" = -D ]; do shift 2; done
[ "$1" = -p ] || exit 64
case $2 in "(version 1)"*) ;; *) echo "sandbox-exec: no profile" >&2; exit 65 ;; esac
shift 2
exec "$@"
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "sandbox-exec"
    made.write_text(STAND_IN)
    made.chmod(0o755)
    monkeypatch.setattr(macos, "PROGRAM", str(made))
    monkeypatch.setattr(seatbelt, "PROGRAM", str(made))
    monkeypatch.setattr(macos, "TRIED", (str(made), *macos.TRIED[1:3], "/bin/true"))
    return made


def planned(tmp_path: Path, *argv: str) -> Plan:
    policy = Policy(str(tmp_path), tuple(Rule(access, Verdict.ALLOW, str(tmp_path), BUILT_IN) for access in Access))
    host = Host("darwin", "arm64", seatbelt=True)
    command = Command(argv, str(tmp_path), {"PATH": "/usr/bin:/bin", "LC_X": "1"}, argv[0])
    return plan.make_plan(policy, command, host, macos.survey(plan.named_paths(policy), []))


def ran(made: Plan, timeout: float | None = 20, data: bytes = b"") -> tuple[object, bytes | None, bytes | None]:
    with macos.start(made, b"", capture=True, feed=True) as launch:
        return launch.wait(timeout, data)


@pytest.mark.usefixtures("program")
def test_it_is_found_by_trying() -> None:
    assert macos.probe().seatbelt


def test_where_it_is_missing_or_fails_that_is_found_too(program: Path) -> None:
    program.write_text("#!/bin/sh\nexit 1\n")
    assert not macos.probe().seatbelt
    program.unlink()
    assert not macos.probe().seatbelt


@pytest.mark.usefixtures("program")
def test_a_command_runs_with_its_words_its_input_and_its_directory(tmp_path: Path) -> None:
    script = 'cat; echo "$0 $1"; pwd; echo err >&2; exit 7'

    ending, out, err = ran(planned(tmp_path, "/bin/sh", "-c", script, "a b", "c"), data=b"in\n")

    assert (ending, out, err) == (Exited(7), f"in\na b c\n{tmp_path}\n".encode(), b"err\n")


@pytest.mark.usefixtures("program")
def test_nothing_of_ours_stays_open_in_it(tmp_path: Path) -> None:
    assert sys.platform == "linux"
    _, out, _ = ran(planned(tmp_path, "/bin/ls", "/proc/self/fd"))

    assert (out or b"").split() == [b"0", b"1", b"2", b"3"]  # the last is ls's own


def test_a_profile_that_is_not_accepted_is_a_refusal(program: Path, tmp_path: Path) -> None:
    made = planned(tmp_path, "/bin/true")
    last = made.steps[-1]
    words = [b"nonsense" if word.startswith(b"(version") else word for word in last.strings]
    made = msgspec.structs.replace(made, steps=(*made.steps[:-1], msgspec.structs.replace(last, strings=tuple(words))))

    ending, _, _ = ran(made)

    assert isinstance(ending, Refused)
    assert (ending.kind, ending.text, ending.exit_code) == ("sandbox-exec", "sandbox-exec: no profile", 125)
    assert program.exists()


def test_a_missing_program_is_an_error(program: Path, tmp_path: Path) -> None:
    made = planned(tmp_path, "/bin/true")
    program.unlink()

    with pytest.raises(LaunchError, match="cannot be started"):
        ran(made)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(("argv", "code"), [(("/nonexistent/x",), 127), (("/etc/passwd",), 126)])
def test_a_command_that_cannot_be_executed_ends_as_in_a_shell(tmp_path: Path, argv: tuple[str], code: int) -> None:
    assert ran(planned(tmp_path, *argv))[0] == Exited(code)


@pytest.mark.usefixtures("program")
def test_time_and_signals_end_it(tmp_path: Path) -> None:
    assert ran(planned(tmp_path, "/bin/sleep", "60"), timeout=0.2)[0] == TimedOut(0.2)
    assert ran(planned(tmp_path, "/bin/sh", "-c", "kill -9 $$"))[0] == Signalled(9)


def is_gone(group: int) -> bool:
    """Nobody of it lives; whether somebody reaps the dead is not ours to say."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = place.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return False
    return True


@pytest.mark.usefixtures("program")
def test_leaving_it_ends_its_group(tmp_path: Path) -> None:
    with macos.start(planned(tmp_path, "/bin/sh", "-c", "sleep 60 & wait"), b"", capture=True) as launch:
        pass

    assert launch.process.returncode == -15
    assert until(lambda: is_gone(launch.process.pid))  # its reaper takes a moment


def test_links_are_seen_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    found = macos.look(str(tmp_path / "link" / "new"))

    assert (found.path, found.kind) == (str(tmp_path / "real" / "new"), Kind.MISSING)
    assert found.links == (str(tmp_path / "link"),)


def test_what_is_turned_while_somebody_looks_leads_nowhere_without_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "data").symlink_to("secret")
    look = os.path.realpath

    def exchanging(path: str) -> str:
        found = look(path)
        (tmp_path / "data").unlink()
        (tmp_path / "data").mkdir()
        return found

    monkeypatch.setattr(os.path, "realpath", exchanging)
    found = macos.look(str(tmp_path / "data"))

    assert found.path == str(tmp_path / "data") or found.links
