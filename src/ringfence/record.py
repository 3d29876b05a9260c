"""Joins runs with the audit log: when of a run something is written, and where events go.

The log is the caller's own, below XDG_STATE_HOME; the built-in policy keeps every command from it. What can be made
ready is made ready while the command runs, so that its end costs one lock and one write. What could not be written is
a gap in the outcome: the command has run already.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from . import underway
from .enforce import Listings, brief
from .keep import environment
from .model import Denial, Gap, Need, Origin, Outcome, RingfenceError
from .policy.trust import audit_of

if TYPE_CHECKING:
    from .audit import Log
    from .keep import Request
    from .model.event import AnyEvent
    from .recording import Entry

_LOG = Origin("audit log")


_logs: dict[str, "Log"] = {}


def _disown() -> None:
    """In a fork of our caller's: a lock would be the parent's too."""
    for log in _logs.values():
        log.close()
    _logs.clear()
    _late.clear()
    _names.clear()


os.register_at_fork(after_in_child=_disown)


def directory_of(environ: Mapping[str, str]) -> str:
    """Where the log is by an environment, which is most often the one of the run before."""
    global _kept
    kept = _kept
    if kept[0] is not environ:  # `environment` gives the same one while nothing has changed
        _kept = kept = environ, audit_of(environ)
    return kept[1]


_kept: tuple[Mapping[str, str], str] = {}, ""


def open_log(directory: str) -> "Log":
    """The log in a directory, open. Raises LogError or OSError."""
    found = _logs.get(directory)
    if found is not None:
        return found
    from .audit import Log, LogError

    if not directory:
        raise LogError("there is no home directory to keep it in")
    found = _logs.setdefault(directory, Log(directory, brief))
    try:
        underway.sweep(directory, functools.partial(_tell_left, directory))
    except (LogError, OSError):
        pass  # what is left stays, for whoever opens it next
    return found


def sweep() -> None:
    """Write the events of runs whose ringfence was killed. Raises LogError or OSError."""
    directory = audit_of(environment())
    if directory:
        underway.sweep(directory, functools.partial(_tell_left, directory))


def _tell_left(directory: str, found: Sequence[underway.Left]) -> None:
    """An event for each, unless it was killed after it had written its own."""
    from .audit.chain import has_run
    from .audit.log import moment, now
    from .model.event import AnyEvent, Ran
    from .recording import looked_after

    decode = msgspec.json.Decoder(AnyEvent).decode

    events: list[AnyEvent] = []
    searched = set[str]()
    for left in sorted(found, key=lambda left: left.begun):
        if has_run(directory, left.run, left.begun):
            continue
        try:
            known: list[AnyEvent] = [decode(line) for line in left.lines]
        except msgspec.MsgspecError:  # it was not written whole
            known = []
        known = known or [Ran(at="", run=left.run, uid=os.getuid(), argv=())]
        error = f"ringfence was killed, and nobody saw its end; it began {moment(left.begun)}"
        for event in known:
            if isinstance(event, Ran) and event.ending is None and not event.error:
                ran = msgspec.structs.replace(event, at=now(), error=error)
                # Of many, the first in a workspace is looked after for all.
                most = 0.2 / (1 + len(searched))
                events += [ran] if ran.workspace in searched else looked_after(ran, left.begun, most)
                searched.add(ran.workspace)
            else:
                events.append(msgspec.structs.replace(event, at=now()))
    if events:
        open_log(directory).append(events)


def write(events: Sequence["AnyEvent"], durable: bool = False) -> str:
    """Append events to the caller's log; why that could not be done, or ""."""
    from .audit import LogError

    directory = audit_of(environment())
    try:
        open_log(directory).append(events, durable)
    except (LogError, OSError) as error:
        return unwritten(directory, error)
    return ""


def unwritten(directory: str, error: Exception) -> str:
    """Why something is not in the log. Inside a run the log is out of reach, as it must be, and what happens there is
    part of a run that is recorded outside."""
    if not isinstance(error, OSError):
        return str(error)
    elsewhere = "" if os.path.isdir(directory) else "; XDG_STATE_HOME leads to another place"
    where = os.path.join(directory, error.filename) if error.filename else directory
    return "" if "RINGFENCE" in os.environ else f"{where}: {error.strerror}{elsewhere}"


_entry_of: "type[Entry] | None" = None  # once it is imported: the statement alone costs a run two microseconds


_names: list[str] = []  # of runs to come: many for one call


def _new_name() -> str:
    while True:
        try:
            return _names.pop()
        except IndexError:
            many = os.urandom(8 * 64).hex()
            _names.extend(many[at : at + 16] for at in range(0, len(many), 16))


