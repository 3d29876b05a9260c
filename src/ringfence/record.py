"""Joins runs with the audit log: what of a run is worth an event, and where events go.

The log is the caller's own, below XDG_STATE_HOME; the built-in policy keeps every command from it. What can be made
ready is made ready while the command runs, so that its end costs one lock and one write. What could not be written is
a gap in the outcome: the command has run already.
"""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from . import underway
from .keep import environment
from .model import Denial, Gap, Need, Origin, Outcome, Refused, RingfenceError
from .policy import Flags, Reach
from .policy.trust import audit_of

if TYPE_CHECKING:
    from .audit import Log
    from .keep import Request
    from .model.event import AnyEvent

_LOG = Origin("audit log")


_logs: dict[str, "Log"] = {}


def _disown() -> None:
    """In a fork of our caller's: a lock would be the parent's too."""
    for log in _logs.values():
        log.close()
    _logs.clear()


os.register_at_fork(after_in_child=_disown)


def open_log() -> "Log":
    """The caller's log, open. Raises LogError or OSError."""
    from .audit import Log, LogError

    directory = audit_of(environment())
    if not directory:
        raise LogError("there is no home directory to keep it in")
    found = _logs.get(directory)
    if found is None:
        found = _logs.setdefault(directory, Log(directory))
        try:
            sweep()
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

    decode = msgspec.json.Decoder(AnyEvent).decode

    events: list[AnyEvent] = []
    for left in found:
        if has_run(directory, left.run, left.begun):
            continue
        try:
            known: list[AnyEvent] = [decode(line) for line in left.lines]
        except msgspec.MsgspecError:  # it was not written whole
            known = []
        known = known or [Ran(at="", run=left.run, uid=os.getuid(), argv=())]
        error = f"ringfence was killed, and nobody saw its end; it began {moment(left.begun)}"
        for event in known:
            told = {"at": now()} | ({"error": error} if isinstance(event, Ran) else {})
            events.append(msgspec.structs.replace(event, **told))
    if events:
        open_log().append(events)


def write(events: Sequence["AnyEvent"], durable: bool = False) -> str:
    """Append events; why that could not be done, or "". Inside a run the log is out of reach, as it must be, and what
    happens there is part of a run that is recorded outside."""
    from .audit import LogError

    try:
        open_log().append(events, durable)
    except LogError as error:
        return str(error)
    except OSError as error:
        return "" if "RINGFENCE" in os.environ else f"{audit_of(environment())}: {error.strerror}"
    return ""


