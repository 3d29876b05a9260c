"""Joins the memory of approvals with the judge: what counts now, what may be added, and what is shown before it is.

A grant is checked when it is stored and whenever it is read back: its path must be absolute, be there, and lead where
it says, without a link. The planner drops it besides when a link has come on the way since.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping

import msgspec

from .model import NOTHING_APPROVED, PolicyError, Standing
from .model.grant import Answer, Grant, Operation
from .model.names import TENANT
from .policy.trust import APPROVALS, approvals_of, directory_of, has_approvals, home_of, passwd_home

SESSION_SECONDS = 12 * 3600
MOST_SECONDS = 100 * 366 * 24 * 3600
_LEEWAY = 60  # seconds
DOCUMENT = "ringfence/approvals@1"

_known: dict[str, tuple[object, list[Grant]]] = {}


def standing(workspace: str, environ: Mapping[str, str]) -> Standing:
    """The grants that count in a workspace now."""
    if not has_approvals(environ):
        return NOTHING_APPROVED
    directory = approvals_of(environ)
    root, now, boot = os.path.realpath(workspace), int(time.time()), boot_id()
    places, kept, notes = places_of(environ), [], []
    for grant in _grants(directory):
        if grant.workspace not in ("", root) or _is_over(grant, now, boot):
            continue
        why = fault_of(grant, *places)
        if why:
            notes.append(f"grant {grant.id} has no effect: {why}")
        else:
            kept.append(grant)
    return Standing(tuple(kept), tuple(notes))


def _grants(directory: str) -> list[Grant]:
    """All in the store, read again when it has changed, or might have within the same tick of the clock of files."""
    stamp = tuple(_identity(f"{directory}/{APPROVALS}{end}") for end in ("", "-wal"))
    known = _known.get(directory)
    if known is not None and known[0] == stamp:
        return known[1]
    from .airlock import Store
    from .policy.load import is_settled

    is_kept = is_settled(max((found[3] for found in stamp if found), default=0))
    found = Store(directory).grants()
    if is_kept:
        _known[directory] = stamp, found
    return found


def _identity(path: str) -> tuple[int, ...]:
    try:
        facts = os.lstat(path)
    except OSError:
        return ()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _is_over(grant: Grant, now: int, boot: str) -> bool:
    """Whether it has ended. One of a time to come was made by another clock than this one, and so was its end."""
    is_timed_out = grant.until != 0 and not grant.made - _LEEWAY <= now < grant.until
    return is_timed_out or (grant.answer is Answer.SESSION and grant.boot != boot)


def boot_id() -> str:
    """Which start of the machine this is; empty where nobody says."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def homes_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The homes of whoever runs this, as they really are."""
    homes = (home_of(environ), passwd_home())
    return tuple(dict.fromkeys(os.path.realpath(home) for home in homes if home.startswith("/")))


def places_of(environ: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...], Callable[[str, int], bool] | None]:
    """What no grant opens: a whole home, our own; and of a machine that is not the person's, its addresses."""
    return homes_of(environ), own_of(environ), _is_own if TENANT in environ else None


def _is_own(address: str, port: int) -> bool:
    from .network.own import is_own

    try:
        return is_own(address, port)
    except OSError:  # nobody can say
        return True


