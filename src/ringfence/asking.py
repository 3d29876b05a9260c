"""Joins calls that wait, the judge, and whoever answers: one thread for each run that asks.

The warden tells of a call that was refused, the gate of a host. Here it is judged by the one judge with what was
granted meanwhile, and asked about where a person may grant it: everybody who is connected gets the question as a line,
and the first answer counts. docs/asking.md has the lines, docs/decisions/0015-asking.md the reasons.
"""

import _thread
import errno
import math
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from . import approvals
from .airlock import lines
from .airlock.lines import Door, Line, Lines
from .airlock.lines import Waiting as Waiting
from .enforce import modes
from .enforce.pauses import Call, Inquiry, Pauses
from .enforce.supervise import DAY
from .inquiry import (
    EXACTLY,
    File,
    Host,
    Need,
    Waiter,
    as_line,
    decide,
    exactly,
    meant,
    shown,
    understood,
    with_grants,
)
from .model import Asking, Decision, Denial, Outcome, PolicyError, UsageError, Verdict
from .model.event import written
from .model.grant import Grant, Operation
from .network.control import Wish
from .onward import Onward
from .policy.grants import refusal, rule_text
from .policy.trust import approvals_of, asking_of

if TYPE_CHECKING:
    from .enforce import Launch
    from .keep import Prepared

MOST_OPEN, MOST_TOLD = 256, 1000
MINUTE = 60.0


class _Question:
    """One question, and everybody who waits for its answer."""

    def __init__(self, number: str, need: Need, until: float, line: Line) -> None:
        self.number, self.need, self.until, self.line = number, need, until, line
        self.waiters: list[Waiter] = []


def is_over(grant: Grant, until: float) -> bool:
    """Whether one has ended that was to last until then: by the clock of whoever stored it, too, for ours stands still
    while the machine sleeps."""
    return until <= time.monotonic() or 0 < grant.until <= time.time()


