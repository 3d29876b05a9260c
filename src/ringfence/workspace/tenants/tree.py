"""A tenant's tree: `<base>/<tenant>/user/src` and `<base>/<tenant>/worktrees`, for the tenant alone.

Root works here in directories that somebody else owns. So everything is reached from a directory that is held open,
name by name and through no link, and what is changed is held first: a name that is swapped meanwhile changes nothing.
"""

import itertools
import os
import stat

from ...model import TenantError, WorkspaceError
from ...model.tenant import Tenant, TenantFault, TenantState, Workspace
from ..paths import DIRECTORY, Entry, open_directory, walk

SOURCE = ("user", "src")
WORKTREES = "worktrees"
DEEPEST = 400  # levels: each is a descriptor while we are there, and a tenant can make as many as it likes
DEEP = ".deep-"
PRIVATE = 0o700
PASSABLE = 0o711  # tenants go through the base to their own, and cannot list it
HELD = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


def open_base(base: str) -> int:
    """The directory of all tenants: root's, and writable by nobody else."""
    fd = open_directory(os.path.realpath(base))
    facts = os.fstat(fd)
    if facts.st_uid != 0 or facts.st_mode & 0o022:
        os.close(fd)
        hint = "it must belong to root, with mode 711"
        raise TenantError(TenantFault.UNSAFE, base, "others could put a tree of their own there", hint)
    return fd


def make(base: int, tenant: Tenant) -> None:
    """The tree, with the tenant as its owner; goes on where it was interrupted.

    The top is handed over last: until then nobody but root can go into it.
    """
    top = _make_directory(base, tenant.name)
    made = [top]
    try:
        for names in (SOURCE, (WORKTREES,)):
            here = top
            for name in names:
                here = _make_directory(here, name)
                made.append(here)
        for fd in reversed(made):
            os.fchown(fd, tenant.uid, tenant.gid)
            os.fsync(fd)
    finally:
        for fd in made:
            os.close(fd)


def _make_directory(parent: int, name: str) -> int:
    try:
        os.mkdir(name, PRIVATE, dir_fd=parent)
    except FileExistsError:
        pass  # from before; what is opened is a directory and no link
    fd = os.open(name, DIRECTORY, dir_fd=parent)
    os.fchmod(fd, PRIVATE)
    return fd


def resolve(base: str, tenant: Tenant) -> Workspace:
    """Where a tenant's runs work. Each directory on the way is the tenant's own, so a swapped one chooses nobody."""
    if tenant.state is not TenantState.ACTIVE:
        suspended = tenant.state is TenantState.SUSPENDED
        fault = TenantFault.SUSPENDED if suspended else TenantFault.UNFINISHED
        verb = "suspend --off" if suspended else "repair"
        raise TenantError(fault, tenant.name, f"is {tenant.state.value}", hint=f"ringfence tenant {verb} {tenant.name}")
    if tenant.uid == 0 or tenant.gid == 0:
        raise TenantError(TenantFault.OWNER_MISMATCH, tenant.name, "would be root")
    here = open_base(base)
    try:
        for name in (tenant.name, *SOURCE):
            try:
                there = open_directory(name, here)
            except WorkspaceError as error:
                raise TenantError(TenantFault.OUTSIDE, f"{base}/{tenant.name}", f"{name} {error.what}") from None
            os.close(here)
            here = there
            facts = os.fstat(here)
            if (facts.st_uid, facts.st_gid) != (tenant.uid, tenant.gid):
                what = f"{name} belongs to {facts.st_uid}:{facts.st_gid}, and the tenant is {tenant.uid}:{tenant.gid}"
                hint = f"ringfence tenant repair {tenant.name}"
                raise TenantError(TenantFault.OWNER_MISMATCH, tenant.name, what, hint)
    finally:
        os.close(here)
    root = "/".join((os.path.realpath(base), tenant.name, *SOURCE))
    return Workspace(tenant.name, root, tenant.uid, tenant.gid, tenant.limits)


def repair(base: int, tenant: Tenant) -> tuple[int, list[str]]:
    """Give everything in the tree to the tenant; how many names changed hands, and which were left.

    A file of somebody else's with a second name is left, for the other name may be anywhere. So is what lies too deep.
    """
    make(base, tenant)
    top = open_directory(tenant.name, base)
    changed, left = 0, []
    try:
        device = os.fstat(top).st_dev
        for entry, parent in walk(top, deepest=DEEPEST):
            if _is_too_deep(entry):
                left.append(entry.path)
            if (entry.facts.st_uid, entry.facts.st_gid) == (tenant.uid, tenant.gid):
                continue
            held = os.open(os.path.basename(entry.path), HELD, dir_fd=parent)
            try:
                facts = os.fstat(held)
                shared = not stat.S_ISDIR(facts.st_mode) and facts.st_nlink > 1
                if shared or facts.st_dev != device:
                    left.append(entry.path)
                else:
                    os.chown(f"/proc/self/fd/{held}", tenant.uid, tenant.gid)
                    changed += 1
            finally:
                os.close(held)
    finally:
        os.close(top)
    return changed, left


def flatten(base: int, tenant: Tenant) -> None:
    """Move what lies too deep to the top, under names that say so: a program that goes through a tree of a million
    levels ends badly, and who made it could not be removed. What others own and has a second name is taken out."""
    try:
        top = open_directory(tenant.name, base)
    except WorkspaceError:  # removed before an interruption; or no directory, and then nothing is below it
        return
    try:
        waiting, mark = ["."], f"{DEEP}{os.urandom(4).hex()}"
        for number in itertools.count():
            if number == len(waiting):
                return
            here = os.open(waiting[number], DIRECTORY, dir_fd=top)
            try:
                for entry, parent in walk(here, deepest=DEEPEST):
                    name = os.path.basename(entry.path)
                    if not entry.is_directory and entry.facts.st_uid != tenant.uid and entry.facts.st_nlink > 1:
                        os.unlink(name, dir_fd=parent)
                    elif _is_too_deep(entry):
                        waiting.append(f"{mark}-{len(waiting)}")
                        os.rename(name, waiting[-1], src_dir_fd=parent, dst_dir_fd=top)
            finally:
                os.close(here)
    finally:
        os.close(top)


def _is_too_deep(entry: Entry) -> bool:
    return entry.is_directory and entry.path.count("/") == DEEPEST - 1
