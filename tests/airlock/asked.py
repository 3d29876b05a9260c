"""A real run that asks, and somebody who answers on a descriptor."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.backends import COMMAND_LINE

AS_ROOT = ["--as-root"] * (os.geteuid() == 0)
PYTHON = "/usr/bin/python3"
SECONDS = 60.0


class Place:
    """A workspace, and a home beside it that is closed."""

    def __init__(self, base: Path, backend: str) -> None:
        self.base, self.backend = base, backend
        self.prefix: list[str] = []  # what ringfence itself is started by
        self.workspace, self.home = base / "ws", base / "home"
        self.workspace.mkdir()
        for name, text in (("data/one", "one\n"), ("data/two", "two\n"), (".ssh/id", "key\n"), ("other/f", "f\n")):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    def environ(self) -> dict[str, str]:
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm"}

    def words(self, verb: str, *words: str) -> list[str]:
        return [*self.prefix, sys.executable, "-c", COMMAND_LINE, self.backend, verb, *words]

    def run_words(self, *words: str) -> list[str]:
        effort = ["--best-effort"] * (self.backend != "view")  # for root it is not all that is required
        as_root = ["--as-root"] if self.prefix else AS_ROOT
        return self.words("run", *as_root, *effort, "--workspace", str(self.workspace), *words)

    def with_hosts(self, text: str) -> None:
        """Let the host know some names: ringfence is started in a mount namespace with another /etc/hosts."""
        (self.base / "hosts").write_text(text)
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        self.prefix = ["unshare", *user, "--mount", "sh", "-c", script, str(self.base / "hosts")]

    def approvals(self, *words: str) -> str:
        return self.said("approvals", *words)

    def said(self, verb: str, *words: str) -> str:
        return subprocess.run(
            self.words(verb, *words), cwd=self.workspace, env=self.environ(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=SECONDS, check=True,
        ).stdout  # fmt: skip

    def start(self, *argv: str, options: tuple[str, ...] = ()) -> "Run":
        return Run(self, argv, options)

    def python(self, program: str, *options: str) -> "Run":
        return Run(self, (PYTHON, "-I", "-S", "-c", program), options)


class Run:
    """A run that asks us."""

    def __init__(self, place: Place, argv: tuple[str, ...], options: tuple[str, ...]) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(SECONDS)
        words = place.run_words("--ask-fd", str(theirs.fileno()), *options, "--", *argv)
        self.process = subprocess.Popen(
            words, cwd=place.workspace, env=place.environ(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        theirs.close()
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.seen: list[dict[str, object]] = []

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def line(self) -> dict[str, object]:
        text = self.lines.readline()
        assert text, self.process.communicate()
        found: dict[str, object] = json.loads(text)
        self.seen.append(found)
        return found

    def query(self) -> dict[str, object]:
        """The next question."""
        while True:
            line = self.line()
            if line["state"] == "query":
                return line

    def until(self, state: str, number: object) -> dict[str, object]:
        while True:
            line = self.line()
            if line["state"] == state and line["query_id"] == number:
                return line

    def say(self, line: object) -> None:
        self.socket.sendall(json.dumps(line).encode() + b"\n")

    def allow(self, query: dict[str, object], **more: object) -> None:
        self.say({"query_id": query["query_id"], "action": "allow", **more})

    def deny(self, query: dict[str, object], **more: object) -> None:
        self.say({"query_id": query["query_id"], "action": "deny", **more})

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def asks_nothing_more(self) -> bool:
        """Whether the rest of the lines, to the end of the run, has no question."""
        rest = [json.loads(text) for text in self.lines]
        return not any(line["state"] == "query" for line in rest)


def still(process: subprocess.Popen[str], seconds: float = 0.3) -> bool:
    """Whether it goes on waiting."""
    time.sleep(seconds)
    return process.poll() is None
