"""Spans as a collector gets them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from kproxy.addons.traces import MOST_LINKS, Traces
from kproxy.captures.reader import read
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.exchange_json import exchange_json
from kproxy.recording.recorder import Recorder
from kproxy.recording.sinks import File, pcapng_header
from tests.decoders.batches.support import batch, record
from tests.kproxy.addons.support import CAPTURES, findings_of, nothing, observe
from tests.support.scripts import request, response


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self, code: int) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    collector.requests.append(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(code)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """Those of exchanges."""
        return [span for span in self.all_spans if not span.name.startswith("finding ")]

    @property
    def findings(self) -> list[Span]:
        return [span for span in self.all_spans if span.name.startswith("finding ")]

    @property
    def all_spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collecting(code: int = 200) -> Iterator[Collector]:
    collector = Collector(code)
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()


def attributes(span: Span) -> dict[str, object]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in span.attributes}


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_span_an_exchange(capture: Path) -> None:
    said: list[str] = []
    with collecting() as collector:
        observe(capture, Traces(collector.endpoint, 1.0, said.append))
    assert said == []
    reader = read([capture])
    found = [item for item in reader if isinstance(item, Exchange)]
    spans = {attributes(span)["kproxy.exchange"]: span for span in collector.spans}
    assert len(spans) == len(found) == len(collector.spans)
    for exchange in found:
        line = exchange_json(exchange, reader.source, reader.definitions)
        span = spans[exchange.number]
        has = attributes(span)
        first, last = exchange.request or exchange.response, exchange.response or exchange.request
        assert first is not None
        assert last is not None
        assert (span.name, span.kind) == (line["api"], Span.SPAN_KIND_CLIENT)
        assert (span.start_time_unix_nano, span.end_time_unix_nano) == (first.time, last.time)
        assert f"{has['server.address']}:{has['server.port']}" == line["broker"]
        assert has.get("messaging.client.id") == line["client_id"]
        assert has["messaging.system"] == "kafka"
        failed = bool(line["error_codes"]) or line["status"] not in {"ok", "no_reply_expected"}
        assert (span.status.code == SpanStatus.STATUS_CODE_ERROR) == failed
        assert has.get("error.type") == (line["error_codes"] or [None])[0]


@pytest.mark.parametrize("sample", [0.0, 1.0])
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_span_a_finding_whatever_is_sampled(capture: Path, sample: float) -> None:
    with collecting() as collector:
        observe(capture, Traces(collector.endpoint, sample, nothing))
    spans = {attributes(span)["kproxy.finding.id"]: span for span in collector.findings}
    found = findings_of(capture)
    assert set(spans) == {one.id for one in found}
    for one in found:
        span = spans[one.id]
        assert span.name == f"finding {one.rule}"
        assert span.start_time_unix_nano == one.first_time
        assert one.first_time <= span.end_time_unix_nano <= one.last_time, "its latest evidence when it opened"
        assert [event.name for event in span.events] == ["kproxy.finding.opened"]


def test_a_share_is_sampled() -> None:
    with collecting() as collector:
        observe(CAPTURES[0], Traces(collector.endpoint, 0.0, nothing))
    assert collector.spans == []


def test_a_collector_that_takes_nothing_is_named_once() -> None:
    said: list[str] = []
    with collecting(400) as collector:
        observe(CAPTURES[0], Traces(collector.endpoint, 1.0, said.append))
    assert said == [f"traces: {collector.endpoint} does not accept spans; spans are lost until it does"]


def test_records_link_to_the_spans_that_they_were_sent_in(tmp_path: Path) -> None:
    def sent(number: int) -> bytes:
        return b"00-%032x-%016x-01" % (number, number)

    several = [
        record(0, None, b"a", [(b"other", b"00"), (b"traceparent", sent(7))]),
        record(1, None, b"b", [(b"traceparent", sent(7)), (b"traceparent", sent(8))]),
        record(2, None, b"c", [(b"traceparent", None), (b"traceparent", b"\xff, or whatever")]),
    ]
    many = b"".join(record(at, None, b"", [(b"traceparent", sent(at + 1))]) for at in range(200))
    written = {1: batch(gzip.compress(b"".join(several)), 3, attributes=1), 2: batch(many, 200)}
    recorder = Recorder(File(tmp_path / "r.pcapng", pcapng_header("x")), lambda *_: None, nothing, threaded=False)
    flow = recorder.connection(("10.0.0.1", 40001), ("10.0.0.2", 9092))
    for number, records in written.items():
        partition = {"index": 0, "records": records}
        flow.data(0, request(0, 9, number, acks=1, topicData=[{"name": "orders", "partitionData": [partition]}]))
        flow.data(1, response(0, 9, number))
    flow.data(0, request(1, 12, 3))
    answered = {"topic": "orders", "partitions": [{"partitionIndex": 0, "records": written[1]}]}
    flow.data(1, response(1, 12, 3, responses=[answered]))
    recorder.close()
    with collecting() as collector:
        observe(tmp_path / "r.pcapng", Traces(collector.endpoint, 1.0, nothing))
    first, second, third = sorted(collector.spans, key=lambda span: int(str(attributes(span)["kproxy.correlation_id"])))
    for span in (first, third):
        assert [(int(link.trace_id.hex(), 16), int(link.span_id.hex(), 16)) for link in span.links] == [(7, 7), (8, 8)]
    assert len(second.links) == MOST_LINKS
    assert first.parent_span_id == b""