def own_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Our own directories."""
    places = (
        directory_of(environ, "XDG_CONFIG_HOME", ".config"),
        directory_of(environ, "XDG_STATE_HOME", ".local/state"),
    )
    return ("/etc/ringfence", *(os.path.realpath(place) for place in places if place))


def fault_of(
    grant: Grant, homes: tuple[str, ...], own: tuple[str, ...], is_own: Callable[[str, int], bool] | None = None
) -> str:
    """Why a grant does not count, or "": of its own, or because of what stands there now."""
    from .policy.grants import refusal, target_of

    try:
        if target_of(grant.operation, grant.target) != grant.target:
            return f"{grant.target!r} is not as it is stored"
    except ValueError as error:
        return str(error)
    if grant.operation not in (Operation.CONNECT, Operation.BIND):
        try:
            mode = os.lstat(grant.target).st_mode
        except OSError:
            return f"{grant.target} is not there"
        real = os.path.realpath(grant.target)
        if real != grant.target:
            return f"{grant.target} leads to {real} now"
        if stat.S_ISSOCK(mode):
            return f"{grant.target} is a socket, which allowUnixSockets of a policy file opens, and no approval"
    return refusal(grant, homes, own, is_own)


def make(
    operation: Operation,
    target: str,
    answer: Answer,
    workspace: str,
    *,
    seconds: int = 0,
    reason: str = "",
    environ: Mapping[str, str],
) -> Grant:
    """The grant that a yes would be, to be shown before it is stored; PolicyError says why there can be none."""
    if not answer.is_kept:
        raise PolicyError("approval", f"`{answer.value}` is not remembered", "session, project or always")
    return _made(operation, target, answer, workspace, seconds, reason, environ)


def once(operation: Operation, target: str, workspace: str, environ: Mapping[str, str]) -> Grant:
    """A grant for whoever waits now, for a path also where nothing is yet; PolicyError says why there can be none."""
    return _made(operation, target, Answer.ONCE, workspace, 0, "", environ)


def _made(
    operation: Operation,
    target: str,
    answer: Answer,
    workspace: str,
    seconds: int,
    reason: str,
    environ: Mapping[str, str],
) -> Grant:
    from .policy.grants import refusal, target_of
    from .policy.words import shown

    is_path = operation not in (Operation.CONNECT, Operation.BIND)
    text = os.path.realpath(target) if is_path else target
    if is_path and answer is Answer.ONCE and os.path.basename(target):  # a name may be a link that is to be removed
        text = os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
    try:
        stored = target_of(operation, text)
    except ValueError as error:
        raise PolicyError("approval", str(error)) from None
    for name in (stored, "" if answer is Answer.ALWAYS else workspace) if answer.is_kept else ():
        if not name.isprintable() and any("\ud800" <= one <= "\udfff" for one in name):
            raise PolicyError("approval", f"{shown(name)} is no text, and cannot be remembered", "grant it once")
    now = int(time.time())
    if not 0 <= seconds <= MOST_SECONDS:
        raise PolicyError("approval", "would end in more than a hundred years, or before now", "leave the time out")
    if answer is Answer.SESSION:
        seconds = min(seconds or SESSION_SECONDS, SESSION_SECONDS)
    grant = Grant(
        id=os.urandom(4).hex(),
        operation=Operation(operation.kind),
        target=stored,
        answer=answer,
        workspace="" if answer is Answer.ALWAYS else os.path.realpath(workspace),
        made=now,
        until=now + seconds if seconds else 0,
        boot=boot_id() if answer is Answer.SESSION else "",
        reason=reason,
    )
    fault = fault_of if answer.is_kept or not is_path else refusal
    why = fault(grant, *places_of(environ))
    if why:
        raise PolicyError("approval", why)
    return grant


def export(grants: list[Grant]) -> bytes:
    """Grants as a document that `read_document` takes; those of a session end with it, so they stay here."""
    kept = [grant for grant in grants if grant.answer is not Answer.SESSION]
    document = {"schema": DOCUMENT, "grants": msgspec.to_builtins(kept)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    grants: list[Grant]


def read_document(content: bytes, environ: Mapping[str, str], place: str = "-") -> tuple[list[Grant], list[str]]:
    """The grants of a document that may be stored here, and what is wrong with the others, as sentences. `place` is
    where it was read."""
    from .policy.grants import LATEST

    try:
        document = msgspec.json.decode(content, type=_Document)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        hint = "ringfence approvals export > FILE makes one"
        raise PolicyError(place, f"not a document of approvals: {error}", hint) from None
    if document.schema != DOCUMENT:
        raise PolicyError(place, f"the document is {document.schema!r}", f"it takes {DOCUMENT}")
    places, good, bad = places_of(environ), [], []
    for grant in document.grants:
        why = fault_of(grant, *places)
        if (
            not grant.answer.is_kept
            or grant.answer is Answer.SESSION
            or Operation(grant.operation.kind) != grant.operation
        ):
            why = f"{grant.operation.value} {grant.answer.value} is not what is stored"
        elif (grant.workspace == "") != (grant.answer is Answer.ALWAYS) or not grant.id.isalnum():
            why = "its place or its id is not one"
        elif not (0 <= grant.until <= LATEST and 0 <= grant.made <= LATEST):
            why = "its time is none"
        if why:
            bad.append(f"{grant.operation.value} {grant.target}: {why}")
        else:
            good.append(grant)
    return good, bad
