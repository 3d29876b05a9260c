"""`ringfence plan`: every step and every gap, before anything runs."""

import os

import msgspec

from ..model import Enforcement
from ..run import make_request, plan_for
from .options import ASK, LIMITS, OUTPUT, POLICY, WORKSPACE, flags_of, one, parse, printable, render_help

TABLE = (*WORKSPACE, *POLICY, *LIMITS, ASK, *OUTPUT)
EXAMPLES = ("ringfence plan -- npm test", "ringfence plan --json -- make | jq '.gaps'")
ABOUT = "Shows what would be done. The exit code is 0 when it would be launched, and 125 when it would be refused."


def main(words: list[str]) -> int:
    """Show the plan; the exit code says whether it would be launched."""
    values, argv = parse(words, TABLE)
    if "--help" in values:
        print(render_help("plan [options] -- COMMAND [ARGUMENT...]", ABOUT, TABLE, EXAMPLES))
        return 0
    request = make_request(one(values, "--workspace"), os.getcwd(), flags_of(values), "--as-root" in values)
    plan = plan_for(msgspec.structs.replace(request, siblings=True), argv, os.environ)  # as `run` does
    if "--json" in values:
        from .render import plan_document

        print(plan_document(plan))
    else:
        print(printable(*plan.lines(), "", "in force:", *(f"  {line}" for line in plan.in_force)))
    return 125 if plan.enforcement is Enforcement.REQUIRED and not plan.is_sound else 0
