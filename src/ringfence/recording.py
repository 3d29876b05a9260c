"""What of a run is worth an event. Imported while the command runs, with all that is wanted at its end."""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .audit.log import LogError, now, sha256
from .audit.signs import may_hold_secrets
from .enforce import planted
from .model import Ending, Gap, Need, Outcome, Refused
from .model.event import AnyEvent, Changed, Denied, Escaped, Event, Granted, Ran, Signed, written
from .model.outcome import CAME
from .policy import Flags, Reach
from .record import MOST_TEXT, cleaned, kept, open_log, unwritten

if TYPE_CHECKING:
    from .keep import Request


class Entry:
    """One run's part of the log."""

    def __init__(
        self, run: str, directory: str, request: "Request", argv: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        """Have ready what does not depend on the run's end."""
        self._directory, self._request, self._environ = directory, request, environ
        self._common: dict[str, str | int] = {
            "at": now(),
            "run": run,
            "workspace": request.workspace,
            "session": session_of(request.workspace),
            "uid": os.getuid(),
            "pid": os.getpid(),
        }
        self._words = cleaned(argv, environ) if may_hold_secrets(argv, environ) else tuple(argv)
        self._ran_as = request.ids[0] if request.ids else os.geteuid()
        self._again: tuple[str, ...] = ()
        self._unwritten: list[AnyEvent] = []
        grants = granted(request.flags)
        self._granted = [written(Granted(**self._common, grants=grants))] if grants else []  # type: ignore[arg-type]
        try:
            open_log(directory)
        except (LogError, OSError):
            pass  # it is said when it matters, at the end

    def begun(self) -> list[bytes]:
        """What is known before its end, encoded; of many words as much as there is surely room for."""
        return [*self._granted, written(self._ran(self._common, _few(self._words), ""))]

    def _ran(self, common: dict[str, str | int], words: tuple[str, ...], error: str) -> Ran:
        return Ran(**common, argv=words, cwd=self._request.cwd, ran_as=self._ran_as, error=error)  # type: ignore[arg-type]

    def tried(self, ending: Ending) -> None:
        """It did not begin, and is tried again."""
        if isinstance(ending, Refused) and ending.kind == "standby":
            self._again += (ending.text,)

    def searched(self, outcome: Outcome, begun: int, moves: bool, *how: Any) -> Outcome:
        """The outcome with what the command left behind, and what those before it left whose end nobody saw."""
        workspace = self._request.workspace
        outcome = planted.searched(workspace, outcome, begun, moves, *how)
        if isinstance(outcome.ending, Refused):  # of which nobody is told more than that
            return outcome
        found, moved = _untold.pop(workspace, ((), ()))
        if not found:
            return outcome
        # Not moved: it may be days since that one was killed, and what somebody has done here since is told of, too.
        found = tuple(dict.fromkeys((*found, *outcome.planted)))
        return msgspec.structs.replace(outcome, planted=found, quarantined=(*moved, *outcome.quarantined))

    def write(self, outcome: Outcome | None, error: str, search: tuple[int, float] | None) -> str:
        """Append what became of it, or what was wrong instead; why that could not be done, or "". Where nobody saw how
        it ended, `search` says since when something may have been left behind, and for how long to look for it."""
        events = self._events(outcome, error, search)
        try:
            open_log(self._directory).append((*self._granted, *events))
        except (LogError, OSError) as fault:
            self._unwritten = events
            return unwritten(self._directory, fault)
        return ""

    def left(self) -> list[bytes]:
        """What could not be written, encoded; the run itself first, with fewer words, for there may not be room for
        all."""
        late = "the log could not be written when it ended"
        events = sorted(self._unwritten, key=lambda event: not isinstance(event, Ran))
        for at, event in enumerate(events):
            if isinstance(event, Ran):
                error = f"{event.error}; {late}" if event.error else late
                events[at] = msgspec.structs.replace(event, argv=_few(event.argv), error=error)
        return [*map(written, events[:1]), *self._granted, *map(written, events[1:])]

    def _events(self, outcome: Outcome | None, error: str, search: tuple[int, float] | None) -> list[AnyEvent]:
        request, common = self._request, self._common
        common["at"] = now()
        if outcome is None:
            ran = self._ran(common, self._words, error)
            return looked_after(ran, *search) if search else [ran]
        policies = tuple(map(_stamped, outcome.policies)) if outcome.policies else ()
        gaps, missing = _missing(outcome.gaps)
        ran = Ran(
            **common,  # type: ignore[arg-type]
            argv=self._words,
            cwd=request.cwd,
            ran_as=self._ran_as,
            ending=outcome.ending,
            exit_code=outcome.ending.exit_code,
            seconds=round(outcome.seconds, 6),
            denials=len(outcome.denials),
            policies=policies,
            reached=outcome.reached,
            gaps=gaps,
            again=self._again,
        )
        if _last.get((self._directory, request.workspace)) == policies:
            events: list[AnyEvent] = [ran]
        else:
            events = [*_changes(self._directory, request.workspace, policies, common), ran]
        if outcome.denials or outcome.signed:
            told = [kept(denial, self._environ) for denial in outcome.denials]
            events += [Denied(**common, denial=denial) for denial in told]  # type: ignore[arg-type]
            events += [Signed(**common, what=outcome.signed)] if outcome.signed else []  # type: ignore[arg-type]
        is_held = not (missing or outcome.planted or outcome.is_unheld)
        escaped = () if is_held else escapes(outcome)
        return [*events, Escaped(**common, what=escaped)] if escaped else events  # type: ignore[arg-type]


def _few(words: tuple[str, ...]) -> tuple[str, ...]:
    return words if sum(map(len, words)) < 1000 else tuple(word[:100] for word in words[:10])


@functools.lru_cache(maxsize=8)
def session_of(workspace: str) -> str:
    """The session whose worktree this is, by where it stands."""
    above, _, name = workspace.rpartition("/worktrees/")
    return name if "/" not in name and "/ringfence/sessions/" in above else ""


_WIDENING = (
    ("--allow-read", "allow_read"),
    ("--allow-write", "allow_write"),
    ("--allow-env", "allow_env"),
    ("--allow-host", "allow_host"),
    ("--allow-socket", "allow_socket"),
    ("--forward", "forward"),
    ("--policy", "policy_files"),
)


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


_weighed: tuple[tuple[Gap, ...], tuple[str, ...], tuple[str, ...]] = (), (), ()


def _missing(gaps: tuple[Gap, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which of these gaps are of something that was required, by name and with why; they are the walls' own, and the
    same from run to run."""
    global _weighed
    weighed = _weighed
    if weighed[0] is not gaps:
        required = [gap for gap in gaps if gap.need is Need.REQUIRED]
        named = tuple(gap.what[:MOST_TEXT] for gap in required)
        why = tuple(f"not enforced: {gap.what}: {gap.why}"[:MOST_TEXT] for gap in required)
        _weighed = weighed = gaps, named, why
    return weighed[1:]


def escapes(outcome: Outcome) -> tuple[str, ...]:
    """What had less around it than was wanted, and what was left behind that runs code later."""
    if isinstance(outcome.ending, Refused):
        return ()
    found = _missing(outcome.gaps)[1]
    if outcome.is_unheld:
        found = ("nothing was enforced", *found)
    if outcome.planted:
        found += _appeared(outcome.planted)
    return found


def _appeared(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{path} {CAME}" for path in paths)


_untold: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # by workspace: found, and renamed


def looked_after(ran: Ran, begun: int, most: float = 0.2) -> list[AnyEvent]:
    """The event of a run whose end nobody saw, with what it left behind: whoever kills its ringfence would have that
    looked for by nobody. Whoever runs something there next is told of it too."""
    try:
        found, moved, left = planted.look(ran.workspace, begun, most) if ran.workspace else ((), (), 0)
        where = f" in {left} directories, and what is below them" if left else ""
    except Exception as fault:  # noqa: BLE001  # whatever stands there: each later run would come to the same
        found, moved, where = (), (), f": {fault!r}"
    if where:
        ran = msgspec.structs.replace(ran, error=f"{ran.error}; what it left was not looked for{where}")
    if not found:
        return [ran]
    before = _untold.get(ran.workspace, ((), ()))
    _untold[ran.workspace] = (*before[0], *found), (*before[1], *moved)
    common = {name: getattr(ran, name) for name in Event.__struct_fields__}
    return [ran, Escaped(**common, what=_appeared(found))]


# ---- Policies that changed ----

_digests: dict[str, tuple[tuple[int, ...], str]] = {}
_last: dict[tuple[str, str], tuple[str, ...]] = {}


def _stamped(path: str) -> str:
    """A policy file with the digest of its content."""
    try:
        facts = os.stat(path)
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if path not in _digests or _digests[path][0] != identity:
            with open(path, "rb") as file:
                _digests[path] = identity, sha256(file.read(1 << 20))
    except OSError:
        return path  # in the call, or gone meanwhile
    return f"{path} {_digests[path][1]}"


def _changes(directory: str, workspace: str, policies: tuple[str, ...], common: Mapping[str, object]) -> list[AnyEvent]:
    """An event when a workspace runs under other policy files than the last time."""
    if not directory:
        return []
    path = f"{directory}/policies-{sha256(os.fsencode(workspace))[:32]}"
    text = "\n".join(policies).encode("utf-8", "surrogateescape")
    flags = os.O_NONBLOCK | os.O_CLOEXEC  # somebody's pipe is not waited for
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
            before = file.read()
    except OSError:
        before = b""
    if before != text:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | flags, 0o600)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        except OSError:
            return []  # the log itself cannot be written either, and that is said; the next run finds the change again
    _last[directory, workspace] = policies
    if before == text:
        return []
    return [Changed(**common, what="the policy files of the workspace changed", policies=policies)]  # type: ignore[arg-type]
