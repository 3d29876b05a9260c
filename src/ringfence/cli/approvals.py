"""`ringfence approvals`: say yes to one thing more, see what was said, and take it back."""

import os
import sys

import msgspec

from .. import approvals, record
from ..airlock import Store
from ..model import PolicyError, UsageError, Verdict
from ..model.grant import Answer, Grant, Operation
from ..policy.grants import ending, rule_text, target_of
from ..policy.limits import read_amount
from ..policy.names import HOST
from ..policy.trust import approvals_of, at_home, home_of
from ..policy.words import nearest
from ..where import find_workspace
from .options import OUTPUT, WORKSPACE, Option, Values, give, one, parse_around, render_help, say

TABLE = (
    WORKSPACE[0],
    Option("--scope", "WHERE", "grant: session (this workspace, 12 hours), project (this workspace; default), always"),
    Option("--for", "TIME", "grant: how long: 30m, 8h"),
    Option("--reason", "TEXT", "grant: why, for whoever reads it later"),
    Option("--yes", "", "grant: store it without asking back"),
    Option("--dry-run", "", "grant: only show the rule"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence approvals grant read ../shared --for 8h",
    "ringfence approvals grant connect api.example.com:443 --scope always",
    "ringfence approvals list",
    "ringfence approvals revoke 1f2e3d4c",
    "ringfence approvals export > approvals.json",
    "ringfence approvals watch",
)
VERBS = ("grant", "list", "show", "revoke", "export", "import", "watch")


def main(words: list[str]) -> int:
    """One of the verbs."""
    values, names = parse_around(words, TABLE)
    verb = names.pop(0) if names else ""
    if "--help" in values:
        usage = "grant OPERATION TARGET | list | show ID | revoke ID... | export | import FILE | watch [options]"
        about = "Says yes to one thing more, and takes it back.\n"
        about += "The exit code is 1 when nothing was granted, or something was not imported."
        print(render_help(f"approvals {usage}", about, TABLE, EXAMPLES))
        return 0
    acts = {"grant": _grant, "list": _list, "show": _show, "revoke": _revoke, "export": _export, "import": _import}
    acts["watch"] = _watch
    if verb not in acts:
        raise UsageError("approvals", f"needs one of: {', '.join(VERBS)}", hint="ringfence approvals list")
    return acts[verb](names, values)


def _store() -> Store:
    if "RINGFENCE" in os.environ:
        raise PolicyError("approvals", "are a person's, and this runs inside a sandbox", "say it outside")
    directory = approvals_of(os.environ)
    if not directory:
        raise PolicyError("approvals", "there is no home directory to keep them in", "set HOME or XDG_STATE_HOME")
    return Store(directory)


def _workspace(values: Values) -> str:
    return os.path.realpath(one(values, "--workspace") or find_workspace(os.getcwd()))


def _document(grant: Grant) -> dict[str, object]:
    found = msgspec.to_builtins(grant)
    assert isinstance(found, dict)
    return {**found, "rule": rule_text(grant), "ends": ending(grant)}


def _told(why: str) -> None:
    if why:
        say(f"ringfence: audit log: not written: {why}")


def _grant(names: list[str], values: Values) -> int:
    operations = tuple(operation.value for operation in Operation)
    if len(names) != 2:
        raise UsageError("approvals grant", "needs an operation and a target", hint=f"one of: {', '.join(operations)}")
    if names[0] not in operations:
        raise UsageError("approvals grant", f"{names[0]!r} is no operation", hint=nearest(names[0], operations))
    store, workspace = _store(), _workspace(values)
    asked = _made(names[0], names[1], values)
    if "--dry-run" in values:
        give(values, {"schema": "ringfence/approval@1", **_document(asked)}, rule_text(asked))
        return 0
    grant = _confirmed(asked, values)
    if grant is None:
        say("ringfence: nothing was stored")
        return 1
    store.add([grant])
    _told(record.approved(workspace, [f"{rule_text(grant)} (grant {grant.id})"]))
    give(values, {"schema": "ringfence/approval@1", **_document(grant)}, f"grant {grant.id}: {rule_text(grant)}")
    if grant.operation is not Operation.BIND:
        _tell_effect(grant, workspace)
    return 0


def _tell_effect(grant: Grant, workspace: str) -> None:
    """Say so where a policy closes all the same what a grant would open."""
    from ..explain import why, why_connect
    from ..run import make_request

    request = make_request(workspace, as_root=True)
    if grant.operation is Operation.CONNECT:
        answer, _ = why_connect(request, grant.target.replace("*", "any", 1))
    else:
        answer, _ = why(request, grant.operation.value, grant.target)
    if answer.verdict is not Verdict.ALLOW:
        say(f"ringfence: it has no effect here: {answer.reason}")


def _made(operation: str, target: str, values: Values) -> Grant:
    if operation not in ("connect", "bind"):
        target = os.path.abspath(at_home(target, home_of(os.environ)))
    try:
        target_of(Operation(operation), target)
    except ValueError as error:
        hint = "a port, as 8080" if operation == "bind" else HOST
        raise UsageError("approvals grant", str(error), hint) from None
    return approvals.make(
        Operation(operation),
        target,
        _scope(values),
        _workspace(values),
        seconds=_seconds(values),
        reason=one(values, "--reason") or "",
        environ=os.environ,
    )


def _confirmed(grant: Grant, values: Values) -> Grant | None:
    """The grant that a person says yes to, who sees the exact rule and may name another target; None: to none. Where
    nobody is there, it takes --yes."""
    if "--yes" in values:
        return grant
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "approvals grant", "nobody is there to be asked", hint="a person adds --yes, or uses a terminal"
        )
    while True:
        say(f"this will be stored: {rule_text(grant)}")
        sys.stderr.write("yes? [y/N, or a narrower or wider target] ")
        sys.stderr.flush()
        word = sys.stdin.readline().strip()
        if word.lower() in ("y", "yes"):
            return grant
        if word.lower() in ("", "n", "no"):
            return None
        try:
            grant = _made(grant.operation.value, word, values)
        except (PolicyError, UsageError) as error:
            say(*error.lines())


