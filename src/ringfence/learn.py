"""Joins a run, watched, with the policy that it would have needed.

The run has no more than the caller's own policy and flags give, so nothing is opened for learning's sake; what it
used of that beyond the built-in policy becomes lines. What it was refused is told beside them.
"""

import os
from collections.abc import Sequence

import msgspec

from . import enforce, policy
from .keep import Prepared, Request, prepare
from .model import Access, Decision, Ending, Observe, Outcome, Refused, Unenforceable
from .policy.learnt import Learnt, Line, Use, learn, secret

MOST_NAMES = 4096
ACCESSES = {"read": "read", "write": "write", "change": "write", "make": "make", "remove": "make"}


def watched(request: Request) -> Request:
    """The request, with everything told; refused where nobody can tell."""
    asked = msgspec.structs.replace(request, observe=Observe.EVERYTHING)
    if prepare(asked).walls.observe != Observe.EVERYTHING:
        hint = "`ringfence doctor` says what is missing; `ringfence run --explain` tells what is refused"
        raise Unenforceable("learn", "nobody can watch what a command opens here", hint)
    return asked


def learnt(request: Request, outcome: Outcome, begun: float) -> Learnt:
    """What a run that was watched used of the policy. `begun` is the clock's time when it began."""
    made = prepare(request)
    judged = made.judged()

    def judge(access: Access, path: str) -> Decision:
        return policy.decide(judged, access, path)

    home = os.path.realpath(request.home)
    failed = {(one.access, one.path) for one in outcome.accesses if one.verdict == "failed"}
    uses = []
    for one in outcome.accesses:
        if one.verdict == "allowed" and one.access in ACCESSES and (one.access, one.path) not in failed:
            path, access = enforce.canonical(os.fsdecode(one.path)), ACCESSES[one.access]
            if one.access == "make" and born(path) < begun:  # `mkdir -p` asks for all directories on the way
                continue
            uses.append(Use(access, path, os.path.basename(os.fsdecode(one.exe))))
    found = learn(list(dict.fromkeys(uses)), judge, home, names_in)
    sockets, variables, withheld = _rest(made, outcome, home)
    hosts = tuple(Line(host, "dialled") for host in outcome.reached)
    return msgspec.structs.replace(
        found, hosts=hosts, sockets=sockets, variables=variables, withheld=(*found.withheld, *withheld)
    )


def born(path: str) -> float:
    """When something was made, by the file system's own record; the end of time where it is gone or nobody knows."""
    import ctypes
    import struct

    data = ctypes.create_string_buffer(256)
    call = getattr(ctypes.CDLL(None), "statx", None)
    if call is None or call(-100, os.fsencode(path), 0x100, 0x800, data) != 0:
        return float("inf")
    mask, seconds, rest = struct.unpack_from("<I76xqI", data.raw)
    return float(seconds) + rest / 1e9 if mask & 0x800 else float("inf")


def _rest(made: Prepared, outcome: Outcome, home: str) -> tuple[tuple[Line, ...], tuple[Line, ...], list[Line]]:
    """Sockets that were reached, and variables that were let in: whether one was used nobody can see."""
    from .audit.signs import may_be_secret

    connected = {enforce.canonical(os.fsdecode(one.path)) for one in outcome.accesses if one.access == "connect"}
    sockets = [rule.path for rule in made.policy.network.sockets if enforce.canonical(rule.path) in connected]
    names = made.policy.environment.allow
    withheld = [Line(name, "a variable whose name says that it is secret") for name in names if may_be_secret(name)]
    withheld += [Line(path, why) for path in sockets if (why := secret(path, home))]
    return (
        tuple(Line(path, "connected to") for path in sockets if not secret(path, home)),
        tuple(Line(name, "was let in; whether it is used is not known") for name in names if not may_be_secret(name)),
        withheld,
    )


def names_in(directory: str) -> list[str] | None:
    """What a directory holds; None when it is none, cannot be looked at, or holds too much."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    return names if len(names) <= MOST_NAMES else None


def became(ending: Ending) -> str:
    """How it ended, as the end of a sentence about it."""
    return f"did not begin: {ending}" if isinstance(ending, Refused) else str(ending)


def remarks(argv: Sequence[str], outcome: Outcome) -> list[str]:
    """What is to be said about the run above its policy."""
    from .record import cleaned

    words = " ".join(cleaned(argv, os.environ))
    found = [f"Learnt by ringfence from: {words}", f"which {became(outcome.ending)}."]
    if not outcome.ok:
        found.append("It failed: what it did not come to is not here.")
    if outcome.lost:
        found.append(f"{outcome.lost} accesses could not be told, and may be missing.")
    refused = [one for one in outcome.denials if one.grant]
    found += ["Refused, and not granted:"] * bool(refused)
    found += [f"  {one.access} {one.target}: {one.grant}" for one in refused]
    return ["".join(char if char.isprintable() else "?" for char in line) for line in found]
