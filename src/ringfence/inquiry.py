"""What somebody who waits needs: of a call that the warden tells of, and of a host that the gate tells of.

The path is found out as the host has it now; what is judged and shown is that one, and it is what will be opened.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from . import approvals, policy
from .airlock.lines import Line
from .enforce import modes
from .enforce.links import real_path
from .enforce.pauses import Call, Inquiry
from .model import Access, Decision, Origin, Policy, Standing, Verdict
from .model.grant import Answer, Grant, Operation
from .network.control import Wish
from .policy.defaults import is_inside
from .policy.grants import choices, grants_layer, rule_text
from .policy.hosts import joined, split_port
from .policy.reach import host_rule

NOT_OURS = ("/proc", "/sys", "/dev")  # what stands there is another thing to us than to whoever asks
READS = (Operation.READ, Operation.LIST, Operation.EXECUTE)
ACCESSES = {"read": Access.READ, "write": Access.WRITE}
_MOST_TOLD = 1024  # letters
Need = tuple[Operation, str]  # what somebody wants to do, and with what: a canonical path, or a host and its port


class File:
    """A call that waits, and what it needs."""

    def __init__(self, inquiry: Inquiry, path: str, other: str, needs: list[Need]) -> None:
        self.inquiry, self.path, self.other, self.needs = inquiry, path, other, needs
        self.once: list[Grant] = []


class Host:
    """A connection that waits at the gate."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.needs: list[Need] = [(Operation.CONNECT, joined(wish.host, wish.port))]
        self.once: list[Grant] = []


Waiter = File | Host


def understood(base: Policy, who: modes.Person, inquiry: Inquiry, is_hosts: Callable[[str], bool]) -> File | None:
    """What a call needs that is not given; None for what is not refused by us, or cannot be granted. Of a path that is
    the run's own inside (a private /tmp) the host's would be used, and nobody was asked about that."""
    is_read = inquiry.call is Call.OPEN and not writes(inquiry.flags)
    text = os.fsdecode(inquiry.path)
    if (is_read and not os.path.lexists(text)) or _is_apart(text):
        return None
    path = real(text, inquiry)
    if inquiry.call is Call.OPEN:
        needs = [_opened(path, inquiry.flags)]
    elif inquiry.call in (Call.MKDIR, Call.SYMLINK):
        needs = [(Operation.CREATE, path)]
    elif inquiry.call in (Call.TRUNCATE, Call.CHMOD):
        needs = [(Operation.WRITE, path)]
    else:
        needs = [(Operation.DELETE, path)]
    other = ""
    if inquiry.call in (Call.RENAME, Call.LINK):
        other = real(os.fsdecode(inquiry.other), inquiry)
        if os.path.isdir(path) and not os.path.islink(path):  # what is closed in it would come out: to be copied
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        is_moved = inquiry.call is Call.RENAME
        replaced = is_moved and os.path.lexists(other)  # and what is there is gone then
        needs = [needs[0] if is_moved else (Operation.WRITE, path)]
        needs += [(Operation.WRITE if replaced else Operation.CREATE, other)]
        if not (is_hosts(path) and is_hosts(other)):  # to be copied as well
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    waiter = File(inquiry, path, other, needs)
    if (
        not is_hosts(path)
        or any(_is_apart(target) for _, target in needs)
        or all(decide(base, need).verdict is Verdict.ALLOW for need in needs)
    ):
        return None
    for operation, target in needs:
        place, wanted = target, os.R_OK if operation in READS else os.W_OK
        if operation in (Operation.CREATE, Operation.DELETE) or target == other:  # whatever mode a file has that goes
            place, wanted = os.path.dirname(target), os.W_OK | os.X_OK
        if modes.refusal(who, place, wanted):  # the host says no as well
            return None
    return waiter


def decide(judged: Policy, need: Need) -> Decision:
    """What the judge says of a need."""
    operation, target = need
    if operation is Operation.CONNECT:
        host, port = split_port(target)
        return policy.decide_connect(judged, host, int(port))
    return policy.decide(judged, ACCESSES[operation.kind], target)


def as_line(decision: Decision, need: Need, waiter: Waiter, workspace: str, homes: tuple[str, ...]) -> Line:
    """The line that asks for it, but for its number and its end."""
    operation, target = need
    found = targets(need, homes)
    reason = "allow_miss" if decision.rule is None or decision.rule.asks else "deny_match"
    line: Line = {"state": "query", "operation": operation.value, "reason": reason}
    line |= {"choices": [*map(shown, found)], "rule": shown(_rule(operation, found[0], workspace))}
    line["why"] = decision.reason
    if isinstance(waiter, Host):
        more: Line = {"kind": "network", "code": "NETWORK_DENIED", "target": target, "syscall": "connect"}
        more |= {"suggested_grant": {"allowedDomains": found[0]}, "mechanism": "gate", "errno": "EACCES"}
        more["why"] = waiter.wish.why
        return line | more | {"process": {"pid": waiter.wish.pid, "exe": waiter.wish.exe, "cwd": ""}}
    inquiry = waiter.inquiry
    key = "allowRead" if operation.kind == "read" else "allowWrite"
    line |= {"kind": "filesystem", "code": "FILESYSTEM_DENIED", "path": shown(target)}
    line |= {"requested_path": _brief(inquiry.path), "syscall": inquiry.call.name.lower()}
    line |= {"suggested_grant": {key: shown(found[0])}, "mechanism": "seccomp"}
    line |= {"errno": errno.errorcode.get(inquiry.errno, ""), "flags": flag_names(inquiry)}
    who = {"pid": inquiry.pid, "exe": _brief(inquiry.exe), "cwd": _brief(inquiry.cwd)}
    return line | {"process": who}


