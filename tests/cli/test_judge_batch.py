"""`ringfence judge --jsonl` on lines that somebody hostile wrote: an answer for each, and no yes by mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "ringfence"


def call(command: object, **more: object) -> str:
    return json.dumps({"tool": "bash", "input": {"command": command}, **more})


HOSTILE = (
    "",
    " ",
    "\0",
    "null",
    "[]",
    "{",
    "[" * 100_000,
    '{"tool": "bash", "input": ' + '{"a": ' * 5_000 + "1" + "}" * 5_001,
    '{"tool": "bash", "input": {"command": "\\ud800"}}',
    '{"tool": "bash", "input": {"command": "ls", "a": 1e400}}',
    '{"tool": 1, "input": {}}',
    '{"tool": "bash", "input": []}',
    call(None),
    call(["ls"]),
    call("ls\0 /tmp"),
    call("(" * 50_000),
    call("$(" * 5_000),
    call("eval " * 5_000),
    call("ls", root="/dev/null/nowhere"),
    call("ls", root="\0"),
    call("ls", cwd=5),
    '{"tool": "bash", "input": {"command": "ls"}, "input": {"command": "touch /etc/x"}}',
)


@pytest.mark.parametrize("options", [[], ["--root", "."]], ids=["policy", "root"])
def test_each_line_is_answered_and_none_by_a_mistaken_yes(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    os.symlink(b"/nowhere\xff/a", os.fsencode(tmp_path / "ws" / "link"))
    lines = (*HOSTILE, *(json.dumps({"tool": "write", "input": {"path": path}}) for path in ("link", "link/x")))
    done = subprocess.run(
        [PROGRAM, "judge", "--jsonl", *options], cwd=tmp_path / "ws", capture_output=True, timeout=60,
        input="".join(f"{line}\n" for line in (*lines, call("ls"))).encode(),
    )  # fmt: skip
    answers = [json.loads(line)["verdict"] for line in done.stdout.splitlines()]

    assert (len(answers), done.stderr) == (len(lines) + 1, b"")
    assert "allow" not in answers[:-1]
    assert answers[-1] == "allow"


FAULTY = """
import sys
from ringfence.cli import judge

def fail(call, bounds):
    if call.input == {"command": "fail"}:
        raise MemoryError
    return say(call, bounds)

say, judge.judge = judge.judge, fail
sys.exit(judge.main(["--jsonl", "--root", "."]))
"""


@pytest.mark.parametrize(
    ("lines", "code"),
    [([call("ls")], 0), ([call("ls"), "no"], 2), ([call("fail"), "no", call("ls")], 125)],
    ids=["judged", "no call", "not judged"],
)
def test_the_exit_code_is_that_of_the_worst_line(lines: list[str], code: int, tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([sys.executable, "-c", FAULTY], input=text, cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (code, "", len(lines))
