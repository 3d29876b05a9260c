"""`ringfence why`: the judge's answer for one path, with the line that gives it and the smallest grant."""

import os

from ..model import UsageError, Verdict
from ..run import make_request, why
from .options import OUTPUT, POLICY, WORKSPACE, flags_of, one, parse, printable, render_help

TABLE = (*WORKSPACE, *POLICY, *OUTPUT)
EXAMPLES = ("ringfence why read ~/.ssh/id_rsa", "ringfence why write ../other --json")


def main(words: list[str]) -> int:
    """Answer; the exit code is 0 when it is allowed and 1 when not."""
    values, rest = parse(words, TABLE)
    if "--help" not in values and rest:
        more, tail = parse(rest[2:], TABLE)
        values, rest = values | more, rest[:2] + tail
    if "--help" in values:
        print(render_help("why read|write PATH [options]", "Says why a path may be used, or not.", TABLE, EXAMPLES))
        return 0
    if len(rest) != 2 or rest[0] not in ("read", "write"):
        raise UsageError("why", "needs an access and a path", hint="ringfence why read ~/.ssh/id_rsa")
    request = make_request(one(values, "--workspace"), os.getcwd(), flags_of(values), "--as-root" in values)
    decision, path = why(request, rest[0], rest[1])
    if "--json" in values:
        from .render import decision_document

        print(decision_document(decision, rest[0], path))
    else:
        print(printable(f"{decision.verdict.word}: {rest[0]} {path}: {decision.reason}"))
        if decision.grant:
            print(printable(f"  to change it: {decision.grant}"))
    return 0 if decision.verdict is Verdict.ALLOW else 1
