"""A small reader of command lines: one table serves parsing, `--help` and the checks of the man page.

Not argparse, because `ringfence run` stands before every command an agent runs, and importing argparse costs it more
than everything it does here.
"""

import os
import sys

import msgspec

from ..model import Enforcement, UsageError
from ..policy import Flags, Reach
from ..policy.words import nearest


class Option(msgspec.Struct, frozen=True):
    """One option; `value` names the words that follow it, and "" means that none does."""

    name: str
    value: str
    help: str
    many: bool = False


WORKSPACE = (
    Option("--workspace", "DIR", "the directory to stay in (default: the git top level, or the current directory)"),
    Option("--as-root", "", "stay root in a workspace that belongs to root"),
)
POLICY = (
    Option("--profile", "NAME", "a boundary with a name: see `ringfence profile list`"),
    Option("--policy", "FILE", "one more policy file, JSON or TOML", many=True),
    Option("--allow-read", "PATH", "also readable", many=True),
    Option("--allow-write", "PATH", "also writable", many=True),
    Option("--deny-read", "PATH", "hidden", many=True),
    Option("--deny-write", "PATH", "not writable, whatever else says so", many=True),
    Option("--inject", "SOURCE TARGET", "a file or directory shown read-only at another place", many=True),
    Option("--allow-env", "NAME", "a variable that reaches the command; NAME* for a prefix", many=True),
    Option("--allow-host", "HOST", "a host that may be reached: x.com, *.x.com (all below it), x.com:443", many=True),
    Option("--deny-host", "HOST", "not reached, whatever else says so", many=True),
    Option("--allow-socket", "PATH", "a unix socket of the host that may be reached", many=True),
    Option("--forward", "PORT", "lead this port of the host's loopback to the same port of the run's", many=True),
    Option("--allow-network", "", "the host's network as it is"),
    Option("--best-effort", "", "run even if something required cannot be enforced here; the gaps are said"),
    Option("--enforcement", "HOW", "required (default), best-effort, or off"),
)
LIMITS = (
    Option("--timeout", "TIME", "end the command after this long: 60s, 5m, 1h"),
    Option("--cpu", "TIME", "end it after so much processor time"),
    Option("--memory", "SIZE", "end it when it uses more memory: 512M, 2G"),
    Option("--processes", "COUNT", "end it when it has more processes and threads"),
    Option("--files", "COUNT", "no more open files in each process"),
    Option("--file-size", "SIZE", "no larger file"),
    Option("--disk", "SIZE", "end it when it has written more to disk"),
    Option("--output", "SIZE", "end it after so much output; the rest is cut off"),
)
ASK = Option("--ask", "", "what is refused and may be granted waits for a person: here, or `approvals watch`")
OUTPUT = (
    Option("--json", "", "one JSON document on standard output"),
    Option("--help", "", "this text"),
)

Values = dict[str, list[str]]


def printable(*lines: str) -> str:
    """Lines for a person. A hostile name in one must neither steer the terminal nor look like a line of ours."""
    return "\n".join("".join(char if char.isprintable() else repr(char)[1:-1] for char in line) for line in lines)


def say(*lines: str) -> None:
    """Lines for a person, on standard error. Where they cannot be written, the exit code has to say it alone."""
    if sys.stderr is None:  # it was closed before we began
        return
    try:
        sys.stderr.write(printable(*lines) + "\n")
    except OSError:
        return


def give(values: Values, document: object, *lines: str) -> None:
    """For a machine, where it is asked for, or lines for a person."""
    if "--json" in values:
        from .render import dump

        print(dump(document))
    elif lines:
        print(printable(*lines))


def parse(words: list[str], table: tuple[Option, ...], before: Values | None = None) -> tuple[Values, list[str]]:
    """Options and the rest. The first word that is no option ends them, and so does `--`. They come to those that were
    given `before`, which are not changed."""
    values = {name: [*given] for name, given in (before or {}).items()}
    words = list(words)
    _take(words, table, values)
    return values, words


def parse_around(words: list[str], table: tuple[Option, ...]) -> tuple[Values, list[str]]:
    """Options, and the words before, between and behind them; all that follows `--` are words. None of them is empty:
    most often a variable was not set, and the path that it makes is the current directory's."""
    values: Values = {}
    words, rest = [], list(words)
    while rest:
        is_last = _take(rest, table, values)
        taken = rest[: None if is_last else 1]
        words += taken
        del rest[: len(taken)]
    if "" in words:
        raise UsageError(" ".join(word or "''" for word in words), "an empty word", "a variable may not be set")
    return values, words


