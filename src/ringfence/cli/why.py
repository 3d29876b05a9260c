"""`ringfence why`: the judge's answer for one path or host, with the line and the smallest grant; or for many."""

import os
import sys
from typing import TYPE_CHECKING

from ..explain import why, why_connect
from ..model import UsageError, Verdict
from ..policy.hosts import port_number, split_port
from ..policy.words import nearest
from ..run import make_request
from ..where import find_program
from .options import OUTPUT, POLICY, WORKSPACE, Option, flags_of, one, parse_around, printable, render_help

if TYPE_CHECKING:
    from ..why import Desk

TABLE = (
    *WORKSPACE,
    *POLICY,
    Option("--jsonl", "", "many questions: a JSON object on each line of standard input, and so each answer"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence why read ~/.ssh/id_rsa",
    "ringfence why write ../other --json",
    "ringfence why run npm",
    "ringfence why connect github.com:22",
    """echo '{"access": "write", "target": "src/x"}' | ringfence why --jsonl""",
)
ACCESSES = ("read", "write", "run", "connect")


def main(words: list[str]) -> int:
    """Answer; the exit code is 0 when it is allowed and 1 when not."""
    values, rest = parse_around(words, TABLE)
    if "--help" in values:
        about = "Says why a path may be used or a host be reached, or not. Without a port, 443.\n"
        about += "The exit code is 0 when it is allowed, and 1 otherwise; with --jsonl 0 when every line was answered."
        print(render_help("why read|write|run PATH | connect HOST[:PORT] [options]", about, TABLE, EXAMPLES))
        return 0
    many = "--jsonl" in values
    if many and rest:
        raise UsageError("--jsonl", "takes its questions from standard input, and no path", hint=EXAMPLES[-1])
    if not many:
        _check(rest)
    request = make_request(one(values, "--workspace"), os.getcwd(), flags_of(values), as_root=True)
    if many:
        from ..why import Desk

        return answer_all(Desk(request))
    target = _program(rest[1]) if rest[0] == "run" else rest[1]
    decision, path = why_connect(request, target) if rest[0] == "connect" else why(request, rest[0], target)
    if "--json" in values:
        from .render import decision_document

        print(decision_document(decision, rest[0], path))
    else:
        print(printable(f"{decision.verdict.word}: {rest[0]} {path}: {decision.reason}"))
        if decision.grant:
            later = "" if rest[0] == "connect" or os.path.lexists(path) else " (it has to be there first)"
            print(printable(f"  to change it: {decision.grant}{later}"))
    return 0 if decision.verdict is Verdict.ALLOW else 1


def _check(words: list[str]) -> None:
    """An access, and what it is asked of."""
    if len(words) != 2 or words[0] not in ACCESSES or not words[1]:
        what = f"needs one of {', '.join(ACCESSES)}, and a path or host"
        unknown = words and words[0] not in ACCESSES
        raise UsageError("why", what, hint=nearest(words[0], ACCESSES, EXAMPLES[0]) if unknown else EXAMPLES[0])
    port = split_port(words[1])[1] if words[0] == "connect" else ""
    if words[0] == "connect" and ("/" in words[1] or (port and not port_number(port))):
        raise UsageError("why", f"{words[1]!r} is not a host, or a host and its port", hint=EXAMPLES[3])


def _program(name: str) -> str:
    """What a shell would start by this word: a bare name is looked for in PATH."""
    found = find_program(name, os.environ.get("PATH", os.defpath), os.getcwd())
    if "/" in name or os.path.exists(found):
        return name if "/" in name else found
    if not os.path.lexists(name):
        what = f"no directory of PATH has a program {name!r}"
        raise UsageError("why", what, hint=f"a file of this directory: ./{name}")
    return name


def answer_all(desk: "Desk") -> int:
    """An answer for each line, at once: whoever asks may wait for it before the next. 1 when one was an error."""
    code = 0
    for line in sys.stdin.buffer:
        answer = desk.answer(line)
        code = 1 if answer.startswith(b'{"error"') else code
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
    return code