class Record:
    """The events of one run: begun when the command runs, kept when it is over."""

    has_run = False  # whoever launches it says so
    most = 0.2  # seconds in which we look for what it left

    def __init__(
        self, request: "Request", argv: Sequence[str], environ: Mapping[str, str], own: Mapping[str, str] | None = None
    ) -> None:
        """`own` is `environment()`, for whoever has it."""
        self._given = request, argv, environ
        self._run = _new_name()
        self._directory = directory_of(environment() if own is None else own)
        self._place: underway.Place | None = None
        self._entry: Entry | None = None
        self._is_kept = False
        self._begun = time.time_ns()

    def __enter__(self) -> "Record":
        if self._directory:
            # One after the other, a run is written down in full while it runs; of many at once it is the calls that
            # count, and it is written by one.
            is_one_of_many = _entry_of is not None and underway.is_busy(self._directory)
            lines = self._entered().begun() if is_one_of_many else ()
            self._place = underway.begin(self._directory, self._run, lines)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not self._is_kept:
            said = str(error)[:MOST_TEXT] if isinstance(error, RingfenceError | OSError) else ""
            self._keep(None, said or "nobody waited for its end")

    def begin(self) -> "Entry":
        """Have ready what does not depend on the run's end."""
        entry = self._entry
        if entry is None:
            entry = self._entered()
            if self._place is not None:
                self._place.say(entry.begun())
        return entry

    def _entered(self) -> "Entry":
        global _entry_of
        if _entry_of is None:
            from .recording import Entry  # nobody waits for it while the command runs

            _entry_of = Entry
        self._entry = entry = _entry_of(self._run, self._directory, *self._given)
        return entry

    def searched(
        self,
        outcome: Outcome,
        moves: bool,
        listings: Listings,
        seen: os.stat_result | None,
        holds: Callable[[str], bool],
    ) -> Outcome:
        """The outcome with what the command left behind, which is moved if asked to; where it is not, it is looked for
        no longer than `most` seconds."""
        try:
            return self.begin().searched(outcome, self._begun, moves, listings, seen, self.most, holds)
        except BaseException:  # it is known how it ended, whatever stands in its workspace
            self.keep(outcome)
            raise

    def keep(self, outcome: Outcome) -> Outcome:
        """Write what became of it; what could not be written is a gap."""
        why = self._keep(outcome, "")
        if not why:
            return outcome
        gap = Gap("a record of the run", why, Need.WANTED, _LOG, "ringfence log verify")
        return msgspec.structs.replace(outcome, gaps=(*outcome.gaps, gap))

    def _keep(self, outcome: Outcome | None, error: str) -> str:
        self._is_kept = True
        entry = self.begin()
        why = entry.write(outcome, error, (self._begun, self.most) if self.has_run else None)
        if self._place is None:
            return why
        if why:
            lines = entry.left()
            self._place.say(lines)  # for whoever opens the log when it can be written again, if it is not us
            if len(_late) < MOST_LATE:
                _late.append((self._directory, self._place, underway.Left(self._run, time.time_ns(), tuple(lines))))
        else:
            self._place.end()
            if _late:
                _tell_late()
        return why


MOST_LATE = 256  # what is more waits for the end of this process
_late: list[tuple[str, underway.Place, underway.Left]] = []  # runs of ours that the log could not take


def _tell_late() -> None:
    """The log takes events again, so it is given what it could not take."""
    from .audit import LogError

    while True:
        try:
            late = _late.pop()
        except IndexError:
            return
        directory, place, left = late
        try:
            _tell_left(directory, (left,))
        except (LogError, OSError):
            _late.append(late)
            return
        place.end()


def cleaned(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command without the secrets in them."""
    from .audit.signs import may_hold_secrets

    if not may_hold_secrets(argv, environ):
        return tuple(argv)
    from .audit.redact import redacted, secrets_of

    return redacted(argv, secrets_of(environ))


MOST_TEXT = 4096


def kept(denial: Denial, environ: Mapping[str, str]) -> Denial:
    """A denial as it is kept: its texts, which the command chose, are not endless, and have no secret in them."""
    from .audit.signs import may_hold_secrets

    said = denial.target, denial.reason, denial.grant
    texts = list(said)
    if may_hold_secrets(said, environ):
        from .audit.redact import plain, secrets_of

        secrets = secrets_of(environ)
        texts = [plain(text[: 2 * MOST_TEXT], secrets) for text in said]
    if sum(map(len, said)) > MOST_TEXT:
        texts = [text[:MOST_TEXT] for text in texts]
    elif texts == [*said]:
        return denial
    return msgspec.structs.replace(denial, target=texts[0], reason=texts[1], grant=texts[2])


def _now_in(workspace: str) -> dict[str, Any]:
    """What an event of no run says of when, where and by whom."""
    from .audit.log import now

    return {"at": now(), "workspace": workspace, "uid": os.getuid(), "pid": os.getpid()}


def approved(workspace: str, words: Sequence[str]) -> str:
    """A person approved something: written through to the disk."""
    from .model.event import Granted

    return write([Granted(**_now_in(workspace), grants=tuple(words))], durable=True)


def revoked(workspace: str, words: Sequence[str]) -> str:
    """A person took back what was approved: written through to the disk."""
    from .model.event import Changed

    return write([Changed(**_now_in(workspace), what=f"revoked: {word}") for word in words], durable=True)


def call_refused(workspace: str, tool: str, said: str, reasons: Sequence[str]) -> str:
    """The guard refused an agent's tool call before anything ran."""
    from .model.event import Denied

    words = cleaned([tool, said], os.environ)
    denial = kept(Denial("call", " ".join(words).strip(), "; ".join(reasons), observed=True), os.environ)
    return write([Denied(**_now_in(workspace), denial=denial, by="guard")])


def changed(workspace: str, what: str, path: str, digest: str) -> str:
    """A person changed what is allowed. Rare and weighty, so it is written through to the disk."""
    from .model.event import Changed

    return write([Changed(**_now_in(workspace), what=what, policies=(f"{path} {digest}",))], durable=True)
