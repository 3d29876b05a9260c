"""`ringfence session`: an agent's own worktree and branch, from its start to its end."""

import os

from msgspec.structs import replace

from ..model import RingfenceError, Screen, UsageError
from ..model.session import Session as Record
from ..model.session import State
from ..session import Session, diff, merge, opened
from ..workspace import life, slugs, worktrees
from ..workspace.ledger import Ledger
from .options import (
    LIMITS,
    OUTPUT,
    POLICY,
    WORKSPACE,
    Option,
    Values,
    flags_of,
    give,
    one,
    parse,
    printable,
    render_help,
    say,
)
from .render import dump
from .run import Forwarder, find_screen, tell
from .shared import Shared

TABLE = (
    Option("--repository", "DIR", "the project (default: the one around the current directory)"),
    Option("--name", "NAME", "start: its name, and that of its branch ringfence/NAME"),
    Option("--from", "REVISION", "start: where to begin (default: what is checked out)"),
    Option("--link", "DIR", "start: a directory of the project to show by a link, as node_modules", many=True),
    Option(
        "--copy", "DIR", "start: a directory of the project to copy, sharing its blocks where that works", many=True
    ),
    Option("--setup", "SCRIPT", "start: a shell script to run once inside the sandbox, first"),
    Option("--into", "BRANCH", "merge: another branch than the one it began from"),
    Option("--with-ignored", "", "end: keep ignored files too"),
    Option("--delete-branch", "", "end: the branch goes too, with all work on it"),
    WORKSPACE[1],
    *POLICY,
    *LIMITS,
    *OUTPUT,
)
EXAMPLES = (
    "ringfence session start --name feature-x -- claude",
    "ringfence session start --name fix --copy node_modules --setup 'npm ci'",
    "ringfence session list",
    "ringfence session diff feature-x",
    "ringfence session end feature-x",
)
VERBS = ("start", "list", "show", "resume", "diff", "merge", "end", "prune")


def main(words: list[str]) -> int:
    """One of the verbs of a session."""
    values, rest = parse(words, TABLE)
    verb, rest = (rest[0], rest[1:]) if rest else ("", [])
    values, argv = parse(rest, TABLE, values)
    name = ""
    if argv and verb != "start" and "--" not in rest[: len(rest) - len(argv)]:  # no option's value is that word
        name = argv[0]
        values, argv = parse(argv[1:], TABLE, values)
    if "--help" in values:
        usage = "session start|list|show|resume|diff|merge|end|prune [NAME] [options] [-- COMMAND [ARGUMENT...]]"
        print(render_help(usage, "Gives an agent a worktree and a branch of its own.", TABLE, EXAMPLES))
        return 0
    if verb not in VERBS:
        raise UsageError("session", f"needs one of: {', '.join(VERBS)}", hint="ringfence session list")
    if (name == "") != (verb in ("start", "list", "prune")):
        raise UsageError(f"session {verb}", "takes no name here" if name else "needs a name", "ringfence session list")
    if argv and verb not in ("start", "resume"):
        raise UsageError(argv[0], "is one word too many", hint=f"ringfence session {verb} --help")
    if verb in ("start", "resume"):
        return _work(verb, name, values, argv)
    acts = {"list": _list, "show": _show, "diff": _diff, "merge": _merge, "end": _end, "prune": _prune}
    return acts[verb](name, values)


def _where(values: Values) -> str:
    return one(values, "--repository") or os.getcwd()


def _work(verb: str, name: str, values: Values, argv: list[str]) -> int:
    """Start or resume, and run a command if there is one."""
    where = _where(values)
    session = Session(
        where,
        name or one(values, "--name"),
        revision=one(values, "--from") or "",
        link=values.get("--link", []),
        copy=values.get("--copy", []),
        setup=one(values, "--setup") or "",
        flags=flags_of(values),
        as_root="--as-root" in values,
    )
    session = session.start() if verb == "start" else session.resume()
    if not argv:
        give(values, _document(session.record), f"{session.name}: {session.branch}", session.path)
        return 0
    as_json = "--json" in values
    screen = Screen() if as_json else find_screen(unfiltered=False)
    try:
        with Shared(screen):
            outcome = session.run(
                argv,
                below=_below(where, session.record),
                capture=as_json,
                screen=screen,
                on_start=Forwarder().started,
            )
    except RingfenceError:
        name = session.name
        say(f"ringfence: session {name} is there all the same: `ringfence session resume {name} -- …`, or `end {name}`")
        raise
    if as_json:
        from .render import outcome_document

        print(outcome_document(outcome))
    else:
        tell(outcome)
        say(f"ringfence: session {session.name} goes on in {session.path}; `ringfence session end {session.name}`")
    return outcome.exit_code


