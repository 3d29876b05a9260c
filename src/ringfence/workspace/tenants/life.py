"""The life of a tenant: made, suspended, repaired, removed. The registry says first what will be done.

Interrupted anywhere, the next call of the same kind goes on: each step looks whether it was done already.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ...model import TenantError, UsageError
from ...model.tenant import Tenant, TenantFault, TenantState
from ..paths import DIRECTORY, remove_tree
from . import quota, tree
from .names import tenant_name, user_name
from .registry import Registry

if sys.platform != "linux":
    raise UsageError("tenants", "are kept apart on Linux only")

ARCHIVE = ".archive"
# Above the people of a host and below what systemd gives away: the range of system users holds 900 of them at most.
IDS = ("40000", "59999")
NOLOGIN = "/usr/sbin/nologin"
PATIENCE = 10.0  # seconds for killed processes to be gone
OTHERS = 60.0  # seconds for others to have made their users; passwd's programs wait for fifteen themselves
LOCKED = "cannot lock"  # what passwd's programs say when somebody else makes or removes a user
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def create(
    registry: Registry, base: str, host: str, aliases: Sequence[str] = (), limits: Mapping[str, int] | None = None
) -> Tenant:
    """Make a tenant: its record, its user, its tree. The same again goes on where it was interrupted."""
    name = tenant_name(host)
    others = tuple(dict.fromkeys(tenant_name(alias) for alias in aliases))
    with registry.locked(), registry.locked(name), _opened(base) as held:
        begun = registry.find(name) if registry.is_taken(name) else None
        asked = (name, TenantState.MAKING, others, dict(limits or {}))
        if begun is not None and (begun.name, begun.state, begun.aliases, begun.limits) == asked:
            return _finish(registry, held, base, begun)
        for taken in (name, *others):
            if registry.is_taken(taken) or others.count(name):
                raise TenantError(TenantFault.EXISTS, taken, "a tenant or an alias of this name exists already")
        user = user_name(name)
        if _ids(user) is not None:
            what = f"the user {user} is there, and the registry does not know it"
            raise TenantError(TenantFault.EXISTS, name, what, hint=f"look at it, then `userdel {user}`")
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=held, follow_symlinks=False)
            raise TenantError(TenantFault.EXISTS, f"{base}/{name}", "something stands where the tree would be")
        made = Tenant(
            name, secrets.token_hex(8), user, 0, 0, TenantState.MAKING, int(time.time()), others, dict(limits or {})
        )
        registry.write(made)
        return _finish(registry, held, base, made)


def _finish(registry: Registry, held: int, base: str, tenant: Tenant) -> Tenant:
    """What is left to do for a tenant that is being made."""
    if _ids(tenant.user) is None:
        home = f"{os.path.realpath(base)}/{tenant.name}"
        low, high = IDS
        ranges = (f"SYS_UID_MIN={low}", f"SYS_UID_MAX={high}", f"SYS_GID_MIN={low}", f"SYS_GID_MAX={high}")
        options = [word for bound in ranges for word in ("-K", bound)]
        options += ["--system", "--user-group", "--no-create-home", "--home-dir", home, "--shell", NOLOGIN]
        _change_user(True, tenant.user, "useradd", *options)
    ids = _ids(tenant.user)
    if ids is None or 0 in ids:
        raise TenantError(TenantFault.FAILED, tenant.user, "was made, and is not there" if ids is None else "is root")
    active = msgspec.structs.replace(tenant, uid=ids[0], gid=ids[1], state=TenantState.ACTIVE)
    tree.make(held, active)
    _set_quota(held, active)
    for alias in tenant.aliases:
        registry.link(alias, tenant.name)
    registry.write(active)
    return active


def limit(registry: Registry, base: str, host: str, limits: Mapping[str, int]) -> Tenant:
    """Change what all runs of a tenant may have together; those that go on keep what they were begun with."""
    with registry.locked(registry.find(host).name), _opened(base) as held:
        tenant = registry.find(host)
        changed = msgspec.structs.replace(tenant, limits={**tenant.limits, **limits})
        registry.write(changed)
        if changed.uid:
            _set_quota(held, changed)
        return changed


def _set_quota(held: int, tenant: Tenant) -> None:
    """The kernel's, where the file system keeps them; where not, stewards measure."""
    if "disk" in tenant.limits:
        quota.limit(held, tenant.uid, tenant.limits["disk"])


def suspend(registry: Registry, host: str, off: bool = False) -> Tenant:
    """Let nothing of a tenant run any more, or again."""
    with registry.locked(registry.find(host).name):
        tenant = registry.find(host)
        if tenant.state not in (TenantState.ACTIVE, TenantState.SUSPENDED):
            raise TenantError(TenantFault.UNFINISHED, tenant.name, f"is {tenant.state.value}")
        state = TenantState.ACTIVE if off else TenantState.SUSPENDED
        changed = msgspec.structs.replace(tenant, state=state)
        registry.write(changed)
    if not off:
        end_processes(tenant)
    return changed


