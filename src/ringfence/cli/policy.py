"""`ringfence policy`: check the files, show what they come to, print their schema."""

import os

from ..keep import load_policy, prepare
from ..model import UsageError
from ..policy import quoted
from ..policy.describe import as_document, as_text, schema
from ..run import make_request
from .options import OUTPUT, POLICY, WORKSPACE, Option, flags_of, give, one, parse_around, render_help, say

TABLE = (*WORKSPACE, *POLICY, Option("--origin", "", "show: with the file and line of every rule"), *OUTPUT)
EXAMPLES = ("ringfence policy check", "ringfence policy show --origin", "ringfence policy schema > policy.schema.json")


def main(words: list[str]) -> int:
    """check, show or schema."""
    values, rest = parse_around(words, TABLE)
    if "--help" in values:
        print(render_help("policy check|show|schema [options]", "Checks and shows the policy.", TABLE, EXAMPLES))
        return 0
    if rest[:1] == ["check"] and len(rest) > 1:
        raise UsageError(rest[1], "is one word too many", hint=f"ringfence policy check --policy {quoted(rest[1])}")
    if rest not in (["check"], ["show"], ["schema"]):
        raise UsageError("policy", "needs one of: check, show, schema", hint="ringfence policy show --origin")
    from .render import dump, gap_values

    if rest == ["schema"]:
        print(dump(schema()))
        return 0
    request = make_request(one(values, "--workspace"), os.getcwd(), flags_of(values), as_root=True)
    found = load_policy(request)
    if rest == ["check"]:
        files = list(found.sources)
        lines = [f"ok: {len(found.rules)} rules from {', '.join(files) or 'the built-in policy'}"]
        document = {"schema": "ringfence/policy-check@1", "valid": True, "files": files, "ignored": list(found.ignored)}
    else:
        gaps = prepare(request).walls.gaps
        described = as_text(found, origin="--origin" in values).split("\n")
        lines = [*described, *(f"remark       {gap.describe()}" for gap in gaps)]
        document = {"schema": "ringfence/policy@1", **as_document(found), "remarks": gap_values(gaps)}
    give(values, document, *lines)
    for sentence in found.ignored:
        say(f"ringfence: {sentence}")
    return 0
