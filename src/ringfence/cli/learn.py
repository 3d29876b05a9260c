"""`ringfence learn`: run a command, watched, and write the policy that it would have needed."""

import os
import time

from ..explain import why
from ..keep import Request
from ..learn import became, learnt, remarks, watched
from ..model import Explain, Observe, Outcome, Screen, UsageError, Verdict
from ..policy import Flags
from ..policy.learnt import rendered
from ..run import make_request, run
from .options import LIMITS, OUTPUT, POLICY, WORKSPACE, Option, Values, flags_of, one, parse, render_help, say
from .run import Forwarder, find_screen, tell
from .shared import Shared

TABLE = (
    Option("--to", "FILE", "where the policy goes; by default standard output, after the command's own"),
    Option("--check", "", "run it again under the policy alone, and say whether it passes"),
    *WORKSPACE,
    *POLICY,
    *LIMITS,
    *OUTPUT,
)
EXAMPLES = (
    "ringfence learn --allow-read ~ --to ~/npm.toml --check -- npm test",
    "ringfence learn --allow-host '*.npmjs.org' --allow-write ~/.cache --to ~/ci.toml -- make ci",
)
CLOCK_TICK = 0.01  # files are stamped by a clock that goes in steps


def main(words: list[str]) -> int:
    """Run, learn, write; the exit code is the command's, of the last time that it ran."""
    values, argv = parse(words, TABLE)
    if "--help" in values:
        about = "Runs a command under your own policy and flags, and writes the least of it that it used."
        print(render_help("learn [options] -- COMMAND [ARGUMENT...]", about, TABLE, EXAMPLES))
        return 0
    path = one(values, "--to")
    if "--check" in values and path is None:
        raise UsageError("--check", "needs a file to run under", hint="--to FILE")
    if path is not None and os.path.lexists(path):
        raise UsageError(path, "is there already", hint="name another file, or remove it")
    if path is not None and not os.access(os.path.dirname(path) or ".", os.W_OK | os.X_OK):
        raise UsageError(path, "cannot be made there", hint="--to takes a file in a directory that you can write")
    flags, as_json = flags_of(values), "--json" in values
    workspace, as_root = one(values, "--workspace"), "--as-root" in values
    screen = Screen() if as_json else find_screen(False)
    request = watched(make_request(workspace, os.getcwd(), flags, as_root, screen=screen))
    if path is not None:
        _refuse_inside(request, path)
    begun = time.time() - CLOCK_TICK
    outcome = _run(argv, values, flags, as_json, screen, Observe.EVERYTHING)
    if not as_json:
        tell(outcome)
    found = learnt(request, outcome, begun)
    text = rendered(found, remarks(argv, outcome))
    if path is not None:
        _write(path, text, request.workspace)
    if "--check" in values and path is not None:
        again = _check(argv, values, path, as_json, screen)
        say(f"ringfence: checked: under {path} alone it {became(again.ending)}, and before it {became(outcome.ending)}")
        outcome = again
        if not as_json:
            tell(again)
    if as_json:
        from .render import dump

        print(dump({"schema": "ringfence/learnt@1", "ending": outcome.ending, "policy": text, "lines": found}))
    elif path is None:
        print(text, end="")
    return outcome.exit_code


def _refuse_inside(request: Request, path: str) -> None:
    """A policy that a later command could write is not read."""
    decision, real = why(request, "write", path)
    if decision.verdict is Verdict.ALLOW and real.startswith(f"{request.workspace}/"):
        hint = "a place outside the workspace, or .ringfence/policy.toml"
        raise UsageError(path, "a command in this workspace could write it, and no policy is read from there", hint)


def _run(
    argv: list[str],
    values: Values,
    flags: Flags,
    as_json: bool,
    screen: Screen,
    observe: Observe,
    environ: dict[str, str] | None = None,
) -> Outcome:
    with Shared(screen):
        return run(
            argv,
            workspace=one(values, "--workspace"),
            cwd=os.getcwd(),
            env=environ,
            flags=flags,
            capture=as_json,
            as_root="--as-root" in values,
            screen=screen,
            on_start=Forwarder().started,
            explain=Explain.FAILURE,
            observe=observe,
        )


def _write(path: str, text: str, workspace: str) -> None:
    from .. import record
    from ..audit.log import sha256

    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    data = text.encode("utf-8", "replace")
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    why = record.changed(workspace, "learnt", os.path.abspath(path), sha256(data))
    if why:
        say(f"ringfence: audit log: not written: {why}")


def _check(argv: list[str], values: Values, path: str, as_json: bool, screen: Screen) -> Outcome:
    """Under the policy alone: without the flags and without the user's own file, which may be wider."""
    given = dict(os.environ)
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    try:
        flags = Flags(cwd=os.getcwd(), policy_files=(path,))
        return _run(argv, values, flags, as_json, screen, Observe.NOTHING, given)
    finally:
        os.environ.clear()
        os.environ.update(given)
