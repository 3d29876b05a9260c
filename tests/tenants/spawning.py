"""A spawner that lives, for a test."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator

from tests.attacks.everybody import BASE
from tests.tenants.conftest import Hosting

from ringfence.cli import spawner

SERVICE = 65534
SERVE = f"""
import signal, socket, sys
sys.path.insert(0, {str(BASE / "lib")!r})
from ringfence.spawner import Spawner
from ringfence.workspace.tenants.registry import Registry
listener = socket.socket(fileno=0)
words = ("/usr/bin/python3", "-I", "-c", sys.argv[3])
spawner = Spawner(listener, Registry(sys.argv[2]), sys.argv[1], {SERVICE}, words)
signal.signal(signal.SIGTERM, lambda *_: spawner.stop())
spawner.serve()
"""
START = f"import sys; sys.path.insert(0, {str(BASE / 'lib')!r}); "
STEWARD = START + spawner.STEWARD


class Served:
    """A spawner that lives, spoken to as the service's user would."""

    def __init__(self, hosting: Hosting, steward: str) -> None:
        self.top = tempfile.mkdtemp(prefix="rf-sock-", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self._words = ["/usr/bin/python3", "-I", "-c", SERVE, hosting.base, hosting.records, steward]
        self.start()

    def start(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"{self.top}/s")
        os.chmod(f"{self.top}/s", 0o666)
        listener.listen()
        with listener:
            self.process = subprocess.Popen(self._words, stdin=listener.fileno(), stderr=subprocess.PIPE)

    def connect(self, uid: int = SERVICE) -> socket.socket:
        """A connection whose other end sees this user."""
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(20)
        os.seteuid(uid)
        try:
            ours.connect(f"{self.top}/s")
        finally:
            os.seteuid(0)
        return ours

    def close(self) -> None:
        self.process.terminate()
        _, said = self.process.communicate(timeout=60)
        assert b"Traceback" not in said, said.decode()
        shutil.rmtree(self.top)


@contextlib.contextmanager
def served(hosting: Hosting, steward: str = STEWARD) -> Iterator[Served]:
    # A tenant cannot write there, so nobody else would; each steward would compile everything anew.
    subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", str(BASE / "lib")], check=True)
    made = Served(hosting, steward)
    try:
        yield made
    finally:
        made.close()
