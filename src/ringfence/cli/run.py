"""`ringfence run`: the command inside its workspace, its exit code as ours."""

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes an enum of them all, in half a millisecond
import _thread
import os
import stat
from collections.abc import Callable

import msgspec

from ..enforce import Launch
from ..model import BUILT_IN, Asking, Denial, Exited, Explain, Need, Outcome, Refused, Screen, UsageError
from ..model.outcome import CAME
from ..plan import SIBLINGS
from ..run import run
from .options import ASK, LIMITS, OUTPUT, POLICY, WORKSPACE, Option, Values, flags_of, one, parse, render_help, say
from .shared import Shared

TABLE = (
    *WORKSPACE,
    *POLICY,
    *LIMITS,
    ASK,
    Option("--ask-fd", "N", "ask on this socket too: lines of JSON"),
    Option("--ask-timeout", "TIME", "what nobody answers so long is refused (default: 5m)"),
    Option("--raw-terminal", "", "pass on what reaches beyond a terminal's screen: clipboard, title, keys"),
    Option("--quarantine", "", "rename repositories left in the workspace that would make a later git run programs"),
    Option("--explain", "", "watch what the command opens and says, to tell why it fails; slower"),
    Option("--quiet", "", "no words of ours after the command's own"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence run -- npm test",
    "ringfence run --allow-read ~/.config/foo --timeout 5m -- make check",
    "ringfence run --timeout 10m --memory 2G --processes 256 --output 10M -- npm test",
    "ringfence run --json -- pytest -q | jq .denials",
    "ringfence run --explain -- npm ci",
    "ringfence run --ask -- claude",
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
    if SIBLINGS in os.environ:  # we are inside a run
        from .beside import ask

        code = ask(values, argv)
        if code is not None:
            return code
        del os.environ[SIBLINGS]  # nobody hears us there
    as_json = "--json" in values
    explain = Explain.NOTHING if "--quiet" in values and not as_json else Explain.FAILURE
    explain = Explain.OUTPUT if "--explain" in values else explain
    screen = Screen() if as_json else find_screen("--raw-terminal" in values)
    told: dict[str, None] = {}

    def at_once(denial: Denial) -> None:
        from .render import denial_line

        told[denial.target] = None
        say(denial_line(denial))

    with Shared(screen):
        outcome = run(
            argv,
            workspace=one(values, "--workspace"),
            cwd=os.getcwd(),
            flags=flags_of(values),
            capture=as_json,
            as_root="--as-root" in values,
            screen=screen,
            on_start=Forwarder().started,
            quarantine="--quarantine" in values,
            explain=explain,
            on_denial=at_once if explain is Explain.OUTPUT and not as_json else None,
            ask=asking_of(values),
            siblings=True,
        )
    if as_json:
        from .render import outcome_document

        print(outcome_document(outcome))
    elif isinstance(outcome.ending, Refused) or "--quiet" not in values:
        tell(outcome, tuple(told))
    return outcome.exit_code


def asking_of(values: Values) -> Asking | None:
    """Who is asked, and how long, if anybody is."""
    if not {"--ask", "--ask-fd", "--ask-timeout"} & values.keys():
        return None
    seconds, text, number = Asking().seconds, one(values, "--ask-timeout"), one(values, "--ask-fd")
    if text is not None:
        from ..policy.limits import read_amount

        try:
            seconds = float(read_amount("timeout", text))
        except ValueError:
            raise UsageError("--ask-timeout", f"does not understand {text!r}", "a length of time: 30s, 5m") from None
    if number is None and not any(map(os.isatty, range(3))):
        say("ringfence: there is no terminal to ask at: whatever is asked waits for `ringfence approvals watch`")
        return Asking(seconds)
    if number is None:
        from .prompt import prompter

        return Asking(seconds, prompt=prompter())
    try:
        fd = int(number)
        is_socket = fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode)
    except (ValueError, OverflowError, OSError):
        is_socket = False
    if not is_socket:
        raise UsageError("--ask-fd", f"{number!r} is no socket that is open here", "one end of a socketpair, above 2")
    os.set_inheritable(fd, False)
    return Asking(seconds, fd)


def find_screen(unfiltered: bool) -> Screen:
    """Which of 0 to 2 become a terminal of the command's own: all, when somebody sits at both ends; else what it
    writes to. A terminal on standard input alone may be another program's to read, as `| less` does."""
    terminals = [fd for fd in range(3) if os.isatty(fd)]
    mask = sum(1 << fd for fd in terminals)
    return Screen(mask if mask & 3 == 3 else mask & 6, unfiltered)


def hear(numbers: tuple[int, ...], handle: Callable[[int], None]) -> None:
    """Be told of signals, by a thread: a handler in Python runs when the main thread goes on, and of one that comes as
    it is about to wait it would hear when the command has ended."""
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: then the command ignores it too
            signal.signal(number, lambda *_: None)

    def listen() -> None:
        while True:
            for number in os.read(heard, 64):
                if number in numbers:
                    handle(number)

    _thread.start_new_thread(listen, ())


class Forwarder:
    """What asks us to end asks the command to end; what comes before it has started reaches it when it has."""

    def __init__(self) -> None:
        self._launched: Launch | None = None
        self._waiting: list[int] = []
        self._lock = _thread.allocate_lock()
        hear(FORWARDED, self._handle)

    def _handle(self, number: int) -> None:
        with self._lock:
            if self._launched is None:
                self._waiting.append(number)
            else:
                self._launched.forward(number)

    def started(self, launched: Launch) -> None:
        with self._lock:
            self._launched = launched
            for number in self._waiting:
                launched.forward(number)


def tell(outcome: Outcome, told: tuple[str, ...] = ()) -> None:
    """In a few words: what was not given, what was not enforced, and why it may have failed."""
    if isinstance(outcome.ending, Refused):
        say(f"ringfence: {outcome.ending}")
        if outcome.ending.kind == "directory":
            say("  hint: start it inside the workspace (cd), or in another directory that the command may read")
        _explain(outcome)
        return
    for sentence in outcome.ignored:
        say(f"ringfence: {sentence}")
    if outcome.is_unheld:
        say("ringfence: not enforced: anything: enforcement is off")
    for gap in outcome.gaps:
        if gap.need is Need.REQUIRED:  # it ran all the same, so somebody asked for a best effort
            say(f"ringfence: not enforced: {gap.what}: {gap.why} ({gap.origin})")
        elif gap.origin != BUILT_IN:
            say(f"ringfence: not given: {gap.what}: {gap.why} ({gap.origin})")
    for path in outcome.planted:
        say(f"ringfence: {path} {CAME}: look at it before you use it")
    for sentence in outcome.signed:
        say(f"ringfence: {sentence}")
    for path in outcome.quarantined:
        say(f"ringfence: moved out of the way: {path}")
    is_piped = outcome.exit_code == 128 + signal.SIGPIPE  # `| head`, which no shell speaks of
    if not isinstance(outcome.ending, Exited) and not is_piped:
        say(f"ringfence: the command {outcome.ending}")
    _explain(outcome, told)


def _explain(outcome: Outcome, told: tuple[str, ...] = ()) -> None:
    """A line for each refusal that was not told of yet, and for what was not ours."""
    left = tuple(denial for denial in outcome.denials if denial.target not in told)
    outcome = msgspec.structs.replace(outcome, denials=left)
    if outcome.denials or outcome.not_ours:
        from .render import explain

        say(*explain(outcome))