class Asker:
    """Asks for one run."""

    def __init__(self, made: "Prepared", argv: Sequence[str], asking: Asking, environ: Mapping[str, str]) -> None:
        if made.request.ids:
            raise UsageError("--ask", "root asks nobody for a run of another owner's", hint="run it as that user")
        self._workspace, self._environ, self._seconds = made.policy.workspace, dict(environ), asking.seconds
        self._asked = asking
        self._base = self._policy = made.judged()
        self._who = modes.person(made.request.ids)
        self._onward = Onward(made)
        self._homes = (made.request.home,)
        self._places = approvals.places_of(environ)
        self._open: dict[str, _Question] = {}
        self._keys: dict[tuple[str, str], _Question] = {}
        self._denied: set[tuple[str, str]] = set()
        self._refused: set[tuple[Call, int, bytes, bytes]] = set()  # calls as they were spelled
        self._last = 0
        self._is_closed = False  # nothing is asked any more
        self._unsaved: list[Grant] = []
        self._kept: list[tuple[Grant, float]] = []  # what holds for the rest of the run, or until then
        self._denials: dict[str, Denial] = {}
        self._granted: set[tuple[str, str]] = set()  # accesses and targets
        self._notes: list[str] = []
        self._clients: list[Lines] = []
        self._wake, self._woken = socket.socketpair()
        self.gate_end = self._onward.gate_end
        self._watched: dict[int, Callable[[], None]] = {self._woken.fileno(): self._ignore}
        self._watched[self._onward.gate.fileno()] = self._hear_gate
        self._poller = select.poll()
        for fd in self._watched:
            self._poller.register(fd, select.POLLIN)
        run = os.urandom(6).hex()
        self._hello: Line = {"state": "hello", "schema": lines.SCHEMA, "run": run, "workspace": self._workspace}
        self._hello |= {"command": [*argv], "pid": os.getpid()}
        self._door: Door | None = None
        directory = asking_of(environ)
        if directory:
            self._door = Door(directory, run)
            self._watch(self._door.fileno(), self._come)
        self._over, self._prompted = _thread.allocate_lock(), _thread.allocate_lock()
        if asking.fd >= 0:
            self.add(socket.socket(fileno=os.dup(asking.fd)), "fd")

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
        self.gate_end.close()  # where no gate has it

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome of the run, which is over: without what was granted after all, and with what was not."""
        self._finish()
        seen = [one for one in outcome.denials if (one.access, one.target) not in self._granted]
        known = {one.target for one in seen}
        denials = (*seen, *(one for one in self._denials.values() if one.target not in known))
        return msgspec.structs.replace(outcome, denials=denials, ignored=(*outcome.ignored, *self._notes))

    def begin(self, launched: "Launch") -> None:
        """From here on everything happens in a thread of its own, and the prompt in another."""
        launched.on_paused = self.take
        if self._asked.prompt is not None:
            ours, theirs = socket.socketpair()
            self.add(ours, "terminal")
            self._prompted.acquire()
            _thread.start_new_thread(self._prompt, (theirs, launched))
        self._over.acquire()
        _thread.start_new_thread(self._loop, ())

    def _prompt(self, end: socket.socket, launched: "Launch") -> None:
        assert self._asked.prompt is not None
        try:
            with end:
                self._asked.prompt(end, launched)
        finally:
            self._prompted.release()

    def add(self, sock: socket.socket, by: str) -> None:
        """Somebody more who is asked."""
        client = Lines(sock, by)
        self._clients.append(client)
        self._watch(client.fileno(), lambda: self._hear(client))
        if by != "fd":
            client.send({**self._hello, "open": len(self._open)})
        for one in self._open.values():
            client.send(one.line)

    def take(self, fd: int) -> None:
        """The warden's socket. Called from another thread."""
        self._onward.warden = Pauses(fd)
        self._watch(fd, self._hear_warden)
        self._wake.send(b"\0")

    def _finish(self) -> None:
        """The run is over: refuse whoever still waits, store what was granted, and let everybody go."""
        self._wake.close()
        with self._over:
            pass
        for end in (*self._clients, self._woken, self._door, self._onward):
            if end is not None:
                end.close()
        self._clients = []
        with self._prompted:
            pass

    # ---- The loop ----

    def _watch(self, fd: int, act: Callable[[], None]) -> None:
        self._watched[fd] = act
        self._poller.register(fd, select.POLLIN)

    def _leave(self, fd: int) -> None:
        del self._watched[fd]
        self._poller.unregister(fd)

    def _ignore(self) -> None:
        if not self._woken.recv(64):
            self._is_closed = True
            self._leave(self._woken.fileno())

    def _loop(self) -> None:
        try:
            while self._woken.fileno() in self._watched:
                ready = self._poller.poll(self._left())
                self._lapse()
                for fd, _ in sorted(ready, key=self._rank):  # answers before questions
                    if fd in self._watched:
                        self._watched[fd]()
                self._expire()
                if self._unsaved and not self._poller.poll(0):  # who waits goes on first
                    self._save()
            for question in list(self._open.values()):
                self._withdraw(question)
        finally:
            try:
                self._save()  # whatever went wrong: what was granted has been used
            finally:
                self._onward.close()
                self._over.release()

    def _rank(self, ready: tuple[int, int]) -> bool:
        return self._onward.warden is not None and ready[0] == self._onward.warden.fileno()

    def _left(self) -> float | None:
        times = [*(question.until for question in self._open.values()), *(until for _, until in self._kept)]
        until = min(times, default=math.inf)
        most = MINUTE if any(until < math.inf for _, until in self._kept) else DAY  # the machine may sleep meanwhile
        return None if until == math.inf else min(max(0.0, until - time.monotonic()), most) * 1000 + 1

    def _lapse(self) -> None:
        """A grant ends when it was said to, also in a run that goes on."""
        over = [grant for grant, until in self._kept if is_over(grant, until)]
        if over:
            self._kept = [(grant, until) for grant, until in self._kept if grant not in over]
            self._policy = with_grants(self._base, [grant for grant, _ in self._kept])
            if any(grant.operation is Operation.CONNECT for grant in over):
                self._onward.widen(self._policy)

    def _expire(self) -> None:
        now = time.monotonic()
        for question in [question for question in self._open.values() if question.until <= now]:
            self._deny(question, "deadline")

    def _save(self) -> None:
        given, self._unsaved = self._unsaved, []
        if not given:
            return
        from . import record
        from .airlock import Store

        kept = [grant for grant in given if grant.answer.is_kept]
        try:
            if kept:
                Store(approvals_of(self._environ)).add(kept)
        except (PolicyError, OSError) as error:
            self._notes.append(f"granted for this run alone, and not stored: {error}")
        said = [f"{rule_text(grant)} (grant {grant.id})" for grant in kept]
        said += [f"{grant.operation.value} {grant.target}, once" for grant in given if grant not in kept]
        why = record.approved(self._workspace, said)
        self._notes += [f"audit log: not written: {why}"] * bool(why)

    # ---- Who asks ----

    def _hear_warden(self) -> None:
        warden = self._onward.warden
        assert warden is not None
        try:
            inquiry = warden.receive()
        except BlockingIOError:
            return
        if inquiry is None:
            self._leave(warden.fileno())
            for question in list(self._open.values()):  # with the warden all of the run is gone
                self._withdraw(question)
        elif inquiry.call is Call.GONE:
            self._is_gone(inquiry.id)
        else:
            self._inquire(warden, inquiry)

    def _is_gone(self, number: int) -> None:
        for question in list(self._open.values()):
            self._forget(question, lambda waiter: isinstance(waiter, File) and waiter.inquiry.id == number)

    def _inquire(self, warden: Pauses, inquiry: Inquiry) -> None:
        spelled = inquiry.call, inquiry.flags, inquiry.path, inquiry.other
        if spelled in self._refused:
            warden.refuse(inquiry)
            return
        try:
            waiter = understood(self._base, self._who, inquiry, self._onward.is_hosts)
        except (OSError, ValueError) as error:  # a path that changes meanwhile, or is none; a directory that moves
            warden.refuse(inquiry, errno.EXDEV if getattr(error, "errno", 0) == errno.EXDEV else 0)
            return
        if waiter is None:
            warden.refuse(inquiry)
        else:
            self._advance(waiter)

    def _hear_gate(self) -> None:
        data = self._onward.gate.recv(1 << 16)
        if not data:
            self._leave(self._onward.gate.fileno())
            for question in list(self._open.values()):
                self._forget(question, lambda waiter: isinstance(waiter, Host))
            return
        self._advance(Host(msgspec.json.decode(data, type=Wish)))

    # ---- What is said ----

    def _advance(self, waiter: Waiter) -> None:
        """Let a waiter go on, refuse it, or have it wait for the answer to what it needs first."""
        wider = [grant for grant in waiter.once if grant.id != EXACTLY]
        judged = with_grants(self._policy, wider if isinstance(waiter, File) else waiter.once)
        given = {(grant.operation.value, grant.target) for grant in waiter.once}
        said = [(decide(judged, need), need) for need in waiter.needs if (need[0].kind, need[1]) not in given]
        asked = [(decision, need) for decision, need in said if decision.verdict is not Verdict.ALLOW]
        if not asked:
            self._onward.let(waiter, judged)
        elif any(decision.verdict is Verdict.DENY for decision, _ in asked):
            self._refuse(waiter, asked[0])
        else:
            self._put(waiter, *asked[0])

    def _put(self, waiter: Waiter, decision: Decision, need: Need) -> None:
        operation, target = need
        key = (operation.kind, target)
        question = self._keys.get(key)
        if question is None:
            if (
                self._is_closed
                or key in self._denied
                or len(self._open) >= MOST_OPEN
                or refusal(exactly(need), *self._places)
            ):
                self._refuse(waiter, (decision, need))
                return
            self._last += 1
            number = str(self._last)
            line = as_line(decision, need, waiter, self._workspace, self._homes)
            line |= {"query_id": number, "deadline": self._seconds}
            if len(written(line)) > lines.LONGEST:  # nobody who is asked would read it, nor what is asked later
                self._refuse(waiter, (decision, need))
                return
            question = _Question(number, need, time.monotonic() + self._seconds, line)
            self._open[number] = self._keys[key] = question
            self._tell(line)
        question.waiters.append(waiter)

    # ---- Who answers ----

    def _come(self) -> None:
        assert self._door is not None
        client = self._door.accept()
        if client is None:
            return
        try:
            self.add(client.socket, client.by)
        except OSError:
            self._drop(client)

    def _hear(self, client: Lines) -> None:
        said = client.read()
        if said is None:
            self._drop(client)
            return
        for line in said:
            number = line.get("query_id")
            question = self._open.get(number) if isinstance(number, str) else None
            if question is not None:
                self._answer(client, question, line)

    def _drop(self, client: Lines) -> None:
        for known in [known for known in self._clients if known.fileno() == client.fileno()]:
            self._clients.remove(known)
            self._leave(known.fileno())
            known.close()
        if client.by == "fd":
            self._is_closed = True
            for question in list(self._open.values()):
                self._deny(question, "fd")

    def _tell(self, line: Line) -> None:
        for client in list(self._clients):
            try:
                client.send(line)
            except OSError:
                self._drop(client)

    def _answer(self, client: Lines, question: _Question, line: Line) -> None:
        if line.get("action") != "allow":
            self._is_closed |= line.get("scope") == "run"
            self._deny(question, client.by)
            return
        try:
            grant = self._meant(question, line)
        except (PolicyError, ValueError) as error:
            try:
                client.send({"state": "refused", "query_id": question.number, "why": str(error)})
            except OSError:  # it is gone already
                self._drop(client)
            return
        self._allow(question, grant, client.by)

    def _meant(self, question: _Question, line: Line) -> Grant:
        """The grant that an answer means; PolicyError or ValueError says why there is none."""
        need, offered = question.need, question.line["choices"][0]  # type: ignore[index]
        grant = meant(need, line, offered, self._workspace, self._homes, self._environ)
        if grant.id != EXACTLY and decide(with_grants(self._policy, [grant]), need).verdict is not Verdict.ALLOW:
            raise ValueError(f"{grant.target} does not cover {need[1]}")
        return grant

    def _allow(self, question: _Question, grant: Grant, by: str) -> None:
        self._end(question)
        self._unsaved.append(grant)
        self._granted.add((question.need[0].kind, question.need[1]))
        news: Line = {"state": "answered", "query_id": question.number, "action": "allow", "scope": grant.answer.value}
        news |= {"by": by, "target": shown(grant.target)}
        if grant.answer.is_kept:
            self._refused.clear()
            news["grant"] = grant.id
            seconds = grant.until - grant.made if grant.until else math.inf
            self._kept.append((grant, time.monotonic() + seconds))
            self._policy = with_grants(self._policy, [grant])
            if grant.operation is Operation.CONNECT:
                self._onward.widen(self._policy)
        for waiter in question.waiters:
            waiter.once += [] if grant.answer.is_kept else [grant]
            self._advance(waiter)
        self._tell(news)
        for other in list(self._open.values()) if grant.answer.is_kept else ():
            if other.need[0].kind == grant.operation.kind and self._covers(grant, other.need):
                self._end(other)
                self._granted.add((other.need[0].kind, other.need[1]))
                for waiter in other.waiters:
                    self._advance(waiter)
                self._tell({**news, "query_id": other.number, "by": "grant"})

    def _covers(self, grant: Grant, need: Need) -> bool:
        is_near = grant.operation is Operation.CONNECT or need[1].startswith(grant.target)
        return is_near and decide(self._policy, need).verdict is Verdict.ALLOW

    def _deny(self, question: _Question, by: str) -> None:
        self._end(question)
        self._denied.add((question.need[0].kind, question.need[1]))
        decision = decide(self._policy, question.need)
        for waiter in question.waiters:
            self._refuse(waiter, (decision, question.need))
        self._tell({"state": "answered", "query_id": question.number, "action": "deny", "by": by})

    def _withdraw(self, question: _Question) -> None:
        self._end(question)
        for waiter in question.waiters:
            self._refuse(waiter, None)
        self._tell({"state": "withdrawn", "query_id": question.number})

    def _forget(self, question: _Question, is_gone: Callable[[Waiter], bool]) -> None:
        """Some of those who waited are gone; a question for nobody is none."""
        question.waiters = [waiter for waiter in question.waiters if not is_gone(waiter)]
        if not question.waiters:
            self._end(question)
            self._tell({"state": "withdrawn", "query_id": question.number})

    def _end(self, question: _Question) -> None:
        del self._open[question.number]
        del self._keys[question.need[0].kind, question.need[1]]

    def _refuse(self, waiter: Waiter, why: tuple[Decision, Need] | None) -> None:
        """Refused, and told of at the end where it is known why; what a person said no to is not asked about again."""
        if why is not None:
            self._denial(waiter, *why)
            is_denied = (why[1][0].kind, why[1][1]) in self._denied and len(self._refused) < MOST_TOLD
            if isinstance(waiter, File) and is_denied:
                inquiry = waiter.inquiry
                self._refused.add((inquiry.call, inquiry.flags, inquiry.path, inquiry.other))
        self._onward.refuse(waiter)

    def _denial(self, waiter: Waiter, decision: Decision, need: Need) -> None:
        operation, target = need
        if isinstance(waiter, Host) or target in self._denials or len(self._denials) >= MOST_TOLD:
            return  # the gate tells itself
        origin = str(decision.rule.origin) if decision.rule else ""
        inquiry = waiter.inquiry
        found = Denial(operation.kind, target, decision.reason, decision.grant, True, origin)
        self._denials[target] = msgspec.structs.replace(found, pid=inquiry.pid, exe=os.fsdecode(inquiry.exe))


# ---- For whoever answers from another process ----


def waiting(environ: Mapping[str, str] | None = None) -> list[Waiting]:
    """The runs of this user that ask or may, with their open questions."""
    return lines.waiting(asking_of(os.environ if environ is None else environ))


def answer(
    run: str, query_id: str, action: str, *, environ: Mapping[str, str] | None = None, **more: str | int
) -> Line:
    """Answer a question of a run, with a scope, a target or seconds; the line that says what became of it."""
    line: Line = {"query_id": query_id, "action": action, **more}
    return lines.answer(asking_of(os.environ if environ is None else environ), run, line)
