"""Questions to the judge by the thousand: each policy is read, laid over the disk and kept, each answer is a lookup.

A question is one JSON object; docs/policy.md has its form. One that cannot be answered is answered by its error, and
the next goes on.
"""

import os
import time
from typing import Annotated, Literal

import msgspec

from . import enforce, policy
from .explain import expanded, reached
from .keep import FRESH_SECONDS, Request, prepare
from .model import Access, Decision, Policy, RingfenceError, UsageError, Verdict

ACCESSES = {"read": Access.READ, "write": Access.WRITE, "run": Access.READ}  # what may be read may be executed
KEPT = 64

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One access, as a line says it."""

    access: Literal["read", "write", "run", "connect", "bind"]
    target: str
    port: Port | None = None
    cwd: str = ""  # where a relative target starts; the request's when empty
    policy: msgspec.Raw = msgspec.Raw(b"")  # one more layer, as --policy would add it


_question = msgspec.json.Decoder(Question)


def _listening(judged: Policy, question: Question) -> Decision:
    """The judge's answer about listening, which is allowed or denied as a whole."""
    place = question.target if question.port is None else f"{question.target}:{question.port}"
    if judged.network.open or judged.network.local_binding:
        return Decision(Verdict.ALLOW, f"{place}: the run may listen")
    return Decision(Verdict.DENY, f"{place}: the run listens on a loopback of its own", grant="--forward PORT")


def _said(decision: Decision) -> bytes:
    """A decision as a line."""
    rule, host = decision.rule, decision.host
    spoken = rule or host
    return msgspec.json.encode(
        {
            "verdict": decision.verdict.word,
            "rule": _text(rule.path if rule else host.text if host else None),
            "origin": _text(str(spoken.origin) if spoken else None),
            "grant": _text(decision.grant),
            "reason": _text(decision.reason),
        }
    )


def _text(text: str | None) -> str | None:
    """With names that are no characters spelled out: JSON has none such."""
    return text and text.encode("utf-8", "backslashreplace").decode()


class Desk:
    """Where questions are answered: one workspace, one set of flags, and the policies that lines bring along."""

    def __init__(self, request: Request) -> None:
        self.request = request
        # By the policy's text: until when it may be relied on, and what came of it.
        self._judged: dict[bytes, tuple[float, Policy | RingfenceError]] = {}

    def judged(self, inline: bytes) -> Policy:
        """The policy with one more layer; looked at again after some seconds, for the disk changes."""
        until, found = self._judged.get(inline, (0.0, None))
        if found is None or time.monotonic() >= until:
            found = self._look(inline)
            if len(self._judged) >= KEPT:
                self._judged.clear()
            self._judged[inline] = time.monotonic() + FRESH_SECONDS, found
        if isinstance(found, RingfenceError):
            raise found
        return found

    def _look(self, inline: bytes) -> Policy | RingfenceError:
        request = self.request
        if inline:
            flags = msgspec.structs.replace(request.flags, inline=(*request.flags.inline, inline))
            request = msgspec.structs.replace(request, flags=flags)
        try:
            return prepare(request).judged()
        except RingfenceError as error:
            return error

    def decide(self, question: Question) -> tuple[Decision, str]:
        """The answer, and the path it was asked about."""
        judged = self.judged(bytes(question.policy))
        if question.access == "bind":
            return _listening(judged, question), question.target
        if question.access == "connect":
            return reached(judged, question.target, question.port), question.target
        if not question.target or "\0" in question.target:
            raise UsageError("target", "names no path")
        cwd = question.cwd or self.request.cwd
        if not cwd.startswith("/"):
            raise UsageError("cwd", f"{cwd!r} is not an absolute path")
        real = enforce.canonical(os.path.join(cwd, expanded(self.request, question.target)))
        return policy.decide(judged, ACCESSES[question.access], real), real

    def answer(self, line: bytes) -> bytes:
        """The answer to one line, as a line. Whatever goes wrong with it is its answer, and never a yes."""
        try:
            return _said(self.decide(_question.decode(line))[0])
        except (RingfenceError, OSError, ValueError) as error:  # msgspec's own are ValueErrors
            return msgspec.json.encode({"error": _text(str(error))})
        except Exception as error:  # noqa: BLE001  # such as a depth that nobody has
            return msgspec.json.encode({"error": _text(f"it could not be judged: {error!r}")})
