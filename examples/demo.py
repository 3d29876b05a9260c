"""See the sandbox work: four small things, done without ringfence and then inside it.

Makes its own HOME with a private key in it, its own local server and its own workspace, all in a directory that is
thrown away. Every expectation is checked, in both columns; the exit code is 1 when one of them does not hold.

    .venv/bin/python examples/demo.py            or: make demo
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RINGFENCE = Path(sys.executable).parent / "ringfence"
KEY = "-----BEGIN FAKE PRIVATE KEY----- demo only"
STARTED, DONE = "command started", "command succeeded"


class Scene(NamedTuple):
    """The throw-away world that the commands run in."""

    home: Path
    workspace: Path
    port: int

    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        return {**kept, "HOME": str(self.home), "LC_ALL": "C"}


class Act(NamedTuple):
    """One thing a command may try."""

    what: str
    script: str
    allowed: bool


def acts(scene: Scene) -> list[Act]:
    return [
        Act("write a file in the workspace", "echo built > built.txt && cat built.txt", allowed=True),
        Act("write a file outside it", f"echo no > '{scene.home}/outside.txt'", allowed=False),
        Act("read a private key in HOME", "cat ~/.ssh/id_rsa", allowed=False),
        Act("connect to a local server", f"exec 3<>/dev/tcp/127.0.0.1/{scene.port} && cat <&3", allowed=False),
    ]


def perform(act: Act, scene: Scene, prefix: list[str]) -> tuple[bool, str]:
    """Whether the act succeeded, and the last thing the command was told. Raises when the command did not start."""
    script = f"echo {STARTED}\n{{ {act.script}; }} && echo {DONE}"
    command = [*prefix, "bash", "-c", script]
    done = subprocess.run(
        command,
        cwd=scene.workspace,
        env=scene.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if STARTED not in done.stdout:
        raise RuntimeError(f"{' '.join(command[:2])}: the command did not start\n{done.stderr}")
    said = done.stderr.replace(str(scene.home), "~").splitlines()
    words = [line for line in said if line.startswith(("bash:", "cat:"))]
    return DONE in done.stdout, words[0] if words else ""


def reset(scene: Scene) -> None:
    """Undo what the act without ringfence did, so that the act inside starts from nothing."""
    (scene.workspace / "built.txt").unlink(missing_ok=True)
    (scene.home / "outside.txt").unlink(missing_ok=True)


@contextlib.contextmanager
def serving(text: bytes) -> Iterator[int]:
    """A server on loopback that says `text` to whoever connects; its port."""

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def staged() -> Iterator[Scene]:
    """The scene. Not below /tmp, which a sandbox may make private: the refusals shown shall be about HOME."""
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK | os.X_OK) else None
    root = Path(tempfile.mkdtemp(prefix="ringfence-demo-", dir=place)).resolve()
    try:
        home, workspace = root / "home", root / "home" / "project"
        (home / ".ssh").mkdir(parents=True)
        workspace.mkdir()
        (home / ".ssh" / "id_rsa").write_text(KEY + "\n")
        with serving(b"hello from the local server\n") as port:
            yield Scene(home, workspace, port)
    finally:
        shutil.rmtree(root)


def main() -> int:
    # The demo's workspace belongs to whoever starts the demo; for root that has to be said out loud.
    inside = [str(RINGFENCE), "run", *(["--as-root"] if os.geteuid() == 0 else []), "--"]
    wrong = 0
    with staged() as scene:
        print(f"workspace: {scene.workspace}")
        print(f"HOME:      {scene.home}")
        print(f"server:    127.0.0.1:{scene.port}\n")
        print(f"{'':34}{'without':12}inside ringfence")
        for act in acts(scene):
            without, _ = perform(act, scene, prefix=[])
            reset(scene)
            within, words = perform(act, scene, prefix=inside)
            left = (scene.home / "outside.txt").exists()
            reset(scene)
            ok = without and within is act.allowed and not left
            wrong += not ok
            columns = ["works" if each else "refused" for each in (without, within)]
            note = words if ok else "<-- NOT AS PROMISED"
            print(f"  {act.what:32}{columns[0]:12}{columns[1]:10}{note}".rstrip())
    print("\nThe kernel refused what it should." if not wrong else f"\n{wrong} of the four went wrong.")
    print(f"The command is {RINGFENCE}; `{RINGFENCE.name} --help` has the rest.")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        sys.exit(f"demo: {error}")
