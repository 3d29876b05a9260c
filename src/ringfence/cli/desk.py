"""Questions for a person, as text: what is shown, and what is meant by what is typed.

One question at a time, or many as one list. Nothing here reads or writes.
"""

import contextlib
import os
import time
from collections import deque

import msgspec

from ..airlock.lines import Line
from ..approvals import SESSION_SECONDS
from ..model import UsageError
from ..model.grant import Answer, Grant, Operation
from ..policy.grants import rule_text
from ..policy.trust import at_home, home_of
from ..policy.words import plainly
from .options import printable

MANY = 5  # open at once, or asked in a minute: from there on they are gathered
GATHER_SECONDS = 1.0
MOST_LISTED = 50
SETTLE_SECONDS = 1.0  # what came in place of another is not granted by a key that was meant for that one
SCOPES = {"o": "once", "s": "session", "p": "project", "a": "always"}
WAYS = "[o]nce [s]ession [p]roject [a]lways [d]eny, [n]othing more in this run"
NEITHER = ("y", "yes", "no", "ok")  # what people type who have not read the ways
Key = tuple[str, str]  # a run, and the id of its question


class Question(msgspec.Struct):
    """One that is open."""

    run: str
    workspace: str
    line: Line
    at: float
    chosen: int = 0  # of the targets that would answer it
    is_proposed: bool = False  # by us, and not by the person
    named: str = ""  # a target that the person named

    @property
    def key(self) -> Key:
        return self.run, str(self.line["query_id"])

    @property
    def what(self) -> str:
        return str(self.line.get("path") or self.line.get("target") or "?")

    @property
    def choices(self) -> list[str]:
        found = self.line.get("choices")
        return [str(one) for one in found] if isinstance(found, list) and found else [self.what]

    @property
    def target(self) -> str:
        return self.named or self.choices[self.chosen]

    @property
    def title(self) -> str:
        process = self.line.get("process")
        who = process if isinstance(process, dict) else {}
        by = f", for {who['exe']}[{who.get('pid')}]" if who.get("exe") else ""
        return plainly(f"{self.line.get('operation')} {self.what}{by}")

    @property
    def wider(self) -> str:
        """What is stored by an answer for longer, where that is not what is asked for."""
        return "" if self.target == self.what else plainly(f"; kept as {self.target}")

    def rule(self, scope: str) -> str:
        """Exactly what would be stored."""
        answer, now = Answer(scope), int(time.time())
        grant = Grant(
            id="",
            operation=Operation(str(self.line["operation"])),
            target=self.target,
            answer=answer,
            workspace="" if answer is Answer.ALWAYS else self.workspace,
            made=now,
            until=now + SESSION_SECONDS if answer is Answer.SESSION else 0,
        )
        return plainly(rule_text(grant))


