"""A ringfence that everybody can read, as one that is installed for all, and a workspace of a plain user's.

Started by root, the run is still a plain user's from its beginning or from the owner of the workspace.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import idna
import msgspec
import pytest

import ringfence

NOBODY = 65534
# Not the installation of the tests, nor their interpreter: they may lie in root's home, which nobody else can read.
BASE = Path(f"/var/tmp/rf-nested-{os.getpid()}-{os.urandom(4).hex()}")
START = f"import sys; sys.path.insert(0, {str(BASE / 'lib')!r}); from ringfence.cli import main; main()"
RUN = ["/usr/bin/python3", "-I", "-c", START, "run", "--allow-read", str(BASE / "lib")]


@pytest.fixture(scope="module")
def installed() -> Iterator[None]:
    BASE.mkdir(mode=0o755)
    for module in (ringfence, msgspec, idna):
        source = Path(module.__file__ or "").parent
        shutil.copytree(source, BASE / "lib" / source.name)  # compiled: who may not write there would do it each time
    subprocess.run(["chmod", "-R", "a+rX", BASE], check=True)
    yield
    shutil.rmtree(BASE)


def run(workspace: Path, *options: str, script: str) -> tuple[int, str]:
    environ = {"HOME": str(workspace.parent / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    words = [*RUN, *options, "--", "sh", "-c", script]
    ran = subprocess.run(words, cwd=workspace, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Started by root, all of it is somebody else's: root is not let into a user namespace inside."""
    base = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="rf-"))
    base.chmod(0o755)
    for name in ("ws", "ws/sub", "home", "outside"):
        (base / name).mkdir()
        if os.geteuid() == 0:
            os.chown(base / name, NOBODY, NOBODY)
    yield base / "ws"
    shutil.rmtree(base)
