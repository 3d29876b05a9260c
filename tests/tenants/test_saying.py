"""What a run says through its steward: few lines however small its pieces, and every letter of them in order."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attacks.everybody import BASE, NOBODY
from tests.attacks.everybody import installed as installed
from tests.attacks.everybody import workspace as workspace
from tests.looking import until

from ringfence import carry
from ringfence.model import Denial
from ringfence.steward import say

pytestmark = pytest.mark.usefixtures("installed")
STEWARD = """
import os, sys
os.dup2(int(sys.argv[2]), 3)
sys.path.insert(0, sys.argv[3])
from ringfence import carry
from ringfence.steward import main
carry.PAUSE = float(sys.argv[4])
sys.argv = ["steward", sys.argv[1], "0"]
os._exit(main())
"""
Line = dict[str, object]


@contextlib.contextmanager
def steward(workspace: Path, *argv: str, pause: float = carry.PAUSE) -> Iterator["subprocess.Popen[bytes]"]:
    """One that carries a command."""
    lifeline, end = os.pipe()
    words = ["/usr/bin/python3", "-I", "-c", STEWARD, str(workspace), str(lifeline), str(BASE / "lib"), str(pause)]
    if os.geteuid() == 0:
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environ, "pass_fds": (lifeline,)}
    with subprocess.Popen(words, cwd=workspace, **options) as process:  # type: ignore[call-overload]
        os.close(lifeline)
        process.stdin.write(json.dumps({"do": "run", "argv": argv}).encode() + b"\n")
        process.stdin.flush()
        yield process
        process.stdin.close()
        os.close(end)


def heard(lines: list[Line]) -> str:
    return "".join(base64.b64decode(str(line["data"])).decode() for line in lines if "data" in line)


def test_letters_come_together_and_all_of_them(workspace: Path) -> None:
    program = "import os, time\nfor n in range(400): os.write(1, b'%d,' % n); time.sleep(0.002)"
    begun = time.monotonic()
    with steward(workspace, "python3", "-c", program) as process:
        assert process.stdout
        lines: list[Line] = []
        while not lines or "ended" not in lines[-1]:
            lines.append(json.loads(process.stdout.readline()))

    assert heard(lines) == "".join(f"{n}," for n in range(400))
    assert lines[-1]["exitCode"] == 0
    assert len(lines) < 5 + (time.monotonic() - begun) / carry.PAUSE


def test_what_is_held_comes_while_the_command_waits(workspace: Path) -> None:
    program = "for l in a b c d; do printf $l; sleep 0.01; done; until [ -e go ]; do sleep 0.01; done; printf e"
    with steward(workspace, "sh", "-c", program) as process:
        assert process.stdout
        lines: list[Line] = []
        while heard(lines) != "abcd":
            lines.append(json.loads(process.stdout.readline()))
        (workspace / "go").touch()
        while "ended" not in lines[-1]:
            lines.append(json.loads(process.stdout.readline()))

    assert heard(lines) == "abcde"


def test_what_was_said_before_it_is_told_to_end_is_heard(workspace: Path) -> None:
    program = "printf a; sleep 0.02; printf b; sleep 2; : > said; sleep 100"  # in two seconds b is held, and not said
    with steward(workspace, "sh", "-c", program, pause=1000.0) as process:
        assert until((workspace / "said").exists)
        process.send_signal(signal.SIGTERM)
        assert process.stdout
        lines = [json.loads(line) for line in process.stdout.read().splitlines()]

    assert heard(lines) == "ab"


def test_streams_keep_their_order_and_much_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, int]] = []

    def note(stream: str, data: str) -> None:
        said.append((stream, len(base64.b64decode(data))))

    async def speak() -> list[tuple[str, int]]:
        saying = carry.Saying()
        for stream, size in (("stdout", 1), ("stderr", 2), ("stderr", 3), ("stdout", 4)):
            saying.add(stream, bytes(size))
        early = [*said]
        saying.add("stdout", bytes(carry.MUCH))
        saying.add("stdout", b"last")
        saying.flush()
        saying.flush()
        return early

    monkeypatch.setattr(carry, "say", note)
    assert asyncio.run(speak()) == [("stdout", 1)], "the first at once, and the others soon"
    assert said == [("stdout", 1), ("stderr", 5), ("stdout", 4 + carry.MUCH), ("stdout", 4)]


def test_a_name_that_is_no_text_is_told_of(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A command that was refused one would end its steward, and nobody would hear how it ended."""
    say(denials=(Denial("write", "/etc/\udcff", "no", ""),))

    assert json.loads(capfdbinary.readouterr().out)["denials"][0]["target"] == "/etc/\\udcff"
