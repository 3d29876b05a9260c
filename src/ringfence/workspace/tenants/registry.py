"""The registry: a directory of root's with one file for each tenant, and a link for each alias.

A file appears and changes whole, by rename, and a link is made or not made: so a reader needs no lock, and two hosts
that become one alias meet in the file system. Whoever changes something holds the lock, which a death lets go.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator

import msgspec

from ...model import TenantError
from ...model.tenant import Tenant, TenantFault
from ..paths import open_directory
from .names import tenant_name

SUFFIX = ".json"
MOST_BYTES = 1 << 16
LOCK = ".lock"  # after the name of whom it is for
NOTED = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Registry:
    """The registry, held open. Everything in it belongs to root, and nobody else may write there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = open_directory(path)
        try:
            self._check(os.fstat(self._fd), path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def find(self, host: str) -> Tenant:
        """The tenant that a host name or an alias stands for."""
        asked = tenant_name(host)
        name = self._target(asked + SUFFIX)
        found = self._read(name)
        if found is None:
            raise TenantError(TenantFault.NOT_FOUND, asked, "there is no such tenant", hint="ringfence tenant list")
        return found

    def names(self) -> list[str]:
        """Every tenant, without aliases."""
        with os.scandir(self._fd) as entries:
            found = [entry.name for entry in entries if not entry.is_symlink()]
        return sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX) and name[0] != ".")

    def is_taken(self, name: str) -> bool:
        """Whether a tenant or an alias has this name."""
        try:
            os.stat(name + SUFFIX, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    @contextlib.contextmanager
    def locked(self, name: str = "", waits: bool = True) -> Iterator[None]:
        """Alone with one tenant, or with the making of new ones. Who waits for one that is removed waits for a
        file that is gone, and so looks again; who does not wait, because others wait for it, is told."""
        file = f".{name}{LOCK}"
        while True:
            fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
            try:
                self._check(os.fstat(fd), file)
                self._lock(fd, name, waits)
                if self._is(fd, file):
                    yield
                    return
            finally:
                os.close(fd)

    def _lock(self, fd: int, name: str, waits: bool) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TenantError(TenantFault.UNFINISHED, name, "is being changed", hint="ask again in a while") from None

    def _is(self, fd: int, file: str) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.stat(file, dir_fd=self._fd, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def write(self, tenant: Tenant) -> None:
        """Remember a tenant, whole or not at all."""
        new = f".{tenant.name}{SUFFIX}.new"
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._fd)
        try:
            data = memoryview(msgspec.json.format(msgspec.json.encode(tenant), indent=2) + b"\n")
            while data:
                data = data[os.write(fd, data) :]
            os.fchmod(fd, 0o644)  # the service reads it, whatever the mask of whoever ran us
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(new, tenant.name + SUFFIX, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)

    def link(self, alias: str, name: str) -> None:
        """Let an alias stand for a tenant."""
        if self._target(alias + SUFFIX) != name + SUFFIX or not self.is_taken(alias):
            try:
                os.symlink(name + SUFFIX, alias + SUFFIX, dir_fd=self._fd)
            except FileExistsError:
                what = "a tenant or an alias of this name exists already"
                raise TenantError(TenantFault.EXISTS, alias, what) from None
            os.fsync(self._fd)

    def forget(self, tenant: Tenant) -> None:
        """Remove a tenant and its aliases."""
        for name in (*tenant.aliases, tenant.name):
            with contextlib.suppress(FileNotFoundError):
                if name == tenant.name or self._target(name + SUFFIX) == tenant.name + SUFFIX:
                    os.unlink(name + SUFFIX, dir_fd=self._fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f".{tenant.name}{LOCK}", dir_fd=self._fd)
        os.fsync(self._fd)

    def _target(self, file: str) -> str:
        """The file that a name stands for: itself, or where its link points, which is a plain name beside it."""
        try:
            to = os.readlink(file, dir_fd=self._fd)
        except OSError:  # no link, or nothing at all; reading it says which
            return file
        name = to.removesuffix(SUFFIX)
        if to != f"{name}{SUFFIX}" or tenant_name(name) != name:
            raise TenantError(TenantFault.UNSAFE, f"{self.path}/{file}", "points at no record beside it")
        return to

    def _read(self, file: str) -> Tenant | None:
        place = f"{self.path}/{file}"
        try:
            fd = os.open(file, NOTED, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TenantError(TenantFault.UNSAFE, place, f"cannot be opened: {error.strerror}") from None
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise TenantError(TenantFault.UNSAFE, place, "is no regular file")
            self._check(facts, place)
            data = os.read(fd, MOST_BYTES)
        finally:
            os.close(fd)
        try:
            tenant = msgspec.json.decode(data, type=Tenant)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TenantError(TenantFault.UNSAFE, place, f"is no record of a tenant: {error}") from None
        if tenant.name + SUFFIX != file:
            raise TenantError(TenantFault.UNSAFE, place, f"is the record of {tenant.name}")
        return tenant

    def _check(self, facts: os.stat_result, place: str) -> None:
        if facts.st_uid != 0 or facts.st_mode & 0o022:
            what = f"belongs to uid {facts.st_uid} with mode {stat.S_IMODE(facts.st_mode):o}"
            hint = "it must belong to root, and nobody else may write to it"
            raise TenantError(TenantFault.UNSAFE, place, what, hint)
