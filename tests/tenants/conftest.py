"""A host of tenants for a test: real users, made and removed by the system's own programs."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.model.tenant import Tenant
from ringfence.workspace.tenants import life
from ringfence.workspace.tenants.registry import Registry


class Hosting:
    """Where tenants of a test are: their trees, their records, and whom to remove at the end."""

    def __init__(self, top: Path) -> None:
        self.base, self.records = str(top / "base"), str(top / "registry")
        os.mkdir(self.base, 0o711)
        os.mkdir(self.records, 0o755)
        self.registry = Registry(self.records)
        self.mark = f"t{os.getpid()}{os.urandom(2).hex()}.test"

    def name(self, word: str) -> str:
        """A host name that no other test has."""
        return f"{word}.{self.mark}"

    def create(self, word: str, **options: object) -> Tenant:
        return life.create(self.registry, self.base, self.name(word), **options)  # type: ignore[arg-type]

    def commit(self, tenant: Tenant) -> None:
        """Make the tenant's workspace a repository with one commit."""
        top = f"{self.base}/{tenant.name}/user/src"
        script = "git init -q -b main && echo one > f && git add f && git -c user.name=a -c user.email=a@b commit -qm 1"
        words = ["setpriv", f"--reuid={tenant.uid}", f"--regid={tenant.gid}", "--clear-groups", "sh", "-c", script]
        subprocess.run(words, cwd=top, env={"PATH": os.environ["PATH"], "HOME": top}, check=True)

    def close(self) -> None:
        for name in self.registry.names():
            with contextlib.suppress(KeyError):
                _remove(self.registry.find(name).user)
        self.registry.close()


def _remove(user: str) -> None:
    """A user that has no process left, while others make and remove theirs: each of the two is waited for."""
    until = time.monotonic() + 60
    while subprocess.run(["/usr/sbin/userdel", user], capture_output=True).returncode in (1, 8, 10):
        assert time.monotonic() < until, f"{user} is still used"
        time.sleep(0.1)


@contextlib.contextmanager
def hosted() -> Iterator[Hosting]:
    """A host of tenants, and nothing of it left, however it went."""
    top = Path(tempfile.mkdtemp(prefix="rf-tenants-", dir="/var/tmp"))
    top.chmod(0o755)
    made = Hosting(top)
    try:
        yield made
    finally:
        made.close()
        subprocess.run(["rm", "-rf", "--", str(top)], check=True)  # some are deeper than Python goes


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    with hosted() as made:
        yield made


def as_user(uid: int, gid: int, act: Callable[[], None]) -> int:
    """What a process of that user does: 0, or the number of the error."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            act()
            code = 0
        except OSError as error:
            code = error.errno or 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
