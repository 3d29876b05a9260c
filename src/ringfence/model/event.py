"""What an auditor reads: one record for each thing that crossed, or tried to cross, a boundary.

A record has no output of a command and no value of a variable; words that look like secrets are taken out before it is
made. Those that belong to one run have the same `run`.
"""

from collections.abc import Sequence

import msgspec

from .outcome import Denial, Ending


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True, rename="camel"):
    """What all of them have. `at` is UTC, to the microsecond."""

    at: str
    run: str = ""  # what joins the events of one run
    workspace: str = ""
    session: str = ""
    uid: int = 0  # who asked
    pid: int = 0


class Ran(Event, frozen=True, kw_only=True, rename="camel", tag="run"):
    """A command ran, or was to run. Without an ending nobody waited for it, or ringfence refused it or
    was killed: `error`."""

    argv: tuple[str, ...]
    cwd: str = ""
    ran_as: int = 0
    ending: Ending | None = None
    exit_code: int = 0
    error: str = ""
    seconds: float = 0.0
    denials: int = 0
    policies: tuple[str, ...] = ()  # the files its policy came from, besides what is built in
    gaps: tuple[str, ...] = ()  # what was wanted and not in force
    reached: tuple[str, ...] = ()  # the hosts that were dialled for it
    again: tuple[str, ...] = ()  # why it was begun anew, if what stood by for it was gone: nothing had run


class Denied(Event, frozen=True, kw_only=True, rename="camel", tag="denial"):
    """An access was refused; `by` is the kernel, the gate, or the guard before anything ran."""

    denial: Denial
    by: str = "run"


class Granted(Event, frozen=True, kw_only=True, rename="camel", tag="grant"):
    """Somebody gave more than the policy files do."""

    grants: tuple[str, ...]


class Escaped(Event, frozen=True, kw_only=True, rename="camel", tag="escape"):
    """Something ran with less around it than was wanted, or left something behind that runs code later."""

    what: tuple[str, ...]


class Signed(Event, frozen=True, kw_only=True, rename="camel", tag="signature"):
    """The ssh agent was asked to sign for a run; each line is one signature, with the key's fingerprint."""

    what: tuple[str, ...]


class Changed(Event, frozen=True, kw_only=True, rename="camel", tag="policy"):
    """What is allowed is no longer what it was: a policy file changed, or is trusted, or no longer."""

    what: str
    policies: tuple[str, ...] = ()  # each file with the SHA-256 of its content


class Noted(Event, frozen=True, kw_only=True, rename="camel", tag="log"):
    """Something about the log itself: its beginning, what was repaired, what is gone."""

    what: str


AnyEvent = Ran | Denied | Granted | Escaped | Signed | Changed | Noted


_encode = msgspec.json.Encoder().encode


def written(value: object) -> bytes:
    """A value as JSON. A name of a file need not be text: one that is not has its bytes written as escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_plain(msgspec.to_builtins(value)))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


MOST_DENIALS = 1 << 18  # bytes, of one run: names in them are the command's


def few(denials: Sequence[object]) -> dict[str, object]:
    """What a run was refused, as much of it as a service holds for everybody's; the audit log has all."""
    left = MOST_DENIALS
    for count, one in enumerate(denials):
        left -= len(written(one))
        if left < 0:
            return {"denials": denials[:count], "denied": len(denials), "cut": True}
    return {"denials": denials}