class Record:
    """The events of one run: begun when the command runs, kept when it is over."""

    def __init__(self, request: "Request", argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._request, self._argv, self._environ = request, argv, environ
        self._run = os.urandom(8).hex()
        self._place: underway.Place | None = None
        self._common: dict[str, str | int] | None = None
        self._words: tuple[str, ...] = ()
        self._is_kept = False

    def __enter__(self) -> "Record":
        directory = audit_of(environment())
        self._place = underway.begin(directory, self._run) if directory else None
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not self._is_kept:
            said = str(error) if isinstance(error, RingfenceError | OSError) else "nobody waited for its end"
            self._keep(None, said)

    def begin(self) -> None:
        """Have ready what does not depend on the run's end."""
        if self._common is None:
            from .audit import LogError

            request = self._request
            self._common = {"run": self._run, "workspace": request.workspace, "uid": os.getuid()}
            self._common |= {"pid": os.getpid(), "session": session_of(request.workspace)}
            self._words = cleaned(self._argv, self._environ)
            try:
                open_log()
            except (LogError, OSError):
                pass  # it is said when it matters, at the end
            if self._place:
                from .audit.log import encoded

                whole, self._words = self._words, _start(self._words)
                self._place.say([encoded(event) for event in self._events(None, "")])
                self._words = whole

    def keep(self, outcome: Outcome) -> Outcome:
        """Write what became of it; what could not be written is a gap."""
        why = self._keep(outcome, "")
        if not why:
            return outcome
        gap = Gap("a record of the run", why, Need.WANTED, _LOG, "ringfence log verify")
        return msgspec.structs.replace(outcome, gaps=(*outcome.gaps, gap))

    def _keep(self, outcome: Outcome | None, error: str) -> str:
        self._is_kept = True
        self.begin()
        why = write(self._events(outcome, error))
        if self._place:
            self._place.end()
        return why

    def _events(self, outcome: Outcome | None, error: str) -> list["AnyEvent"]:
        from .audit.log import now
        from .model.event import Denied, Escaped, Granted, Ran, Signed

        request, common = self._request, {**(self._common or {}), "at": now()}
        ran_as = request.ids[0] if request.ids else os.geteuid()
        begun = {"argv": self._words, "cwd": request.cwd, "ran_as": ran_as}
        grants = granted(request.flags)
        events: list[AnyEvent] = [Granted(**common, grants=grants)] if grants else []  # type: ignore[arg-type]
        if outcome is None:
            return [*events, Ran(**common, **begun, error=error)]  # type: ignore[arg-type]
        policies = tuple(map(_stamped, outcome.policies))
        ran = Ran(
            **common,  # type: ignore[arg-type]
            **begun,  # type: ignore[arg-type]
            ending=outcome.ending,
            exit_code=outcome.exit_code,
            seconds=round(outcome.seconds, 6),
            denials=len(outcome.denials),
            policies=policies,
            reached=outcome.reached,
            gaps=tuple(gap.what for gap in outcome.gaps if gap.need is Need.REQUIRED),
        )
        events += [*_changes(request.workspace, policies, common), ran]
        events += [Denied(**common, denial=shortened(denial)) for denial in outcome.denials]  # type: ignore[arg-type]
        events += [Signed(**common, what=outcome.signed)] if outcome.signed else []  # type: ignore[arg-type]
        escaped = escapes(outcome)
        return [*events, Escaped(**common, what=escaped)] if escaped else events  # type: ignore[arg-type]


def session_of(workspace: str) -> str:
    """The session whose worktree this is, by where it stands."""
    above, _, name = workspace.rpartition("/worktrees/")
    return name if "/" not in name and "/ringfence/sessions/" in above else ""


def cleaned(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command without the secrets in them."""
    from .audit.signs import may_hold_secrets

    if not may_hold_secrets(argv, environ):
        return tuple(argv)
    from .audit.redact import redacted, secrets_of

    return redacted(argv, secrets_of(environ))


def _start(words: tuple[str, ...]) -> tuple[str, ...]:
    """As much of them as there is surely room for."""
    return words if sum(map(len, words)) < 1000 else tuple(word[:100] for word in words[:10])


MOST_TEXT = 4096


def shortened(denial: Denial) -> Denial:
    """A denial whose texts, which the command chose, are not endless."""
    if len(denial.target) + len(denial.reason) + len(denial.grant) <= MOST_TEXT:
        return denial
    cut = {name: getattr(denial, name)[:MOST_TEXT] for name in ("target", "reason", "grant")}
    return msgspec.structs.replace(denial, **cut)


_WIDENING = (
    ("--allow-read", "allow_read"),
    ("--allow-write", "allow_write"),
    ("--allow-env", "allow_env"),
    ("--allow-host", "allow_host"),
    ("--allow-socket", "allow_socket"),
    ("--forward", "forward"),
    ("--policy", "policy_files"),
)


def approved(workspace: str, words: Sequence[str], revoked: bool = False) -> str:
    """A person approved something, or took it back: written through to the disk."""
    from .audit.log import now
    from .model.event import Changed, Granted

    common = {"at": now(), "workspace": workspace, "uid": os.getuid(), "pid": os.getpid()}
    events: list[AnyEvent] = [Granted(**common, grants=tuple(words))]  # type: ignore[arg-type]
    if revoked:
        events = [Changed(**common, what=f"revoked: {word}") for word in words]  # type: ignore[arg-type]
    return write(events, durable=True)


@functools.lru_cache(maxsize=8)
def granted(flags: Flags) -> tuple[str, ...]:
    """What somebody gave beyond the policy files, in the words that give it."""
    words = [f"{flag} {given}" for flag, name in _WIDENING for given in getattr(flags, name)]
    words += [f"--inject {source} {target}" for source, target in flags.inject]
    words += ["a policy in the call"] * len(flags.inline)
    words += [f"--profile {flags.profile}"] if flags.profile else []
    words += ["--allow-network"] if flags.network is Reach.OPEN else []
    words += [f"--enforcement {flags.enforcement.value}"] if flags.enforcement else []
    return tuple(words)


def escapes(outcome: Outcome) -> tuple[str, ...]:
    """What had less around it than was wanted, and what was left behind that runs code later."""
    if isinstance(outcome.ending, Refused):
        return ()
    found = ["nothing was enforced"] if outcome.in_force[0].startswith("nothing") else []
    found += [f"not enforced: {gap.what}: {gap.why}" for gap in outcome.gaps if gap.need is Need.REQUIRED]
    found += [f"appeared during the run, and runs code later: {path}" for path in outcome.planted]
    return tuple(found)


# ---- Policies that changed ----

_digests: dict[str, tuple[tuple[int, ...], str]] = {}
_last: dict[tuple[str, str], tuple[str, ...]] = {}


def _stamped(path: str) -> str:
    """A policy file with the digest of its content."""
    from .audit.log import sha256

    try:
        facts = os.stat(path)
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if path not in _digests or _digests[path][0] != identity:
            with open(path, "rb") as file:
                _digests[path] = identity, sha256(file.read(1 << 20))
    except OSError:
        return path  # in the call, or gone meanwhile
    return f"{path} {_digests[path][1]}"


def _changes(workspace: str, policies: tuple[str, ...], common: Mapping[str, object]) -> list["AnyEvent"]:
    """An event when a workspace runs under other policy files than the last time."""
    directory = audit_of(environment())
    if not directory or _last.get((directory, workspace)) == policies:
        return []
    from .audit.log import sha256
    from .model.event import Changed

    path = f"{directory}/policies-{sha256(os.fsencode(workspace))[:32]}"
    text = "\n".join(policies).encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            before = file.read()
    except OSError:
        before = b""
    if before != text:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return []  # the log itself cannot be written either, and that is said
        try:
            os.write(descriptor, text)
        finally:
            os.close(descriptor)
    _last[directory, workspace] = policies
    if before == text:
        return []
    return [Changed(**common, what="the policy files of the workspace changed", policies=policies)]  # type: ignore[arg-type]


def call_refused(workspace: str, tool: str, said: str, reasons: Sequence[str]) -> str:
    """The guard refused an agent's tool call before anything ran."""
    from .audit.log import now
    from .model.event import Denied

    words = cleaned([tool, said], os.environ)
    denial = shortened(Denial("call", " ".join(words).strip(), "; ".join(reasons), observed=True))
    event = Denied(at=now(), workspace=workspace, uid=os.getuid(), pid=os.getpid(), denial=denial, by="guard")
    return write([event])


def changed(workspace: str, what: str, path: str, digest: str) -> str:
    """A person changed what is allowed. Rare and weighty, so it is written through to the disk."""
    from .audit.log import now
    from .model.event import Changed

    event = Changed(
        at=now(), workspace=workspace, uid=os.getuid(), pid=os.getpid(), what=what, policies=(f"{path} {digest}",)
    )
    return write([event], durable=True)