def repair(registry: Registry, base: str, host: str) -> tuple[Tenant, int, list[str]]:
    """Finish what was interrupted, and give the tree back to its tenant."""
    with registry.locked(registry.find(host).name), _opened(base) as held:
        tenant = registry.find(host)
        if tenant.state is TenantState.REMOVING:
            hint = f"ringfence tenant remove {tenant.name}"
            raise TenantError(TenantFault.UNFINISHED, tenant.name, "is being removed", hint)
        if tenant.state is TenantState.MAKING:
            tenant = _finish(registry, held, base, tenant)
        _check_user(tenant)
        _set_quota(held, tenant)
        return tenant, *tree.repair(held, tenant)


def remove(registry: Registry, base: str, host: str) -> str:
    """Archive a tenant's tree, then remove tree, user and record; where the archive is."""
    with registry.locked(registry.find(host).name), _opened(base) as held:
        tenant = registry.find(host)
        if tenant.state is TenantState.MAKING:
            tenant = _finish(registry, held, base, tenant)
        _check_user(tenant)
        registry.write(msgspec.structs.replace(tenant, state=TenantState.REMOVING))
        end_processes(tenant)
        tree.flatten(held, tenant)
        archive = _archive(held, base, tenant)
        with contextlib.suppress(FileNotFoundError):
            remove_tree(held, tenant.name)
        if "disk" in tenant.limits:  # who comes next has these ids, and no limit of another's
            quota.limit(held, tenant.uid, 0)
        if _ids(tenant.user) is not None:
            _change_user(False, tenant.user, "userdel")
        registry.forget(tenant)
        return archive


def _archive(held: int, base: str, tenant: Tenant) -> str:
    """The whole tree in one file of root's. It appears when it is whole, and a whole one is not made again."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(ARCHIVE, 0o700, dir_fd=held)
    where = os.open(ARCHIVE, DIRECTORY, dir_fd=held)
    name = f"{tenant.name}-{tenant.id}.tar.gz"
    try:
        if name not in os.listdir(where):
            new = os.open(f".{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=where)
            try:
                tar = ("--create", "--gzip", "--numeric-owner", "--one-file-system", "--sparse", "--file=-")
                _call("tar", *tar, f"--directory=/proc/self/fd/{held}", "--", tenant.name, out=new, keep=held)
                os.fsync(new)
            finally:
                os.close(new)
            os.rename(f".{name}.new", name, src_dir_fd=where, dst_dir_fd=where)
            os.fsync(where)
    finally:
        os.close(where)
    return f"{os.path.realpath(base)}/{ARCHIVE}/{name}"


def end_processes(tenant: Tenant) -> None:
    """Kill every process of the tenant's user, until there is none. One of them may be quick, and kill our killer."""
    until = time.monotonic() + PATIENCE
    while True:
        _kill_all(tenant)
        if not is_alive(tenant.uid):
            return
        if time.monotonic() > until:
            raise TenantError(TenantFault.FAILED, tenant.name, "its processes could not be ended")
        time.sleep(0.01)


def is_alive(uid: int) -> bool:
    """Whether a process has this user among its ids; one that has ended and is not reaped yet does nothing more."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", encoding="ascii", errors="replace") as file:
                rows = dict(line.split(":", 1) for line in file if ":" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(uid) in rows["Uid"].split() and rows["State"].split()[0] not in "ZX":
            return True
    return False


def _kill_all(tenant: Tenant) -> None:
    """From a child that is that user: no list of pids can be stale."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(tenant.gid, tenant.gid, tenant.gid)
            os.setresuid(tenant.uid, tenant.uid, tenant.uid)
            if tenant.uid != 0 and os.getresuid() == (tenant.uid,) * 3:
                os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing of ours may run on in the child
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
        raise TenantError(TenantFault.FAILED, tenant.name, "its processes could not be ended")


def _check_user(tenant: Tenant) -> None:
    """The user that the registry names has the ids that it names, or is gone because we removed it."""
    ids = _ids(tenant.user)
    if tenant.uid == 0 or (ids is not None and ids != (tenant.uid, tenant.gid)):
        what = f"the user {tenant.user} is {ids}, and the registry says {tenant.uid}:{tenant.gid}"
        raise TenantError(TenantFault.OWNER_MISMATCH, tenant.name, what)


def _ids(user: str) -> tuple[int, int] | None:
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return None
    return found.pw_uid, found.pw_gid


def _change_user(comes: bool, user: str, program: str, *words: str) -> None:
    """Make or remove a user; or the same program of somebody who was killed has done it meanwhile."""
    try:
        _call(program, *words, "--", user)
    except TenantError:
        if (_ids(user) is not None) != comes:
            raise


@contextlib.contextmanager
def _opened(base: str) -> Iterator[int]:
    held = tree.open_base(base)
    try:
        yield held
    finally:
        os.close(held)


def _call(program: str, *words: str, out: int = subprocess.DEVNULL, keep: int | None = None) -> None:
    """A program of the system, found on the system's own path and told nothing by our environment."""
    found = shutil.which(program, path=SYSTEM_PATH)
    if found is None:
        raise TenantError(TenantFault.FAILED, program, "is not installed", hint="it comes with passwd, or with tar")
    until = time.monotonic() + OTHERS
    while True:
        done = subprocess.run(
            [found, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
            pass_fds=() if keep is None else (keep,),
            check=False,
        )
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        if not done.returncode:
            return
        if not said or LOCKED not in said[0] or time.monotonic() > until:
            raise TenantError(TenantFault.FAILED, program, said[0] if said else f"exited with {done.returncode}")
        time.sleep(0.1)
