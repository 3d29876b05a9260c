"""The built-in policy: what holds before anybody has said anything.

Reads: the system is readable, people's things are not. A home is closed but for a list of toolchains, caches and the
git identity, because a list of what to hide leaks every secret nobody thought of. Credential stores are denied by
name besides, so that a wider allowRead (`~`) does not open them; naming one itself does.
Writes: the workspace, private temporary directories and a few devices; not the names in it that run code later.
Pure: the workspace, the homes and our own files are handed in. The names are in `tables` and `stores`.
"""

from collections.abc import Iterable

from ..model import BUILT_IN, Access, Need, PolicyError, Rule, Verdict
from .layer import Layer, Tier
from .stores import SECRETS, SYSTEM_SECRETS
from .tables import CLOSED, OF_HISTORY, OPENED, PROTECTED, STARTUP, TOOLS
from .words import shown

PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")
"""Directories that are the sandbox's own: writable without showing what the host has there."""

DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
)

_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr")
_EVERYBODYS = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # where all users write
SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/var", *_EVERYBODYS, *_SYSTEM)
_KERNEL = ("/dev", "/proc", "/sys")
MOST_STARTS = 4  # directories on the way to where a command begins; each has a hundred names and more
_ELSEWHERE = "start ringfence in the project's directory, or name one with --workspace"


def built_in(
    workspace: str,
    homes: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    audit: str = "",
    approvals: str = "",
    start: str = "",
) -> Layer:
    """The built-in layer. `homes`: the one in use first, then any other of the same person; `own`: our program;
    `missing`: homes that do not exist, as of users who do not log in, so that nothing in them needs a name; `audit`:
    the log of what was run; `approvals`: what a person said yes to; `start`: where the command begins."""
    check_workspace(workspace, homes)
    kept = (*_kept_from(audit, "the audit log"), *_kept_from(approvals, "what was approved"))
    rules = (*_reads(workspace, homes, missing), *_writes(workspace, homes, own, missing, start), *kept)
    return Layer(Tier.BUILT_IN, rules=rules)


def check_workspace(workspace: str, homes: tuple[str, ...]) -> None:
    """Refuse a workspace that would give a command the machine, a whole home, or a store of secrets."""
    place = "workspace"
    if workspace in SHARED or (is_inside(workspace, _KERNEL) and not is_inside(workspace, ("/dev/shm/",))):
        raise PolicyError(place, f"{shown(workspace)} belongs to the whole system", _ELSEWHERE)
    for home in homes:
        if is_inside(home, (workspace,)):
            what = "is a home directory" if home == workspace else f"holds the home directory {shown(home)}"
            raise PolicyError(place, f"{shown(workspace)} {what}", _ELSEWHERE)
        start, inside = _below(home), f"{workspace}/"
        for name, why in SECRETS:
            if inside.startswith(f"{start}{name}/"):
                raise PolicyError(place, f"{shown(workspace)} lies in a store of secrets ({why})", _ELSEWHERE)


def is_inside(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these places, or lies in one."""
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _below(place: str) -> str:
    return f"{place.rstrip('/')}/"


def _reads(workspace: str, homes: tuple[str, ...], missing: tuple[str, ...]) -> list[Rule]:
    rules = [_rule(Access.READ, Verdict.ALLOW, "/", "the system")]
    rules += [_closed(path, why) for path, why in CLOSED]
    rules += _rules(Access.READ, Verdict.ALLOW, "", OPENED)
    rules += _rules(Access.READ, Verdict.DENY, "", SYSTEM_SECRETS)
    for home in homes:
        if home != "/" and not is_inside(home, _SYSTEM):  # a service's home may be /usr/sbin, which stays the system's
            rules.append(_closed(home, "a home"))
        if home not in missing:
            rules += _rules(Access.READ, Verdict.DENY, _below(home), SECRETS)
    if homes and homes[0] not in missing:
        rules += _rules(Access.READ, Verdict.ALLOW, _below(homes[0]), TOOLS)
    rules.append(_rule(Access.READ, Verdict.ALLOW, workspace, "the workspace"))
    return rules


def _starts(workspace: str, start: str) -> list[str]:
    """Where a command begins, and the directories above it that are below the workspace: whoever works there too, an
    agent or an editor, finds its settings there."""
    found: list[str] = []
    while len(found) < MOST_STARTS and start != workspace and is_inside(start, (workspace,)):
        found.append(start)
        start = start.rpartition("/")[0]
    return found


def _writes(
    workspace: str, homes: tuple[str, ...], own: tuple[str, ...], missing: tuple[str, ...], start: str
) -> list[Rule]:
    rules = [_rule(Access.WRITE, Verdict.ALLOW, workspace, "the workspace")]
    rules += [_rule(Access.WRITE, Verdict.ALLOW, path, "private to the command") for path in PRIVATE]
    rules += [_rule(Access.WRITE, Verdict.ALLOW, path, "a device without memory") for path in DEVICES]
    # Wanted only: a name that does not exist yet cannot be held on every machine, and then that is said.
    rules += _rules(Access.WRITE, Verdict.DENY, _below(workspace), PROTECTED, Need.WANTED)
    deeper = tuple(row for row in PROTECTED if row[0].partition("/")[0] not in OF_HISTORY)
    for place in _starts(workspace, start):
        rules += _rules(Access.WRITE, Verdict.DENY, _below(place), deeper, Need.WANTED)
    for home in homes:
        if home in missing:
            continue
        rules += _rules(Access.WRITE, Verdict.DENY, _below(home), STARTUP, Need.WANTED)
    rules += [
        _rule(Access.WRITE, Verdict.DENY, path, "ringfence itself") for path in own if is_inside(path, (workspace,))
    ]
    return rules


def _kept_from(path: str, why: str) -> list[Rule]:
    """What no command may see or change, whatever else is granted."""
    if not path:
        return []
    hidden = Rule(Access.READ, Verdict.DENY, path, BUILT_IN, always=True, why=why)
    return [hidden, _rule(Access.WRITE, Verdict.DENY, path, why)]


def _closed(path: str, why: str) -> Rule:
    """What is somebody's, and may be asked for."""
    return Rule(Access.READ, Verdict.DENY, path, BUILT_IN, why=why, asks=True)


def _rule(access: Access, verdict: Verdict, path: str, why: str) -> Rule:
    return Rule(access, verdict, path, BUILT_IN, why=why)


def _rules(
    access: Access, verdict: Verdict, start: str, rows: tuple[tuple[str, str], ...], need: Need = Need.REQUIRED
) -> list[Rule]:
    """A rule for each row of a table, whose names begin at a place."""
    return [Rule(access, verdict, start + name, BUILT_IN, need=need, why=why) for name, why in rows]
