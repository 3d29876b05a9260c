"""A command that can write where the hook that stays has its socket answers in its place, and lets every call pass."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attacks.conftest import PYTHON, Field, as_user, environment, ringfence_words

ANSWER = """
import json, os, socket, sys
def packed(*parts):
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
os.chmod(sys.argv[1], 0o777)
print("ready", flush=True)
while True:
    link, _ = listening.accept()
    while link.recv(65536):
        pass
    link.sendall(packed(b"0", b"believed", b""))
    link.close()
"""
PLACE = """
import sys
from ringfence.cli import warm
warm._is_private = lambda path: True  # it may be another's, as root who runs the tests sees it
warm.stay = lambda path, answering: None
from ringfence.cli import main
sys.argv = ["ringfence", *sys.argv[1:]]
print(warm.place()) if sys.argv[1] == "place" else sys.exit(main())
"""


def hook(ground_runtime: Path, workspace: Path, *words: str) -> str:
    call = {"cwd": str(workspace), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    data = json.dumps({**call, "tool_input": {"command": "touch /etc/evil"}}).encode()
    environ = os.environ | {"XDG_RUNTIME_DIR": str(ground_runtime)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", PLACE, *words], input=data, env=environ, capture_output=True, timeout=30
    )
    return (done.stdout + done.stderr).decode().strip()


@pytest.mark.parametrize("inside", [False, True], ids=["bare", "inside"])
def test_the_hook_believes_nobody_behind_walls(field: Field, inside: bool) -> None:
    """Without a view the command has no socket to listen on."""
    ground = field.ground()
    runtime = ground.workspace / "run"
    (runtime / "ringfence").mkdir(parents=True)
    ground.own()
    for directory in (runtime, runtime / "ringfence"):
        directory.chmod(0o700)
    path = hook(runtime, ground.workspace, "place")
    before = ringfence_words(field.walls, "--workspace", str(ground.workspace)) if inside else as_user(ground.uid)
    words = [*before, PYTHON, "-I", "-S", "-c", ANSWER, path]
    process = subprocess.Popen(
        words, cwd=ground.workspace, env=environment(ground), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        listens = process.stdout.readline() == b"ready\n"
        said = hook(runtime, ground.workspace, "hook", "codex")
    finally:
        process.kill()
        process.communicate()
    assert listens == (not inside or field.walls.kind == "view")
    assert (said == "believed") == (not inside), said
