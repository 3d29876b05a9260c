"""Questions to the judge by the thousand: each policy is read, laid over the disk and kept, each answer is a lookup.

A question is one JSON object; docs/policy.md has its form. One that cannot be answered is answered by its error, and
the next goes on.
"""

import os
import time
from typing import Annotated, Literal

import msgspec

from . import enforce, policy
from .explain import expanded
from .keep import FRESH_SECONDS, Request, prepare
from .model import Access, Decision, Policy, RingfenceError, UsageError, Verdict

ACCESSES = {"read": Access.READ, "write": Access.WRITE, "run": Access.READ}  # what may be read may be executed
KEPT = 64
ANYWHERE = ("", "*")  # to who listens

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One access, as a line says it."""

    access: Literal["read", "write", "run", "connect", "bind"]
    target: str
    port: Port | None = None
    cwd: str = ""  # where a relative target starts; the request's when empty
    policy: msgspec.Raw = msgspec.Raw(b"")  # one more layer, as --policy would add it


_question = msgspec.json.Decoder(Question)


def reached(judged: Policy, question: Question) -> Decision:
    """The judge's answer about the network: of a host and its port, or of listening."""
    from .policy.hosts import HostError, canonical_host, joined, port_number, split_port

    host, said = split_port(question.target)
    if said and question.port and port_number(said) != question.port:
        raise UsageError("port", f"{question.target!r} names another one than {question.port}")
    if question.access == "connect":
        return policy.decide_target(judged, question.target, question.port or 0)
    port = (port_number(said) if said else question.port) or 0
    try:
        place = joined(host if host in ANYWHERE else canonical_host(host), port)
    except HostError as error:
        raise UsageError("target", f"{host!r} is not a host: {error}") from None
    if said and not port:
        raise UsageError("target", f"{said!r} is not a port")
    network = judged.network
    if network.open or network.local_binding:
        return Decision(Verdict.ALLOW, f"{place}: the run may listen")
    if port in network.forwards:
        return Decision(Verdict.ALLOW, f"{place}: --forward leads the host's port to the run's")
    grant = f"--forward {port}" if port else ""
    return Decision(Verdict.DENY, f"{place}: the run listens on a loopback of its own", grant=grant)


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
        if question.access not in ACCESSES:
            return reached(judged, question), question.target
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