def _scope(values: Values) -> Answer:
    word = one(values, "--scope") or "project"
    if word not in ("session", "project", "always"):
        raise UsageError("--scope", f"does not know {word!r}", "one of: session, project, always")
    return Answer(word)


def _seconds(values: Values) -> int:
    text = one(values, "--for")
    if text is None:
        return 0
    try:
        amount = int(read_amount("timeout", text))
    except ValueError:
        amount = 0
    if amount < 1:
        raise UsageError("--for", f"does not understand {text!r}", "a length of time like 30m or 8h")
    return amount


def _list(names: list[str], values: Values) -> int:
    _none(names, "list")
    found = _store().grants()
    counted = {grant.id for grant in approvals.standing(_workspace(values), os.environ).grants}
    documents = [{**_document(grant), "countsHere": grant.id in counted} for grant in found]
    lines = [
        f"{grant.id}  {'' if grant.id in counted else '(not here or not now) '}{rule_text(grant)}" for grant in found
    ]
    give(values, {"schema": approvals.DOCUMENT, "grants": documents}, *lines)
    return 0


def _none(names: list[str], verb: str) -> None:
    if names:
        raise UsageError(names[0], "is one word too many", hint=f"ringfence approvals {verb}")


def _show(names: list[str], values: Values) -> int:
    if len(names) != 1:
        raise UsageError("approvals show", "needs an id", hint="ringfence approvals list")
    found = next((grant for grant in _store().grants() if grant.id == names[0]), None)
    if found is None:
        raise PolicyError(names[0], "there is no such grant", "ringfence approvals list")
    document = _document(found)
    rows = [f"{key:10} {value}" for key, value in document.items() if value not in ("", 0)]
    give(values, {"schema": "ringfence/approval@1", **document}, *rows)
    return 0


def _revoke(names: list[str], values: Values) -> int:
    if not names:
        raise UsageError("approvals revoke", "needs an id", hint="ringfence approvals list")
    gone = _store().remove(names)
    missing = sorted(set(names) - {grant.id for grant in gone})
    error = PolicyError(", ".join(missing), "there is no such grant", "ringfence approvals list")
    if not gone:
        raise error
    _told(record.revoked(_workspace(values), [rule_text(grant) for grant in gone]))
    lines = [f"revoked {grant.id}: {rule_text(grant)}" for grant in gone]
    document = {"schema": "ringfence/approvals-revoked@1", "grants": list(map(_document, gone)), "missing": missing}
    give(values, document, *lines)
    if missing:
        say(*error.lines())
        return error.exit_code
    return 0


def _export(names: list[str], _values: Values) -> int:
    _none(names, "export")
    sys.stdout.write(approvals.export(_store().grants()).decode())
    return 0


def _watch(names: list[str], values: Values) -> int:
    _none(names, "watch")
    from .watch import watch

    return watch("--json" in values)


def _import(names: list[str], values: Values) -> int:
    if len(names) != 1:
        raise UsageError("approvals import", "needs a file, or - for standard input")
    store = _store()
    if names[0] == "-":
        content = sys.stdin.buffer.read(1 << 22)
    else:
        with open(names[0], "rb") as file:
            content = file.read(1 << 22)
    good, bad = approvals.read_document(content, os.environ, names[0])
    if good:
        store.add(good)
        _told(
            record.approved(_workspace(values), [f"{rule_text(grant)} (grant {grant.id}, imported)" for grant in good])
        )
    for sentence in bad:
        say(f"ringfence: not imported: {sentence}")
    document = {"schema": "ringfence/approvals-import@1", "imported": [grant.id for grant in good], "refused": bad}
    give(values, document, *(f"grant {grant.id}: {rule_text(grant)}" for grant in good))
    return 1 if bad else 0
