"""The one place that joins the rooms: load, probe, survey, plan, launch, wait. `keep` has what stays between calls."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from . import enforce, plan, policy
from .command import Own
from .job import (
    STREAM_NAMES,
    AnyPath,
    Job,
    Unlooked,
    has_other_streams,
    look,
    looked_over,
    make_job,
    rewind,
    was_swapped,
)
from .job import check_values as check_values
from .job import check_words as check_words
from .job import make_request as make_request
from .keep import Prepared, Request, acquire, environment, forget, prepare, release
from .model import (
    Access,
    Asking,
    Denial,
    Ending,
    Enforcement,
    Explain,
    LaunchError,
    Observe,
    Outcome,
    Plan,
    Refused,
    Screen,
    Stream,
    Unenforceable,
    UsageError,
    Verdict,
)
from .record import Record

if TYPE_CHECKING:
    from .asking import Asker
    from .enforce.logged import Log
    from .gates import Passage


def plan_for(request: Request, argv: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """The whole plan, to be looked at: for the streams that we have."""
    check_words(argv)
    request = make_job(argv, request, environ, False, None).request
    return Own(prepare(request), argv, environ, ()).whole()[0]


def check(made: Prepared) -> None:
    """Refuse when something required is missing; an explicit best effort goes on, and the gaps are said."""
    required = made.required
    if required and made.policy.enforcement is Enforcement.REQUIRED:
        rest = f" (and {len(required) - 1} more)" if len(required) > 1 else ""
        first = required[0]
        hint = first.way_out or "`ringfence plan` shows all gaps; --best-effort runs without"
        raise Unenforceable(first.origin, f"{first.what}: {first.why}{rest}", hint)


# Seconds to wait before each attempt, for as long as the enactor finds the disk other than we saw it: whoever makes a
# user is busy in /etc for a tenth of a second and more.
PAUSES = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)


def run(
    argv: Sequence[str],
    *,
    workspace: AnyPath | None = None,
    cwd: AnyPath | None = None,
    env: Mapping[str, str] | None = None,
    flags: policy.Flags | None = None,
    capture: bool = False,
    on_output: Callable[[str, bytes], None] | None = None,
    input: bytes | None = None,
    timeout: float | None = None,
    limits: Mapping[str, float | str] | None = None,
    as_root: bool = False,
    screen: Screen = Screen(),  # noqa: B008
    on_start: Callable[[enforce.Launch], None] | None = None,
    quarantine: bool = False,
    explain: Explain = Explain.FAILURE,
    observe: Observe = Observe.NOTHING,
    on_denial: Callable[[Denial], None] | None = None,
    ask: Asking | None = None,
    siblings: bool = False,
) -> Outcome:
    """Run a command inside its workspace, and tell what became of it: an Outcome, also of one that failed, timed out or
    was not found. Where nothing can be run as asked, a RingfenceError says so: a UsageError, PolicyError, PlanError,
    LaunchError, or Unenforceable for what is required and cannot be held here.

    The workspace is the git top level around `cwd`, or `cwd`; the environment is ours, of which the policy lets some
    through. `capture` puts the output into the outcome; `on_output` is called with "stdout" or "stderr" and each piece.
    `limits` are by the policy's names: {"memory": "2G", "processes": 256}. `quarantine` renames repositories that it
    left in the workspace and that would make a later git run programs. `explain` says how much is done to tell why it
    failed. With `ask` what is refused and may be granted waits for a person. With `siblings` a ringfence inside is a
    run beside this one; it costs walls of its own, and a thread of ours.
    """
    check_words(argv)
    check_values(env, flags, input, timeout, explain)
    for name, called in (("on_output", on_output), ("on_denial", on_denial)):
        if called is not None and not callable(called):
            raise UsageError(name, f"is {called!r}", hint="a function")
    own = environment()
    flags = msgspec.structs.replace(flags or policy.Flags(), ask=True) if ask else flags
    request, seen = look(own, workspace, cwd, with_limits(flags, limits), as_root, screen)
    if explain is Explain.OUTPUT:
        observe |= Observe.FAILURES
    if observe or siblings:
        request = msgspec.structs.replace(request, observe=observe, siblings=siblings)
    environ = own if env is None else env
    job = make_job(argv, request, environ, capture or on_output is not None, input, explain, (own, seen), assumes=True)
    job = msgspec.structs.replace(job, asking=ask) if ask else job
    if plan.SIBLINGS in own and not observe:  # we are inside a run
        from .within import attempted

        found = attempted(job, on_output, timeout, on_start)
        if found is not None:
            return found
    return carried_out(job, on_output, timeout, on_start, on_denial, quarantine)


def carried_out(
    job: Job,
    on_output: Callable[[str, bytes], None] | None = None,
    timeout: float | None = None,
    on_start: Callable[[enforce.Launch], None] | None = None,
    on_denial: Callable[[Denial], None] | None = None,
    quarantine: bool = False,
) -> Outcome:
    """Run a job, and again while the enactor finds the disk other than it was planned for."""
    own = job.at_hand[0] if job.at_hand else environment()
    with Record(job.request, job.argv, job.environ, own) as record:
        for pause in PAUSES:
            if pause:
                time.sleep(pause)
                rewind(job)
                job = looked_over(job)
            try:
                outcome, is_stale = _attempt(job, on_output, timeout, on_start, record, on_denial, quarantine)
            except Unlooked:
                continue  # once only: the next attempt looks at the streams
            if not is_stale:
                break
            record.begin().tried(outcome.ending)
        return record.keep(outcome)


def with_limits(flags: policy.Flags | None, limits: Mapping[str, float | str] | None) -> policy.Flags | None:
    """The flags, with limits given beside them."""
    if not limits:
        return flags
    if not isinstance(limits, Mapping):
        raise UsageError("limits", f"is {limits!r}", hint='{"memory": "2G"}')
    given = flags or policy.Flags()
    return msgspec.structs.replace(given, limits=(*given.limits, *sorted(limits.items())))


def _attempt(
    job: Job,
    on_output: Callable[[str, bytes], None] | None,
    timeout: float | None,
    on_start: Callable[[enforce.Launch], None] | None,
    record: Record,
    on_denial: Callable[[Denial], None] | None,
    quarantine: bool,
) -> tuple[Outcome, bool]:
    """What became of it, and whether it is to be tried again."""
    handed = None if on_output is None else lambda number, data: on_output(STREAM_NAMES[number], data)
    with launch(job) as living:
        record.has_run = True
        if on_start:
            on_start(living.launch)
        living.renew()
        if on_denial is not None:
            living.tell(on_denial)
        record.begin()
        ended = living.launch.wait(living.timeout(timeout), job.data or b"", handed, living.output())
        outcome = living.outcome(*ended)
        is_stale = living.is_stale(outcome.ending)
    return record.searched(outcome, quarantine, *living.known()), is_stale  # nobody is left who could plant something


class Living:
    """A launched job beside what was prepared for it. A context manager; leaving it ends the tree."""

    opened: contextlib.ExitStack | None = None  # closes everything, where there is more than the launch to close
    log: "Log | None" = None  # what Landlock refuses, where that can be read
    doorway: "enforce.Doorway | None" = None  # where runs beside this one may be asked for
    _seen: os.stat_result | None = None

    def __init__(
        self,
        made: Prepared,
        launched: enforce.Launch,
        inherited: tuple[object, ...],
        passage: "Passage | None",
        job: "Job",
        asker: "Asker | None" = None,
    ) -> None:
        self.launch = launched
        self._asker = asker
        self._job = job
        self._passage = passage
        self._made, self._inherited = made, inherited
        self._started = time.monotonic()

    def serve(self, over: int) -> None:
        """Somebody inside has asked for a run beside this one."""
        from .siblings import Siblings

        with contextlib.suppress(OSError):  # the run has just ended, or there is no room: then nobody is served
            Siblings(self._made, self.launch).serve(over)

    def __enter__(self) -> "Living":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.opened is None:
                self.launch.__exit__(kind, error, trace)
            else:
                self.opened.__exit__(kind, error, trace)
        finally:
            if self.doorway is not None:
                self.doorway.close()
            if self.log is not None:
                self.log.close()
            release(self._made)

    def timeout(self, asked: float | None) -> float | None:
        """The shorter of what the caller and the policy say."""
        own = self._made.timeout
        return own if asked is None else asked if own is None else min(asked, own)

    def output(self) -> int | None:
        """The most that may be written to 1 and 2."""
        return self._made.output

    def renew(self) -> None:
        """Have the next standby made while the command runs, and what is asked at its end: a caller who comes again at
        once would have to wait for them."""
        made = self._made
        if self._inherited:
            made.renew_standby(self._inherited)
        timed = made.ground().listings.timed
        if made.users > 1 and enforce.brief.near is not timed:
            enforce.brief.begin(timed)

    def is_stale(self, ending: Ending) -> bool:
        """Whether the disk was not as these walls were planned for; then no other run is given them."""
        was = was_swapped(self._job, ending) and not self._hides_start(ending)
        if was and not has_other_streams(self._job, ending):
            forget(self._made)
        return was

    def _hides_start(self, ending: Ending) -> bool:
        """Whether it could not start in its directory because that is hidden from it: then it is the next time too."""
        if not isinstance(ending, Refused) or ending.kind != "directory":
            return False
        return policy.decide(self._made.judged(), Access.READ, self._made.request.cwd).verdict is not Verdict.ALLOW

    def tell(self, on_denial: Callable[[Denial], None]) -> None:
        """Tell of what the warden sees refused as it comes, from a thread of its own; with Explain.OUTPUT."""
        from .explain import teller

        self.launch.on_seen = teller(self._made, self._job.argv, self._job.environ, on_denial)

    def outcome(self, ending: Ending, out: bytes | None, err: bytes | None) -> Outcome:
        """What became of it, once it is over."""
        made, walls = self._made, self._made.walls
        seconds = time.monotonic() - self._started
        if seconds > enforce.Standby.SECONDS:  # the one that was asked for is gone
            self.renew()
        found = Outcome(ending, walls.in_force, walls.gaps, seconds, out, err)
        # A warden that goes on to the next command was asked nothing by this one, and has nothing to tell.
        if not (self.launch.is_quiet and self._passage is None and self._asker is None):
            self.is_stale(ending)
            found = self._with_told(found)
        before = self._job.at_hand[1] if self._job.at_hand else None
        self._seen = enforce.seen_at(made.place, before.st_dev if before else -1)
        planted = made.ground().appeared(made.request.workspace, self._seen)
        ignored, sources = made.policy.ignored, made.policy.sources
        if planted or ignored or sources:
            found = msgspec.structs.replace(found, ignored=ignored, planted=planted, policies=sources)
        found = self._asker.told(found) if self._asker else found
        explain, off = self._job.explain, made.policy.enforcement is Enforcement.OFF
        if off or explain is Explain.NOTHING or (found.ok and explain is not Explain.OUTPUT):
            return found
        from .explain import explained

        logged = self.log.finish() if self.log else ()
        return explained(made, self._job.argv, self._job.environ, found, bytes(self.launch.heard), logged)

    def known(self) -> tuple[enforce.Listings, os.stat_result | None, Callable[[str], bool]]:
        """The listings of the workspace's directories; what was seen at its own path after the end, if a warden said
        that it was the end: without one somebody of the run may still be there and change it; and who knows what was
        kept from it."""
        made = self._made
        return made.ground().listings, self._seen if made.walls.has_warden else None, made.holds

    def _with_told(self, found: Outcome) -> Outcome:
        """The outcome with what the warden and the gate have told."""
        made = self._made
        seen, lost = self.launch.observed() if made.walls.observe else ([], 0)
        denials: list[Denial] = []
        if self.launch.denied or seen:
            from .explain import told

            denials = told(made, made.walls.named(self.launch.denied), seen)
        refused, signed = self._passage.told() if self._passage else ((), ())
        return msgspec.structs.replace(
            found,
            denials=(*denials, *refused),
            signed=signed,
            reached=self._passage.reached if self._passage else (),
            accesses=tuple(seen) if made.request.observe else (),
            lost=lost,
        )


def launch(job: Job) -> Living:
    """One launch, from the prepared walls on."""
    made, log = acquire(job.request, 0 in job.pumped, job.at_hand), None
    try:
        made.runs += 1
        if made.required:
            check(made)
        streams, pumped = _opened_and_pumped(made, job)
        if job.explain is Explain.OUTPUT:
            from .enforce.logged import listen

            log = listen(made.host.landlock_abi)
        own = Own(made, job.argv, job.environ, streams, (log.step,) if log else (), job.program)
        alone = log is not None or _is_alone(made, job, streams, pumped)
        inherited = () if alone else enforce.inheritance()
        whole, data = made.outline(), b"" if alone else own.for_standby()
        standby = None if alone or len(data) > enforce.Standby.LONGEST else made.take_standby(inherited)
        if standby is None:
            if job.is_assumed and enforce.look_over((0, 1, 2)) != ((), (), False, False):
                raise Unlooked
            whole, data = own.whole()
        else:
            standby.is_awaited_at_its_end = job.is_assumed  # `run` assumes, and `start` waits for the beginning
        given = whole, data, pumped, job.capture, job.data is not None, standby, enforce.make_group(whole)

        def begin() -> enforce.Launch:
            launched = _begun(job, lambda: enforce.start(*given))
            launched.own_steps = own.steps
            return launched

        if whole.asks or made.has_passage:
            living = _launch_with_others(job, made, inherited, whole.asks, begin)
        else:
            living = Living(made, begin(), inherited, None, job)
        living.log = log
        if made.door >= 0:
            with contextlib.suppress(OSError):  # no descriptor is left: then nobody is served, but the command runs
                living.doorway = enforce.Doorway(made.door, living.launch, living.serve)
        return living
    except BaseException:
        if log:
            log.close()
        release(made)
        raise


def _is_alone(made: Prepared, job: Job, streams: tuple[Stream, ...], pumped: tuple[int, ...]) -> bool:
    """Whether no standby serves it: at a terminal, which must be known when the walls are built; where we read its
    input, which would be lost if the standby were gone; and for a caller's first two runs, as most have no more. Nor
    where a file on 0 to 2 is opened again, by a call that a standby's filter has closed."""
    return job.is_at_terminal or 0 in pumped or made.runs < 3 or bool(streams) or not made.can_stand_by


