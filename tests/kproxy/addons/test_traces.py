"""Spans as a collector gets them."""

from __future__ import annotations

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

from captures.reader import read
from decoders.exchange import Exchange
from decoders.exchange_json import exchange_json
from kproxy.addons.traces import Traces
from tests.kproxy.addons.support import CAPTURES, nothing, observe


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


def test_a_share_is_sampled() -> None:
    with collecting() as collector:
        observe(CAPTURES[0], Traces(collector.endpoint, 0.0, nothing))
    assert collector.spans == []


def test_a_collector_that_takes_nothing_is_named_once() -> None:
    said: list[str] = []
    with collecting(400) as collector:
        observe(CAPTURES[0], Traces(collector.endpoint, 1.0, said.append))
    assert said == [f"traces: {collector.endpoint} does not take spans; they are lost until it does"]
