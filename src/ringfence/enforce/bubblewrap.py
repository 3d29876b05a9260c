"""Whether bubblewrap can build a view here: found in the system's own places, and tried.

Some systems let only programs that they know make user namespaces (AppArmor on Ubuntu), or have it setuid root. It
then runs with the plan's own view as its arguments, so nobody but root may have been able to change it.
"""

import os
import stat

import msgspec

from ..model import Enforcement, Host, LaunchError, Plan, Refused, Step, StepKind
from . import wire
from .linux import start

PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/wrappers/bin/bwrap")
NOWHERE = b"/nonexistent/ringfence"
TRIED = (
    "--unshare-user --unshare-ipc --unshare-pid --unshare-net --as-pid-1 --cap-drop ALL --ro-bind / / --dev /dev "
    "--perms 1777 --tmpfs /tmp --remount-ro /dev"
)
SECONDS = 3.0


def is_roots_alone(path: str) -> bool:
    """Whether nobody but root can change what stands at a path, or put something else there."""
    real = os.path.realpath(path)
    names = real.split("/")
    above = [os.stat("/".join(names[:count]) or "/") for count in range(1, len(names))]
    here = os.lstat(real)
    is_sticky = [entry.st_mode & stat.S_ISVTX for entry in above]
    unsafe = [entry for entry, sticky in zip(above, is_sticky, strict=True) if entry.st_mode & 0o022 and not sticky]
    owners = {entry.st_uid for entry in (*above, here)}
    return not unsafe and owners == {0} and stat.S_ISREG(here.st_mode) and not here.st_mode & 0o022


def find() -> tuple[str, str]:
    """The program, or why there is none that may be used."""
    present = [path for path in PLACES if os.access(path, os.X_OK)]
    if not present:
        return "", "bubblewrap is not installed"
    good = [os.path.realpath(path) for path in present if is_roots_alone(path)]
    return (good[0], "") if good else ("", f"{present[0]} can be changed by others than root")


def found(host: Host, ids: tuple[int, int] | None) -> Host:
    """The facts about a machine, with what bubblewrap can do on it."""
    program, why = find()
    is_setuid = bool(program) and bool(os.stat(program).st_mode & stat.S_ISUID)
    for proc in ("--proc /proc --remount-ro /proc", "") if program else ():
        why = attempt(program, [*TRIED.split(), *proc.split()], ids)
        if not why:
            return msgspec.structs.replace(host, bubblewrap=program, bubblewrap_setuid=is_setuid, fresh_proc=bool(proc))
    return msgspec.structs.replace(host, bubblewrap_why=why)


def attempt(program: str, arguments: list[str], ids: tuple[int, int] | None) -> str:
    """Have it build a view for a command that is not there: nothing if only that is missing, else what it said."""
    words = tuple(word.encode() for word in (program, *arguments))
    kinds = (StepKind.WARDEN, StepKind.NO_NEW_PRIVS, StepKind.COMMAND, StepKind.STREAMS)
    steps = (
        Step(StepKind.BUBBLEWRAP, program, (), words),
        *(Step(kind, "", (1,) if kind is StepKind.WARDEN else ()) for kind in kinds),
        Step(StepKind.EXEC, "", (1,), (NOWHERE, NOWHERE)),
    )
    plan = Plan(steps, (), Enforcement.REQUIRED, (), "/", (), ids, has_warden=True)
    try:
        with start(plan, wire.encode(steps), capture=True, feed=True) as launched:
            ending, _, _ = launched.wait(SECONDS)
    except LaunchError as error:
        return str(error)
    if isinstance(ending, Refused) and ending.kind == "exec":
        return ""
    return ending.text if isinstance(ending, Refused) else f"it {ending}"
