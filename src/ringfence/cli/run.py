"""`ringfence run`: the command inside its workspace, its exit code as ours."""

import os
import signal
from types import FrameType

import msgspec

from ..enforce import Launch
from ..model import Exited, Need, Outcome, Refused
from ..run import make_request, run, suspected
from .options import OUTPUT, POLICY, WORKSPACE, Option, flags_of, one, parse, render_help, say, seconds

TABLE = (
    *WORKSPACE,
    *POLICY,
    Option("--timeout", "TIME", "end the command after this long: 60s, 5m, 1h"),
    Option("--quiet", "", "no words of ours after the command's own"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence run -- npm test",
    "ringfence run --allow-read ~/.config/foo --timeout 5m -- make check",
    "ringfence run --json -- pytest -q | jq .ending",
)
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def main(words: list[str]) -> int:
    """Run, and say in a few words what was refused."""
    values, argv = parse(words, TABLE)
    if "--help" in values:
        print(
            render_help(
                "run [options] -- COMMAND [ARGUMENT...]", "Runs a command inside its workspace.", TABLE, EXAMPLES
            )
        )
        return 0
    as_json = "--json" in values
    limit = one(values, "--timeout")
    detached = not any(map(os.isatty, range(3)))
    outcome = run(
        argv,
        workspace=one(values, "--workspace"),
        cwd=os.getcwd(),
        flags=flags_of(values),
        capture=as_json,
        timeout=seconds(limit) if limit else None,
        as_root="--as-root" in values,
        detached=detached,
        on_start=Forwarder().started,
    )
    refused = isinstance(outcome.ending, Refused)
    if outcome.ending != Exited(0) and not refused and not ("--quiet" in values and not as_json):
        request = make_request(
            one(values, "--workspace"), os.getcwd(), flags_of(values), "--as-root" in values, detached
        )
        outcome = msgspec.structs.replace(outcome, denials=tuple(suspected(request, argv)))
    if as_json:
        from .render import outcome_document

        print(outcome_document(outcome))
    elif refused or "--quiet" not in values:
        tell(outcome)
    return outcome.exit_code


class Forwarder:
    """What asks us to end asks the command to end; what comes before it has started reaches it when it has."""

    def __init__(self) -> None:
        self._launched: Launch | None = None
        self._waiting: list[int] = []
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: then the command ignores it too
                signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._launched is None:
            self._waiting.append(number)
        else:
            self._launched.forward(number)

    def started(self, launched: Launch) -> None:
        self._launched = launched
        for number in self._waiting:
            launched.forward(number)


def tell(outcome: Outcome) -> None:
    """In a few words: what was not given, what was not enforced, and why it may have failed."""
    if isinstance(outcome.ending, Refused):
        say(f"ringfence: {outcome.ending}")
        return
    for sentence in outcome.ignored:
        say(f"ringfence: {sentence}")
    for gap in outcome.gaps:
        if gap.need is Need.REQUIRED:  # it ran all the same, so somebody asked for a best effort
            say(f"ringfence: not enforced: {gap.what}: {gap.why} ({gap.origin})")
    for path in outcome.planted:
        say(f"ringfence: {path} appeared during the run, and such a file runs code later: look at it before you use it")
    if outcome.denials or not isinstance(outcome.ending, Exited):
        from .render import explain

        say(explain(outcome))
