"""`ringfence learn`: what a run used becomes a policy under which it passes."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looking import common_place

RINGFENCE = str(Path(sys.executable).with_name("ringfence"))
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
pytestmark = pytest.mark.needs_userns


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=common_place(), prefix="rf-learn-") as place:
        made = Path(place)
        for name in ("ws/x", "home/.config/tool/a", "home/.config/tool/b", "home/.config/tool/c", "home/.ssh/id_rsa"):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text("x\n")
        (made / "home/.cache/tool").mkdir(parents=True)
        yield made


def learn(base: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "LANG": "C.UTF-8"}
    command = [RINGFENCE, "learn", *AS_ROOT, "--workspace", ".", *words]
    return subprocess.run(
        command, cwd=base / "ws", env=environ, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL
    )


def test_the_policy_has_what_was_used_and_the_command_passes_under_it(base: Path) -> None:
    script = "cd ~/.config/tool && cat a b c >/dev/null && mktemp -d ~/.cache/tool/XXXXXX"
    to = base / "learnt.toml"
    wide = ["--allow-read", "~", "--allow-write", "~/.cache"]
    done = learn(base, *wide, "--to", str(to), "--check", "--", "sh", "-c", script)

    assert done.returncode == 0, done.stderr
    assert "alone it exited with 0" in done.stderr
    policy = tomllib.loads(to.read_text())
    assert policy["filesystem"]["allowRead"] == ["~/.config/tool"]
    assert policy["filesystem"]["allowWrite"] == ["~/.cache/tool"]
    lines = [line for line in to.read_text().splitlines() if line.startswith("  ")]
    assert all("# " in line for line in lines)


def test_a_command_that_is_not_there_did_not_begin(base: Path) -> None:
    done = learn(base, "--", "no-such-program")

    assert done.returncode == 127
    assert "# which did not begin: no-such-program: No such file or directory.\n" in done.stdout


def test_what_was_not_allowed_is_not_learnt_but_told(base: Path) -> None:
    done = learn(base, "--", "sh", "-c", "cat ~/.config/tool/a")

    assert done.returncode == 1
    assert "allowRead" not in done.stdout
    assert "#   read" in done.stdout
    assert "--allow-read" in done.stdout


def test_a_secret_that_was_named_is_used_and_not_granted(base: Path) -> None:
    done = learn(base, "--allow-read", "~/.ssh", "--json", "--", "cat", str(base / "home/.ssh/id_rsa"))
    document = json.loads(done.stdout)

    assert document["lines"]["reads"] == []
    assert [line["text"] for line in document["lines"]["withheld"]] == ["~/.ssh/id_rsa"]
    assert ".ssh" not in json.dumps(tomllib.loads(document["policy"]))


def test_a_file_that_is_there_is_not_replaced(base: Path) -> None:
    to = base / "mine.toml"
    to.write_text("mine")
    done = learn(base, "--to", str(to), "--", "true")

    assert (done.returncode, to.read_text()) == (2, "mine")
