"""Events as OpenTelemetry spans: a run is a span, and what belongs to it is an event of that span.

Needs the extra `ringfence[otel]`; where spans go is said by OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT
and its kin).
"""

import datetime
import errno
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from ..model.event import AnyEvent, Ran

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

AT_ONCE = 512  # spans
Value = str | int | float | list[str]


def nanoseconds(at: str) -> int:
    """The time of an event as OpenTelemetry says it."""
    since = datetime.datetime.fromisoformat(at) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) * 1000


def attributes(event: AnyEvent) -> dict[str, Value]:
    """What an event says, flat."""
    flat: dict[str, Value] = {}

    def put(name: str, value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                put(f"{name}.{key}", inner)
        elif isinstance(value, list | tuple):
            flat[name] = [str(one) for one in value]
        elif isinstance(value, str | int | float):
            flat[name] = value

    put("ringfence", msgspec.to_builtins(event))
    return flat


def export(events: Iterable[AnyEvent], exporter: "SpanExporter | None" = None) -> int:
    """Send events; how many spans that were. Raises ImportError without the extra, OSError when they were not taken."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

    ended: list[ReadableSpan] = []

    class Collecting(SpanProcessor):
        """Keeps what has ended, so that many are sent at once, and their fate is known."""

        def on_end(self, span: ReadableSpan) -> None:
            ended.append(span)

    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "ringfence"}), shutdown_on_exit=False)
    provider.add_span_processor(Collecting())
    tracer, to, sent = provider.get_tracer("ringfence.audit"), exporter or _exporter(), 0
    for run, rest in _by_run(events):
        _span(tracer, run, rest)
        if len(ended) >= AT_ONCE:
            sent += _send(to, ended, sent)
    sent += _send(to, ended, sent)
    to.shutdown()
    return sent


def _exporter() -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _span(tracer: "Tracer", run: AnyEvent, rest: list[AnyEvent]) -> None:
    from opentelemetry.trace import StatusCode

    end = nanoseconds(run.at)
    seconds = run.seconds if isinstance(run, Ran) else 0.0
    name = run.argv[0] if isinstance(run, Ran) and run.argv else kind_of(run)
    span = tracer.start_span(name, start_time=end - int(seconds * 1e9), attributes=attributes(run))
    for event in rest:
        span.add_event(kind_of(event), attributes(event), nanoseconds(event.at))
    if isinstance(run, Ran) and (run.error or run.exit_code):
        span.set_status(StatusCode.ERROR, run.error or str(run.ending))
    span.end(end)


def _send(to: "SpanExporter", spans: list["ReadableSpan"], sent: int) -> int:
    from opentelemetry.sdk.trace.export import SpanExportResult

    if spans and to.export(spans) is not SpanExportResult.SUCCESS:
        raise OSError(errno.EIO, f"the collector took {sent} spans and no more")
    count = len(spans)
    spans.clear()
    return count


def kind_of(event: AnyEvent) -> str:
    """The word that says what an event is."""
    return str(event.__struct_config__.tag)


def _by_run(events: Iterable[AnyEvent]) -> Iterator[tuple[AnyEvent, list[AnyEvent]]]:
    """Each run with what belongs to it; what belongs to none stands alone. Those of one run are written together."""
    held: list[AnyEvent] = []
    for event in events:
        if held and (event.run != held[0].run or not event.run):
            yield _headed(held)
            held = []
        held.append(event)
    if held:
        yield _headed(held)


def _headed(held: list[AnyEvent]) -> tuple[AnyEvent, list[AnyEvent]]:
    run = next((event for event in held if isinstance(event, Ran)), held[0])
    return run, [event for event in held if event is not run]
