"""Values as people and as machines read them. Every document says its schema and version."""

import base64
import json

import msgspec

from ..model import Decision, Denial, Gap, Host, Outcome, Plan, RingfenceError


def dump(document: object) -> str:
    """JSON, indented, its keys in the order given; a name that is not UTF-8 keeps its bytes as lone surrogates."""
    return json.dumps(msgspec.to_builtins(document, enc_hook=str, str_keys=True), indent=2)


def error_document(error: RingfenceError) -> str:
    return dump(
        {
            "schema": "ringfence/error@1",
            "code": error.code,
            "place": error.place,
            "what": error.what,
            "hint": error.hint,
        }
    )


def _captured(name: str, data: bytes | None) -> dict[str, str]:
    """Captured bytes: as text, and as base64 too where they are no text."""
    if data is None:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: data.decode("utf-8", "replace"), f"{name}Base64": base64.b64encode(data).decode()}


def outcome_document(outcome: Outcome) -> str:
    return dump(
        {
            "schema": "ringfence/outcome@1",
            "ending": outcome.ending,
            "exitCode": outcome.exit_code,
            "seconds": outcome.seconds,
            "inForce": outcome.in_force,
            "gaps": gap_values(outcome.gaps),
            "denials": outcome.denials,
            "notOurs": outcome.not_ours,
            "ignored": outcome.ignored,
            "planted": outcome.planted,
            "quarantined": outcome.quarantined,
            "signed": outcome.signed,
            "truncated": outcome.is_truncated,
            **_captured("stdout", outcome.stdout),
            **_captured("stderr", outcome.stderr),
        }
    )


def gap_values(gaps: tuple[Gap, ...]) -> list[dict[str, str]]:
    return [
        {"what": gap.what, "why": gap.why, "need": gap.need.value, "origin": str(gap.origin), "wayOut": gap.way_out}
        for gap in gaps
    ]


def plan_document(plan: Plan) -> str:
    steps = [{"kind": step.kind.word, "text": step.text} for step in plan.steps]
    return dump(
        {
            "schema": "ringfence/plan@1",
            "argv": plan.argv,
            "workspace": plan.workspace,
            "enforcement": plan.enforcement.value,
            "sound": plan.is_sound,
            "steps": steps,
            "gaps": gap_values(plan.gaps),
            "inForce": plan.in_force,
        }
    )


def doctor_document(host: Host, rows: list[tuple[bool, str, str]]) -> str:
    found = [{"ok": good, "what": what, "wayOut": "" if good else way_out} for good, what, way_out in rows]
    return dump({"schema": "ringfence/doctor@1", "host": host, "findings": found})


def decision_document(decision: Decision, access: str, path: str) -> str:
    rule, host = decision.rule, decision.host
    named = rule.path if rule else host.text or host.host if host else None
    origin = rule.origin if rule else host.origin if host else None
    return dump(
        {
            "schema": "ringfence/decision@1",
            "verdict": decision.verdict.word,
            "access": access,
            "target": path,
            "rule": named,
            "origin": str(origin) if origin else None,
            "grant": decision.grant,
            "reason": decision.reason,
        }
    )


MOST_LINES = 20


def explain(outcome: Outcome) -> list[str]:
    """What was refused, by which rule, and the smallest grant; and what failed, and not by us. A line each."""
    lines = [denial_line(denial) for denial in outcome.denials]
    lines += [f"ringfence: not ours: {cause.access} {cause.target}: {cause.reason}" for cause in outcome.not_ours]
    more = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + [f"ringfence: and {more} more; --json has them all"] * (more > 0)


def denial_line(denial: Denial) -> str:
    """One refusal."""
    how = "OBSERVED" if denial.observed else "INFERRED"
    who = f" by {denial.exe or 'a process'}" if denial.exe or denial.pid else ""
    who += f"[{denial.pid}]" if denial.pid else ""
    out = f"; allow it: ringfence run {denial.grant} …" if denial.grant else ""
    return f"ringfence: refused ({how}): {denial.access} {denial.target}{who}: {denial.reason}{out}"
