"""Events in the words of others: OCSF documents, and OpenTelemetry spans that a collector takes."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from ringfence.audit import otel
from ringfence.audit.ocsf import document
from ringfence.model import Denial, Exited
from ringfence.model.event import AnyEvent, Changed, Denied, Escaped, Granted, Noted, Ran, Signed

AT = "2026-05-01T12:00:00.250000Z"
EVENTS: dict[str, AnyEvent] = {
    "run": Ran(at=AT, run="r", argv=("npm", "test"), cwd="/ws", ending=Exited(1), exit_code=1, seconds=0.25),
    "read": Denied(at=AT, run="r", denial=Denial("read", "/home/a/.ssh/id", "built-in denies it")),
    "connect": Denied(at=AT, run="r", denial=Denial("connect", "example.org:443", "no rule")),
    "call": Denied(at=AT, denial=Denial("call", "Bash cp a /etc/b:1", "it writes '/etc/b'")),
    "grant": Granted(at=AT, workspace="/ws", grants=("--allow-read /x",)),
    "escape": Escaped(at=AT, run="r", what=("nothing was enforced",)),
    "signature": Signed(at=AT, run="r", what=("signature 1 by the ssh agent, with SHA256:x",)),
    "policy": Changed(at=AT, workspace="/ws", what="trusted", policies=("/ws/p 00",)),
    "log": Noted(at=AT, what="the log begins"),
}
# Required of every class by the schema, and the class of each.
REQUIRED = {"class_uid", "category_uid", "activity_id", "type_uid", "severity_id", "time", "metadata"}
CLASSES = {"run": 1007, "read": 1001, "connect": 4001, "grant": 3004, "escape": 2004, "policy": 3004, "log": 0}
CLASSES |= {"signature": 0, "call": 0}
OWN = {"run": "process", "read": "file", "connect": "dst_endpoint", "grant": "entity", "escape": "finding_info"}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_has_what_its_class_requires(name: str) -> None:
    said = document(EVENTS[name], 7, "host", "1.0")

    assert said.keys() >= REQUIRED | ({OWN[name]} if name in OWN else set())
    assert (said["class_uid"], said["time"]) == (CLASSES[name], 1777636800250)
    assert said["type_uid"] == CLASSES[name] * 100 + said["activity_id"]  # type: ignore[operator]


@pytest.mark.parametrize("name", ["read", "connect", "call"])
def test_a_denial_was_blocked(name: str) -> None:
    said = document(EVENTS[name], 7, "host", "1.0")

    assert (said["action_id"], said["disposition_id"]) == (2, 2)
    assert ("dst_endpoint" in said) == (name == "connect")


def test_a_run_that_never_began_has_no_exit_code() -> None:
    said = document(Ran(at=AT, run="r", argv=("x",), error="a policy could not be read"), 7, "host", "1.0")

    assert ("exit_code" in said, said["status_id"]) == (False, 2)


def test_a_run_is_a_span_and_its_denials_are_events_of_it() -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    sent = otel.export([EVENTS["log"], EVENTS["run"], EVENTS["read"], EVENTS["connect"], EVENTS["grant"]], kept)
    spans = {span.name: span for span in kept.get_finished_spans()}
    run = spans["npm"]

    assert sent == 3
    assert [event.name for event in run.events] == ["denial", "denial"]
    assert (run.end_time or 0) - (run.start_time or 0) == 250_000_000
    assert run.attributes is not None
    assert run.attributes["ringfence.argv"] == ("npm", "test")
    assert not run.status.is_ok


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is posted."""

    taken: list[tuple[str, int]]
    code = 200

    def do_POST(self) -> None:
        self.taken.append((self.path, len(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(self.code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Collector]]:
    handler = type("Handler", (Collector,), {"taken": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_go_to_a_collector(collector: type[Collector]) -> None:
    assert otel.export(EVENTS.values()) == 6
    assert [path for path, size in collector.taken if size > 100] == ["/v1/traces"]


def test_a_collector_that_refuses_is_an_error(collector: type[Collector]) -> None:
    collector.code = 400

    with pytest.raises(OSError, match="took 0 spans"):
        otel.export(EVENTS.values())
