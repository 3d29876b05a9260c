"""`ringfence run --explain`: what is refused is told at once, each once, with who, why and the grant."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

RINGFENCE = str(Path(sys.executable).with_name("ringfence"))
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
pytestmark = pytest.mark.needs_userns


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-explain-") as place:
        for name in ("ws", "home"):
            (Path(place) / name).mkdir()
        (Path(place) / "home/notes").write_text("x\n")
        yield Path(place)


def begun(base: Path, script: str, *options: str) -> "subprocess.Popen[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "LANG": "C.UTF-8"}
    command = [RINGFENCE, "run", *AS_ROOT, "--workspace", ".", *options, "--", "sh", "-c", script]
    return subprocess.Popen(
        command, cwd=base / "ws", env=environ, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def explained(base: Path, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    with begun(base, script, *options) as run:
        out, err = run.communicate(timeout=60)
    return subprocess.CompletedProcess(run.args, run.returncode, out, err)


def test_a_refusal_is_told_at_once_and_only_once(base: Path) -> None:
    """Before the command goes on, which here waits for it."""
    script = "cat ~/notes; until test -e go; do :; done; echo later >&2; exit 3"
    with begun(base, script, "--explain") as run:
        stderr = ""
        assert run.stderr is not None
        while "OBSERVED" not in stderr:
            line = run.stderr.readline()
            assert line, stderr
            stderr += line
        (base / "ws" / "go").touch()
        stderr += run.stderr.read()
    lines = [line for line in stderr.splitlines() if "refused (OBSERVED): read" in line]

    assert run.returncode == 3
    assert len(lines) == 1, stderr
    assert stderr.index("OBSERVED") < stderr.index("later")
    assert "cat[" in lines[0]
    assert f"--allow-read {base}/home/notes" in lines[0]


def test_output_keeps_its_order_where_it_goes_to_one_place(base: Path) -> None:
    done = explained(base, "exec 2>&1; for i in 1 2 3; do echo out $i; echo err $i >&2; done", "--explain")

    assert done.stdout.splitlines() == [f"{to} {n}" for n in (1, 2, 3) for to in ("out", "err")]


def test_an_agent_gets_it_as_a_document(base: Path) -> None:
    done = explained(base, "cat ~/notes nope", "--json")
    document = json.loads(done.stdout)

    assert [(one["access"], one["target"], one["observed"]) for one in document["denials"]] == [
        ("read", f"{base}/home/notes", False)
    ]
    assert document["denials"][0]["origin"] == "built-in"
    assert [one["target"] for one in document["notOurs"]] == [f"{base}/ws/nope"]


def test_quiet_is_quiet(base: Path) -> None:
    assert "ringfence" not in explained(base, "cat ~/notes", "--quiet").stderr


def test_what_says_a_port_is_told_with_the_name_that_was_refused_and_not_beside_it(base: Path) -> None:
    """Who asks for a name says no port: the grant was for 443, whatever was wanted, and another line said 22."""
    said_by_ssh = "ssh: Could not resolve hostname a.example: Name or service not known"
    words = f"echo '{said_by_ssh}' >&2; getent hosts a.example; exit 1"
    _, said = begun(base, words, "--explain", "--allow-host", "b.example").communicate(timeout=30)
    lines = [line for line in said.splitlines() if "a.example" in line and line.startswith("ringfence: ")]

    assert [line.partition("; allow it: ")[2] for line in lines] == ["ringfence run --allow-host a.example:22 …"], said
    assert lines[0].startswith("ringfence: refused (OBSERVED): connect a.example:22: ")


def test_a_sandbox_of_its_own_is_refused_with_the_word_that_lets_it(base: Path) -> None:
    _, said = begun(base, "unshare -r true", "--explain").communicate(timeout=30)

    assert "refused (INFERRED): sandbox namespaces: " in said
    assert "allowNestedSandbox" in said
