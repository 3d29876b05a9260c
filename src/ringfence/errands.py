"""What a steward does for its tenant besides runs and files: worktrees, approvals, and reading the audit log.

Each function takes the workspace and what was asked, and gives a document. Who may ask was decided by the service;
what may be done is the kernel's word, for all of it is done as the tenant. Each imports what it needs: who looks at one
page waits for the start of one Python.
"""

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .model import PolicyError, SessionError
from .model.session import Fault, State
from .model.session import Session as Worktree

if TYPE_CHECKING:
    from .airlock import Store
    from .model.grant import Grant

MOST_EVENTS, MOST_BYTES = 200, 1 << 20  # of the audit log in one answer
MOST_PATCH = 4 << 20

Document = dict[str, Any]


class Errand(msgspec.Struct, forbid_unknown_fields=True):
    """What may be asked. Each errand uses what it needs of it."""

    do: Literal[
        "worktrees", "worktree", "start", "diff", "merge", "end", "approvals", "approve", "revoke", "audit"
    ]  # fmt: skip
    name: str = ""
    revision: str = ""
    into: str = ""
    deletes: bool = False
    dirty: bool = False
    operation: str = ""
    target: str = ""
    scope: str = ""
    seconds: int = 0
    reason: str = ""
    text: str = ""
    wanted: msgspec.Raw = msgspec.Raw(b"{}")
    most: int = MOST_EVENTS


# ---- Worktrees ----


def _shown(one: Worktree, **more: object) -> Document:
    shown = {"slug": one.name, "branch": one.branch, "base": one.base, "head": one.tip, "state": one.state.value}
    return {**shown, "made": one.made, **more}


def list_worktrees(root: str, _: Errand) -> Document:
    """All, ended ones too, whose branch is what is left of them."""
    from .workspace import repository

    repository.find(root)  # most are asked of workspaces that have none, and that is known without the rest
    from .session import opened

    with opened(root) as found:
        return {"worktrees": [_shown(one) for one in found.ledger.sessions()]}


def show_worktree(root: str, asked: Errand) -> Document:
    """One, as it stands."""
    from .session import opened
    from .workspace import life, slugs, worktrees

    with opened(root) as found:
        one, dirty = found.ledger.settled(slugs.slug_of(asked.name)), False
        if one.state is State.ACTIVE:
            worktrees.check_listed(found.ledger, one)
            one = msgspec.structs.replace(one, tip=life.head_of(found.ledger, one) or one.tip)
            dirty = life.is_dirty(found.ledger, one)
    return _shown(one, uncommitted=dirty)


def introduce() -> None:
    """Git commits in somebody's name; a tenant that has not said its own has that of its host."""
    home = os.environ["HOME"]
    try:
        fd = os.open(f"{home}/.gitconfig", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return
    name = os.path.basename(home)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"[user]\n\tname = {name}\n\temail = site@{name}\n")


def start_worktree(root: str, asked: Errand) -> Document:
    """A new worktree and its branch."""
    from .session import Session

    introduce()
    return _shown(Session(root, asked.name or None, revision=asked.revision).start().record)


def diff_worktree(root: str, asked: Errand) -> Document:
    """What is different from where it began, as a patch; letters that are none are shown as such."""
    from .session import diff, opened
    from .workspace import slugs

    with opened(root) as found:
        patch = diff(found.ledger, found.ledger.settled(slugs.slug_of(asked.name)))
    return {"patch": patch[:MOST_PATCH].decode("utf-8", "replace"), "cut": len(patch) > MOST_PATCH}


def merge_worktree(root: str, asked: Errand) -> Document:
    """Into the branch it began from, or another, or nothing changes."""
    from .session import merge, opened
    from .workspace import slugs

    with opened(root) as found:
        merged: Document = msgspec.to_builtins(merge(found.ledger, slugs.slug_of(asked.name), asked.into))
    return merged