class Desk:
    """The open questions, and the one that is shown now."""

    def __init__(self, mark: str = "") -> None:
        self._mark = f" [{mark}]" if mark else ""
        self.open: dict[Key, Question] = {}
        self.shown: list[Key] = []  # one, or a list
        self._listed: list[Key] = []  # that list as it was shown
        self._said: set[Key] = set()  # what the person answered
        self._note = ""  # why what was typed last answered nothing
        self._changed = float("-inf")  # when a question went that the person had not answered
        self._near: dict[str, int] = {}  # how often something in a directory was asked for
        self._recent: deque[float] = deque(maxlen=MANY)

    def hear(self, run: str, workspace: str, line: Line) -> str:
        """A line of a run's: a question, or news. What of it is to be told to the person who is asked just now."""
        state, key = line.get("state"), (run, str(line.get("query_id")))
        if state == "query":
            question = Question(run, workspace, line, time.monotonic())
            above = os.path.dirname(question.what)
            self._near[above] = self._near.get(above, 0) + 1
            if self._near[above] > 3 and above in question.choices:  # one after the other: the directory, then
                question.chosen, question.is_proposed = question.choices.index(above), True
            self.open[key] = question
            return ""
        if state == "refused":
            return printable(f"  not granted: {line.get('why')}")
        if state not in ("answered", "withdrawn") or self.open.pop(key, None) is None or key not in self.shown:
            return ""
        self.shown.remove(key)
        is_ours = key in self._said
        self._said.discard(key)
        if self.shown:  # the rest of a list
            return ""
        self._changed = self._changed if is_ours else time.monotonic()
        if state == "withdrawn":
            return "  nobody waits for it any more"
        return printable(f"  {line.get('action')} ({line.get('by')})")

    def wait(self) -> float:
        """How long to wait before the next is shown, so that others come with it."""
        now = time.monotonic()
        if len(self._recent) < MANY or now - self._recent[0] > 60 or len(self.open) > MANY:
            return 0.0
        first = min((question.at for question in self.open.values()), default=now)
        return max(0.0, first + GATHER_SECONDS - now)

    def show(self) -> str:
        """Choose what is shown, and show it."""
        if not self.shown:
            self.shown = [*self.open] if len(self.open) > MANY else [*self.open][:1]
            self._recent.append(time.monotonic())
        self._listed = [*self.shown] if len(self.shown) > 1 else []
        note, self._note = self._note, ""
        return note + (self._list() if self._listed else self._one(self.open[self.shown[0]]))

    def _one(self, question: Question) -> str:
        rest = len(self.open) - 1
        more = f" ({rest} more wait)" if rest else ""
        rows = [f"ringfence asks{self._mark}: {question.title}{more}"]
        rows += [f"  {letter}: {question.rule(scope)}" for letter, scope in SCOPES.items() if scope != "once"]
        ways = f"{WAYS}" + ", [+] wider, [-] narrower" * (len(question.choices) > 1)
        return "\n".join([*rows, f"  {ways}, or another target: "])

    def _list(self) -> str:
        rows = [f"ringfence asks{self._mark}: {len(self.shown)} questions"]
        for number, key in enumerate(self.shown[:MOST_LISTED], 1):
            rows.append(f"  {number:3} {self.open[key].title}{self.open[key].wider}")
        if len(self.shown) > MOST_LISTED:
            rows.append(f"  and {len(self.shown) - MOST_LISTED} more, which are asked about after these")
        return "\n".join([*rows, f"  {WAYS} each of them, or the number of one: "])

    def typed(self, text: str) -> list[tuple[str, Line]]:
        """The answers that somebody typed, each with its run; none: show it again."""
        word = text.strip()
        if self._listed and word.isascii() and word.isdigit() and 0 < int(word) <= len(self._listed):
            chosen = self._listed[int(word) - 1]  # as the person sees them, whatever was answered elsewhere meanwhile
            self.shown = [chosen] if chosen in self.open else self.shown
            return []
        if word[:1].lower() == "d" and word.lower() in ("d", "deny"):
            return [self._line(key, "deny") for key in self.shown]
        if word.lower() in ("n", "nothing"):
            return [self._line(key, "deny", "run") for key in self.shown]
        scope = SCOPES.get(word[:1].lower())
        if scope and word.lower() in (scope[0], scope):
            if time.monotonic() - self._changed < SETTLE_SECONDS:
                return []
            seen = self._listed[:MOST_LISTED] or self.shown  # whatever went from the list since: nothing unseen
            return [self._line(key, "allow", scope) for key in seen if key in self.shown]
        if word.lower() in NEITHER:
            self._note = "  a yes is o, s, p or a, by how long it is to hold; a no is d\n"
        elif len(self.shown) == 1 and word:
            question = self.open[self.shown[0]]
            if word in ("+", "-"):
                question.named, question.is_proposed = "", False
                question.chosen = min(max(0, question.chosen + (1 if word == "+" else -1)), len(question.choices) - 1)
            elif word.startswith(("/", "~")) or question.line.get("kind") == "network":
                with contextlib.suppress(UsageError):  # of another, or of nobody: asked again
                    question.named = at_home(word, home_of(os.environ))
            else:
                self._note = "  another target begins with / or ~\n"
        return []

    def _line(self, key: Key, action: str, scope: str = "once") -> tuple[str, Line]:
        question = self.open[key]
        self._said.add(key)
        line: Line = {"query_id": key[1], "action": action, "scope": scope}
        is_other = scope != "once" or question.named or (question.chosen and not question.is_proposed)
        return key[0], line | ({"target": question.target} if action == "allow" and is_other else {})