def _below(where: str, record: Record) -> str:
    """The same directory in the worktree as the one we stand in, if it is there."""
    below = os.path.relpath(os.path.realpath(where), record.repository)
    return below if below != "." and os.path.isdir(f"{record.worktree}/{below}") else ""


def _document(record: Record) -> dict[str, object]:
    return {
        "schema": "ringfence/session@1",
        "name": record.name,
        "branch": record.branch,
        "base": record.base,
        "start": record.start,
        "head": record.tip,
        "state": record.state.value,
        "worktree": record.worktree,
        "repository": record.repository,
        "made": record.made,
    }


def _list(_name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        ledger = found.ledger
        seen = [_seen(ledger, record) for record in ledger.sessions()]
    documents = [{**_document(record), "state": state} for record, state in seen]
    rows = [
        f"{record.name:24} {state:8} {record.branch:32} {record.worktree * (state != 'ended')}".rstrip()
        for record, state in seen
    ]
    for sentence in found.recovered:
        say(f"ringfence: {sentence}")
    document = {"schema": "ringfence/sessions@1", "sessions": documents, "recovered": list(found.recovered)}
    give(values, document, *rows)
    return 0


def _seen(ledger: Ledger, record: Record) -> tuple[Record, str]:
    """A session as it stands, and its state in a word."""
    if record.state is not State.ACTIVE:
        return record, record.state.value
    if not ledger.has("worktrees", record.name):
        return record, "missing"
    try:
        return _at_head(ledger, record), "active"
    except (RingfenceError, OSError) as error:
        say(f"ringfence: {record.name}: {error}")
        return record, "damaged"


def _at_head(ledger: Ledger, record: Record) -> Record:
    return replace(record, tip=life.head_of(ledger, record) or record.tip)


def _show(name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        ledger = found.ledger
        record = ledger.settled(slugs.slug_of(name))
        dirty = False
        if record.state is State.ACTIVE:
            worktrees.check_listed(ledger, record)
            record = _at_head(ledger, record)
            dirty = life.is_dirty(ledger, record)
    document = {**_document(record), "uncommitted": dirty}
    give(values, document, *(f"{key:12} {value}" for key, value in document.items() if key != "schema"))
    return 0


def _diff(name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        patch = diff(found.ledger, found.ledger.settled(slugs.slug_of(name)))
    text = patch.decode("utf-8", "surrogateescape")
    if "--json" in values:
        print(dump({"schema": "ringfence/session-diff@1", "name": name, "patch": text}))
    else:
        shown = printable(*text.replace("\t", "    ").split("\n")).encode() if os.isatty(1) else patch
        while shown:  # a disk that is nearly full takes a piece of it, and says so when it is asked again
            shown = shown[os.write(1, shown) :]
    return 0


def _merge(name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        merged = merge(found.ledger, slugs.slug_of(name), one(values, "--into") or "")
    document = {"schema": "ringfence/session-merge@1", "name": name, **_fields(merged)}
    same = merged.before == merged.after
    give(
        values,
        document,
        f"{merged.into}: {'has it already' if same else f'{merged.before[:12]} → {merged.after[:12]}'}",
    )
    return 0


def _end(name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        ended = life.end(found.ledger, slugs.slug_of(name), "--with-ignored" in values, "--delete-branch" in values)
    record = ended.session
    document = {
        "schema": "ringfence/session-end@1",
        "name": record.name,
        "branch": record.branch,
        "commit": ended.commit,
        "saved": ended.saved,
        "ignored": ended.ignored,
        "deleted": ended.deleted,
    }
    text = f"{record.name}: {record.branch} is at {ended.commit[:12]}" + (
        ", with what was not committed" if ended.saved else ""
    )
    if ended.deleted:
        text = f"{record.name}: {record.branch} is deleted; it was at {ended.commit}"
    give(values, document, text)
    if ended.ignored:
        say(f"ringfence: {ended.ignored} ignored files or directories were not kept; --with-ignored keeps them")
    return 0


def _prune(_name: str, values: Values) -> int:
    with opened(_where(values)) as found:
        said = [*found.recovered, *life.prune(found.ledger)]
    give(values, {"schema": "ringfence/session-prune@1", "done": said}, *(said or ["nothing to prune"]))
    return 0


def _fields(value: object) -> dict[str, object]:
    import msgspec

    found = msgspec.to_builtins(value)
    return found if isinstance(found, dict) else {}
