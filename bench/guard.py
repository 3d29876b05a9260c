"""What judging costs: lines a second in a batch, and a hook from its start to its answer, beside Python's own start.

.venv/bin/python bench/guard.py
"""

import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = str(Path(sys.executable).parent / "ringfence")
AS_ROOT = ["--as-root"] if os.geteuid() == 0 else []
TIMES = 40


def batch(work: Path) -> float:
    """Lines of the corpus that are judged in a second."""
    files = sorted((ROOT / "tests/guard/corpus").glob("*.jsonl"))
    commands = [json.loads(line) for file in files for line in file.read_text().splitlines()] * 10
    calls = [
        {"tool": "bash", "input": {"command": command}, "cwd": str(work), "root": str(work)} for command in commands
    ]
    data = "".join(json.dumps(call) + "\n" for call in calls).encode()
    started = time.perf_counter()
    subprocess.run([PROGRAM, "judge", "--jsonl"], input=data, capture_output=True, check=True)
    return len(calls) / (time.perf_counter() - started)


def milliseconds(words: list[str], data: bytes, env: dict[str, str]) -> float:
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        subprocess.run(words, input=data, env=env, capture_output=True)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def end_the_one_that_stays(runtime: Path) -> None:
    for path in runtime.glob("ringfence/*"):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(path))
            credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        os.kill(struct.unpack("3i", credentials)[0], signal.SIGTERM)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        work, runtime = Path(place) / "w", Path(place) / "run"
        work.mkdir()
        runtime.mkdir(mode=0o700)
        call = {"cwd": str(work), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
        data = json.dumps({**call, "tool_input": {"command": "ls -la | grep x > out.txt"}}).encode()
        hook = [PROGRAM, "hook", "claude", *AS_ROOT]
        cold = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        warm = cold | {"XDG_RUNTIME_DIR": str(runtime)}
        subprocess.run(hook, input=data, env=warm, capture_output=True)
        time.sleep(0.2)
        rows = [
            ("judge --jsonl, lines a second", batch(work)),
            ("python, ms", milliseconds([sys.executable, "-I", "-c", ""], b"", cold)),
            ("hook, from nothing, ms", milliseconds(hook, data, cold)),
            ("hook, with one that stays, ms", milliseconds(hook, data, warm)),
        ]
        end_the_one_that_stays(runtime)
    for name, value in rows:
        print(f"{name:32} {value:8.1f}")


if __name__ == "__main__":
    print(__doc__) if "--help" in sys.argv else main()