def _take(words: list[str], table: tuple[Option, ...], values: Values) -> bool:
    """Move the options at the beginning of the words to the values; whether `--` ended them."""
    known = {option.name: option for option in table}
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            return True
        name, equals, value = word.partition("=")
        option = known.get("--help" if name == "-h" else name)
        if option is None:
            raise UsageError(name, "there is no such option", hint=nearest(name, tuple(known), "--help has them all"))
        if equals and not option.value:
            raise UsageError(name, "takes no value")
        if option.value in ("DIR", "FILE") and value.startswith("~/"):  # no shell puts a home behind an equals sign
            from ..policy.trust import at_home, home_of

            value = at_home(value, home_of(os.environ))
        taken = [value] if equals else []
        while len(taken) < len(option.value.split()):
            if words[:1] in ([], ["--"]):
                raise UsageError(name, f"needs a value: {name} {option.value}")
            taken.append(words.pop(0))
        if "" in taken:  # most often a variable that is not set, and no directory or name is meant by it
            raise UsageError(name, f"an empty value: {name} {option.value}")
        if option.name in values and not option.many:
            raise UsageError(name, "was given twice")
        values.setdefault(option.name, []).extend(taken)
    return False


def with_extra(name: str) -> str:
    """How what a verb needs beyond the rest is installed: where we are, and nowhere else."""
    return f"in ringfence's source: {sys.executable} -m pip install '.[{name}]'"


def one(values: Values, name: str) -> str | None:
    """The value of an option that may come once."""
    return values[name][0] if name in values else None


def flags_of(values: Values) -> Flags:
    """The policy that was given on the command line."""
    enforcement = None
    if "--best-effort" in values:
        enforcement = Enforcement.BEST_EFFORT
    word = one(values, "--enforcement")
    if word is not None:
        try:
            enforcement = Enforcement(word)
        except ValueError:
            raise UsageError("--enforcement", f"does not know {word!r}", "one of: required, best-effort, off") from None
        if "--best-effort" in values and enforcement is not Enforcement.BEST_EFFORT:
            raise UsageError("--best-effort", f"is not --enforcement {word}", "choose one of them")
    return Flags(
        cwd=os.getcwd(),
        allow_read=tuple(values.get("--allow-read", ())),
        allow_write=tuple(values.get("--allow-write", ())),
        deny_read=tuple(values.get("--deny-read", ())),
        deny_write=tuple(values.get("--deny-write", ())),
        allow_env=tuple(values.get("--allow-env", ())),
        allow_host=tuple(values.get("--allow-host", ())),
        deny_host=tuple(values.get("--deny-host", ())),
        forward=tuple(map(_port, values.get("--forward", ()))),
        allow_socket=tuple(values.get("--allow-socket", ())),
        network=Reach.OPEN if "--allow-network" in values else Reach.AS_POLICY,
        enforcement=enforcement,
        policy_files=tuple(values.get("--policy", ())),
        profile=one(values, "--profile") or "",
        ask="--ask" in values,
        limits=limits_of(values),
        inject=tuple(zip(values.get("--inject", [])[::2], values.get("--inject", [])[1::2], strict=True)),
    )


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    if not 1 <= number <= 65535:
        raise UsageError("--forward", f"{text!r} is no port", hint="a number from 1 to 65535")
    return number


def limits_of(values: Values) -> tuple[tuple[str, float | str], ...]:
    """The limits that were given, by the policy's names."""
    given = [(option.name, _in_policy(option.name)) for option in LIMITS if option.name in values]
    if not given:
        return ()
    from ..policy.limits import examples, read_amount

    found: list[tuple[str, float | str]] = []
    for flag, name in given:
        try:
            found.append((name, read_amount(name, values[flag][0])))
        except ValueError:
            raise UsageError(flag, f"does not understand {values[flag][0]!r}", examples(name)) from None
    return tuple(found)


def _in_policy(flag: str) -> str:
    """--file-size is fileSize in a policy."""
    first, *rest = flag.removeprefix("--").split("-")
    return first + "".join(map(str.capitalize, rest))


def render_help(usage: str, about: str, table: tuple[Option, ...], examples: tuple[str, ...]) -> str:
    """The help of one verb."""
    rows = [(f"{option.name} {option.value}".strip(), option.help) for option in table]
    width = max(len(left) for left, _ in rows)
    lines = [f"usage: ringfence {usage}", "", about, "", "options:"]
    lines += [f"  {left:{width}}  {right}" for left, right in rows]
    lines += ["", "examples:", *(f"  {example}" for example in examples)]
    return "\n".join(lines)