def _begun(job: Job, start: Callable[[], enforce.Launch]) -> enforce.Launch:
    """Start it. Only what fails in here is taken for streams that were not as assumed: after it the command may run,
    and must not be begun a second time."""
    try:
        return start()
    except LaunchError:
        if job.is_assumed:  # another thread may have closed one of them
            raise Unlooked from None
        raise


def _launch_with_others(
    job: Job, made: Prepared, inherited: tuple[object, ...], asks: bool, start: Callable[[], enforce.Launch]
) -> Living:
    """A launch beside which somebody answers for a person, or dials."""
    if asks:
        from . import asking
    asker = asking.Asker(made, job.argv, job.asking or Asking(), environment()) if asks else None
    # Whose proxy we dial through is not for the command's variables to say: whoever asks for a run may choose those.
    passage = _passage(made, environment(), asker)
    with contextlib.ExitStack() as stack:
        if asker:
            stack.enter_context(asker)
        if passage:
            stack.enter_context(passage)
        launched = stack.enter_context(start())
        if asker:
            asker.begin(launched)
        if passage:
            passage.open(launched)
        living = Living(made, launched, inherited, passage, job, asker)
        living.opened = stack.pop_all()
        return living


def _opened_and_pumped(made: Prepared, job: Job) -> tuple[tuple[Stream, ...], tuple[int, ...]]:
    """The files on 0 to 2 that the view shows, to be opened again in it; and what goes through a pipe instead."""
    if not job.streams and made.output is None:
        return (), job.pumped
    streams = tuple(stream for stream in job.streams if _shows(made, stream))
    hidden = [stream.fd for stream in job.streams if stream not in streams]
    counted: list[int] = []
    if made.output is not None and not job.capture:  # what does not pass us cannot be counted
        counted = [fd for fd in (1, 2) if not job.request.screen.mask >> fd & 1]
    return streams, tuple(sorted({*job.pumped, *hidden, *counted}))


def _passage(made: Prepared, environ: Mapping[str, str], asker: "Asker | None") -> "Passage | None":
    """The way through the gate, where the policy wants one."""
    if not made.has_passage:
        return None
    from .gates import Passage

    questions = -1 if asker is None or made.policy.network.is_strict else asker.gate_end.detach()
    return Passage(made.policy, made.host, made.request.ids, environ, made.agent, made.proxies, questions)


def _shows(made: Prepared, stream: Stream) -> bool:
    if made.policy.enforcement is Enforcement.OFF:
        return True
    allowed = policy.decide(made.judged(), Access.READ, stream.path).verdict is Verdict.ALLOW
    return allowed and plan.shows(made.policy, stream.path)
