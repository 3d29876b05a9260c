"""`ringfence log`: what was run, refused, granted and changed; whether the record is whole; and the way out of it."""

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..keep import environment
from ..model import RingfenceError, UsageError
from ..policy.trust import audit_of
from .options import OUTPUT, Option, Values, give, one, parse_around, printable, render_help, say, with_extra

if TYPE_CHECKING:
    from ..audit.wanted import Wanted
    from ..model.event import AnyEvent

TABLE = (
    Option("--since", "TIME", "only what happened since: 10m, 2h, 3d, or a date like 2026-05-01T12:00"),
    Option("--denied", "", "only what was refused"),
    Option("--session", "NAME", "only of this session"),
    Option("--run", "ID", "only of this run"),
    Option("--follow", "", "go on with what happens from now on"),
    Option("--head", "HASH", "verify: the log must have had this hash at its end once"),
    *OUTPUT,
)
EXAMPLES = (
    "ringfence log --since 1h --denied",
    "ringfence log --follow --json",
    "ringfence log verify",
    "ringfence log export ocsf --since 1d",
)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
FORMATS = ("ocsf", "otel")
PAUSE = 0.2  # seconds, between two looks for something new


def main(words: list[str]) -> int:
    """Show, verify or export. The exit code of `verify` is 0 when the log is whole, and 1 when it is not."""
    values, rest = parse_around(words, TABLE)
    if "--help" in values:
        about = "Shows the audit log: one event for each run, denial, grant, escape and change of policy.\n"
        about += "The exit code of `verify` is 0 when the log is whole, and 1 otherwise."
        print(render_help("log [verify | export ocsf|otel] [options]", about, TABLE, EXAMPLES))
        return 0
    directory = audit_of(environment())
    if not directory:
        raise UsageError("log", "there is no home directory to keep it in", hint="set HOME or XDG_STATE_HOME")
    _sweep()
    if rest == ["verify"]:
        return verify(directory, values)
    if rest[:1] == ["export"] and len(rest) == 2 and rest[1] in FORMATS:
        return export(directory, rest[1], wanted_of(values))
    if rest:
        raise UsageError(" ".join(rest), "is not understood", hint="ringfence log [verify | export ocsf|otel]")
    return show(directory, values)


def _sweep() -> None:
    """First what runs left whose ringfence was killed."""
    from ..audit import LogError
    from ..record import sweep

    try:
        sweep()
    except (LogError, OSError) as error:
        say(f"ringfence: the events of runs that were killed could not be written: {error}")


def wanted_of(values: Values) -> "Wanted":
    """Which events were asked for."""
    from ..audit.wanted import Wanted

    since = one(values, "--since")
    return Wanted(
        since=moment(since) if since else "",
        denied="--denied" in values,
        session=one(values, "--session") or "",
        run=one(values, "--run") or "",
    )


def moment(text: str) -> str:
    """A time as events say it: so long ago, or a date."""
    import datetime

    try:
        if text[:-1].isdigit() and text[-1] in UNITS:
            then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=int(text[:-1]) * UNITS[text[-1]])
        else:
            then = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise UsageError("--since", f"does not understand {text!r}", "10m, 2h, 3d, or 2026-05-01T12:00") from None
    return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def show(directory: str, values: Values) -> int:
    """The events, a line each; with --json as they are written."""
    from ..audit.index import find
    from ..audit.wanted import Wanted

    wanted = wanted_of(values)
    as_json, follows = "--json" in values, "--follow" in values
    ends = _ends(directory) if follows else {}  # before what is shown: nothing falls between
    is_empty = True
    for event, line in find(directory, wanted):
        is_empty = False
        _print(event, line, as_json)
    if follows:
        _follow(directory, wanted, as_json, ends)
    if is_empty and not as_json and "RINGFENCE" in os.environ:
        say("ringfence: log: is kept from what runs inside a sandbox")
    elif is_empty and not as_json:
        say(f"ringfence: log: {'no event yet' if wanted == Wanted() else 'no such event'} in {directory}")
    return 0


def _print(event: "AnyEvent", line: bytes, as_json: bool) -> None:
    if as_json:
        print(line.decode("utf-8", "replace").rstrip("\n"))
        return
    from ..audit.words import rendered

    print(printable(rendered(event)))


def _ends(directory: str) -> dict[int, int]:
    from ..audit.chain import snapshot

    head, sizes = snapshot(directory)
    return sizes | ({head.file: head.size} if head else {})


def _follow(directory: str, wanted: "Wanted", as_json: bool, ends: dict[int, int]) -> None:
    from ..audit.wanted import event_of, is_wanted

    while True:
        for line in _new(directory, ends):
            event = event_of(line)
            if event is not None and is_wanted(event, wanted):
                _print(event, line, as_json)
        sys.stdout.flush()
        time.sleep(PAUSE)


def _new(directory: str, ends: dict[int, int]) -> Iterator[bytes]:
    """Whole lines that were added since the last look."""
    from ..audit.chain import lines, numbers

    for number in numbers(directory):
        if number < max(ends, default=0):
            continue
        for offset, line in lines(directory, number, ends.get(number, 0)):
            if line.endswith(b"\n"):
                ends[number] = offset + len(line)
                yield line


def verify(directory: str, values: Values) -> int:
    """Whether every event is as it was written."""
    from ..audit.chain import verify as look

    report = look(directory, one(values, "--head") or "")
    document = {"schema": "ringfence/log@1", "events": report.events, "files": report.files, "head": report.head}
    document |= {"ok": report.ok, "faults": report.faults, "remarks": report.remarks}
    lines = [*(f"fault: {fault}" for fault in report.faults), *(f"remark: {remark}" for remark in report.remarks)]
    whole = "whole" if report.ok else f"not whole, {len(report.faults)} faults"
    whole += f": {report.events} events in {report.files} files, the last with hash {report.head}"
    give(values, document, *lines, whole)
    return 0 if report.ok else 1


def export(directory: str, form: str, wanted: "Wanted") -> int:
    """The events in the words of others."""
    from ..audit.index import find

    if form == "otel":
        from ..audit.otel import export as send

        try:
            count = send(event for event, _ in find(directory, wanted))
        except ImportError:
            what = "needs OpenTelemetry, which is not installed"
            raise UsageError("export otel", what, hint=with_extra("otel")) from None
        except OSError as error:
            where = "OTEL_EXPORTER_OTLP_ENDPOINT names the collector; without it that is http://localhost:4318"
            raise RingfenceError("export otel", error.strerror or str(error), hint=where) from None
        print(f"sent {count} spans")
        return 0
    import msgspec

    from .. import __version__
    from ..audit.log import number_of
    from ..audit.ocsf import document

    for event, line in find(directory, wanted):
        said = document(event, number_of(line), os.uname().nodename, __version__)
        print(msgspec.json.encode(said).decode())
    return 0