def end_worktree(root: str, asked: Errand) -> Document:
    """All work goes to the branch. Where that is deleted too, what is not committed must be let go by name."""
    from .session import opened
    from .workspace import life, slugs

    with opened(root) as found:
        name = slugs.slug_of(asked.name)
        one = found.ledger.settled(name)
        if asked.deletes and not asked.dirty and one.state is State.ACTIVE and life.is_dirty(found.ledger, one):
            raise SessionError(Fault.DIRTY, name, "holds work that is not committed", "allowDirty=true lets it go")
        ended = life.end(found.ledger, name, False, asked.deletes)
    return _shown(ended.session, commit=ended.commit, saved=ended.saved, deleted=ended.deleted)


# ---- Approvals ----


def _store() -> "Store":
    from .airlock import Store
    from .policy.trust import approvals_of

    return Store(approvals_of(os.environ))


def _said(grant: "Grant", **more: object) -> Document:
    from .policy.grants import ending, rule_text

    return {**msgspec.to_builtins(grant), "rule": rule_text(grant), "ends": ending(grant), **more}


def list_approvals(root: str, _: Errand) -> Document:
    """What was approved, and whether it counts in this workspace now."""
    from . import approvals

    counted = {grant.id for grant in approvals.standing(root, os.environ).grants}
    return {"approvals": [_said(grant, counts=grant.id in counted) for grant in _store().grants()]}


def approve(root: str, asked: Errand) -> Document:
    """One rule more; the answer has it as it is stored."""
    from . import approvals, record
    from .model.grant import Answer, Operation
    from .policy.grants import rule_text

    try:
        operation, scope = Operation(asked.operation), Answer(asked.scope)
    except ValueError as error:
        raise PolicyError("approval", str(error)) from None
    target = asked.target
    if operation not in (Operation.CONNECT, Operation.BIND):
        target = os.path.normpath(os.path.join(root, target))
    grant = approvals.make(
        operation, target, scope, root, seconds=asked.seconds, reason=asked.reason, environ=os.environ
    )
    _store().add([grant])
    _written(record.approved(root, [f"{rule_text(grant)} (grant {grant.id})"]))
    return _said(grant, counts=True)


def revoke(root: str, asked: Errand) -> Document:
    """Take one back."""
    from . import record
    from .policy.grants import rule_text

    gone = _store().remove([asked.name])
    if not gone:
        return {"error": "approval_not_found", "what": "there is no such grant"}
    _written(record.revoked(root, [rule_text(gone[0])]))
    return _said(gone[0])


def _written(why: str) -> None:
    if why:
        raise PolicyError("audit log", f"it was done, and could not be recorded: {why}")


# ---- The audit log ----


def audit(_: str, asked: Errand) -> Document:
    """The newest events that are asked for and have a text in them, the newest first."""
    from . import record
    from .audit import LogError
    from .audit.chain import lines, numbers
    from .audit.wanted import Wanted, event_of, is_wanted
    from .policy.trust import audit_of

    wanted = msgspec.json.decode(asked.wanted, type=Wanted)
    directory = audit_of(os.environ)
    with contextlib.suppress(LogError, OSError):  # what is left stays for the next, and what is written is shown
        record.sweep()  # runs whose steward was killed
    found: list[object] = []
    needle = asked.text.casefold()
    most, left = max(1, min(asked.most, MOST_EVENTS)), MOST_BYTES
    for number in reversed(numbers(directory)):
        for _start, line in reversed([*lines(directory, number)]):
            if needle and needle not in line.decode("utf-8", "replace").casefold():
                continue
            event = event_of(line)
            if event is not None and is_wanted(event, wanted):
                left -= len(line)
                if found and left < 0:
                    return {"events": found, "cut": True}
                found.append(msgspec.Raw(line.strip()))
                if len(found) == most:
                    return {"events": found, "cut": True}
    return {"events": found, "cut": False}


ACTS: dict[str, Callable[[str, Errand], Document]] = {
    "worktrees": list_worktrees,
    "worktree": show_worktree,
    "start": start_worktree,
    "diff": diff_worktree,
    "merge": merge_worktree,
    "end": end_worktree,
    "approvals": list_approvals,
    "approve": approve,
    "revoke": revoke,
    "audit": audit,
}