def targets(need: Need, homes: tuple[str, ...]) -> list[str]:
    """What could be granted for a need, from the narrowest; of what is not there yet, its directory."""
    operation, target = need
    found = choices(operation, target, homes)
    if operation is Operation.CONNECT:
        return found
    return [one for one in found if os.path.lexists(one) and os.path.realpath(one) == one] or [target]


def _rule(operation: Operation, target: str, workspace: str) -> str:
    grant = Grant(id="", operation=operation, target=target, answer=Answer.PROJECT, workspace=workspace, made=0)
    return rule_text(grant)


EXACTLY = "once"  # the id of a grant for whoever waits now, of nothing but what it needs


def exactly(need: Need, workspace: str = "") -> Grant:
    """That grant."""
    operation = Operation(need[0].kind)
    return Grant(id=EXACTLY, operation=operation, target=need[1], answer=Answer.ONCE, workspace=workspace, made=0)


def meant(
    need: Need, line: Line, offered: str, workspace: str, homes: tuple[str, ...], environ: Mapping[str, str]
) -> Grant:
    """The grant that an answer asks for; PolicyError or ValueError says why there can be none. Who names nothing means
    what was offered: by now a file may be gone, and the narrowest that is there would be its directory."""
    operation, target = need
    scope, named, seconds = Answer(line.get("scope", "once")), line.get("target"), line.get("seconds", 0)
    if scope is Answer.ONCE and named in (None, "", shown(target)):
        return exactly(need, workspace)
    wanted = next((one for one in targets(need, homes) if shown(one) == (named or offered)), str(named or offered))
    if not isinstance(seconds, int) or seconds < 0:
        raise ValueError("seconds is a number, and not below 0")
    if operation is not Operation.CONNECT and not wanted.startswith("/"):
        raise ValueError(f"{wanted!r} is no absolute path")
    if scope is Answer.ONCE:
        return approvals.once(operation, wanted, workspace, environ)
    return approvals.make(operation, wanted, scope, workspace, seconds=seconds, reason="asked", environ=environ)


def with_grants(judged: Policy, grants: Sequence[Grant]) -> Policy:
    """The policy with what was granted meanwhile, as it would be loaded the next time."""
    if not grants:
        return judged
    rules = grants_layer(Standing(tuple(grants))).rules
    hosts = [
        host_rule(Verdict.ALLOW, grant.target, Origin(f"grant {grant.id}"))
        for grant in grants
        if grant.operation is Operation.CONNECT
    ]
    network = (
        msgspec.structs.replace(judged.network, hosts=(*judged.network.hosts, *hosts)) if hosts else judged.network
    )
    return msgspec.structs.replace(judged, rules=(*judged.rules, *rules), network=network)


def real(path: str, inquiry: Inquiry) -> str:
    """Where a path leads; of a name that is made, moved or removed, the name itself where it stands."""
    makes = inquiry.call is Call.OPEN and (
        inquiry.flags & os.O_NOFOLLOW or inquiry.flags & (os.O_CREAT | os.O_EXCL) == os.O_CREAT | os.O_EXCL
    )
    if inquiry.call in (Call.TRUNCATE, Call.CHMOD) or (inquiry.call is Call.OPEN and not makes):
        return real_path(path)
    above, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        raise ValueError("names no name")
    return os.path.join(real_path(above), name)


def _opened(path: str, flags: int) -> Need:
    if writes(flags):
        return (Operation.WRITE if os.path.lexists(path) else Operation.CREATE), path
    return (Operation.LIST if os.path.isdir(path) else Operation.READ), path


def writes(flags: int) -> bool:
    """Whether an open is for more than reading."""
    return flags & os.O_ACCMODE != os.O_RDONLY or bool(flags & (os.O_CREAT | os.O_TRUNC))


def _is_apart(path: str) -> bool:
    return is_inside(path, NOT_OURS)


def flag_names(inquiry: Inquiry) -> list[str]:
    """The flags of an open, by name."""
    if inquiry.call is not Call.OPEN:
        return []
    modes_of = ("O_RDONLY", "O_WRONLY", "O_RDWR", "O_RDWR")
    names = ("O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK")
    return [modes_of[inquiry.flags & 3], *(name for name in names if inquiry.flags & getattr(os, name))]


def _brief(path: bytes) -> str:
    """A path that is only told of: a command may have made it as long as it likes, of letters that are six in JSON."""
    text = shown(os.fsdecode(path))
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"


def shown(text: str) -> str:
    """A path as JSON can have it: bytes that are no text are escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
