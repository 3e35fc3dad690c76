"""OpenTelemetry traces: one span for each exchange, sent as OTLP over HTTP. Needs the extra `otel`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kproxy.decoders.extras import installing

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler, TraceIdRatioBased
    from opentelemetry.trace import SpanContext, SpanKind, StatusCode, get_current_span
    from opentelemetry.trace import Status as SpanStatus
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(f"OpenTelemetry is missing ({error.name}): {installing('otel')}") from error

from kproxy.addons.api import Observed, Observer
from kproxy.captures.analysis.timelines import nanoseconds
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.opening import iterate_batch
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Status
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.records.places import PLACES, places
from kproxy.decoders.schema import definitions

QUEUE = 50_000
"""Maximum number of spans that wait to be sent to the collector; the SDK drops further ones."""
DELAY_MILLISECONDS = 1000
MOST_LINKS = 128
"""Maximum number of links of a span: the SDK's default limit."""
EXPORT_SECONDS = 2.0
"""Seconds after which an export is given up, so that a slow collector does not delay the end of a run."""


class Traces(Observer):
    """Sends spans for a share `sample` (0 to 1) of all exchanges.

    `endpoint` is a URL such as "http://collector:4318/v1/traces".
    """

    name = "traces"

    def __init__(self, endpoint: str, sample: float, warn: Callable[[str], None]) -> None:
        exporter = _Warning(OTLPSpanExporter(endpoint, timeout=EXPORT_SECONDS), endpoint, warn)
        self._processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE, schedule_delay_millis=DELAY_MILLISECONDS)
        self._provider = self._provider_with(TraceIdRatioBased(sample))
        self._tracer = self._provider.get_tracer("kproxy")
        self._finding_tracer = self._provider_with(ALWAYS_ON).get_tracer("kproxy")

    def exchange(self, observed: Observed) -> None:
        exchange = observed.exchange
        first, last = exchange.request or exchange.response, exchange.response or exchange.request
        if first is None or last is None:
            return
        span = self._tracer.start_span(
            observed.api or "unknown", kind=SpanKind.CLIENT, start_time=first.time, context=None
        )
        if span.is_recording():
            span.set_attributes(_attributes(observed))
            for sender in _senders(observed):
                span.add_link(sender)
            if observed.errors or observed.status not in {Status.OK, Status.NO_REPLY_EXPECTED}:
                span.set_status(SpanStatus(StatusCode.ERROR, ", ".join(observed.errors) or observed.status.value))
        span.end(last.time)

    def finding(self, change: str, finding: dict[str, Any]) -> None:
        """Sends one span for each change of a finding, whatever `sample` is.

        The span covers the time of the evidence.
        """
        span = self._finding_tracer.start_span(
            f"finding {finding['rule']}", start_time=nanoseconds(finding["first_time"]), context=None
        )
        attributes = {
            "kproxy.finding.id": finding["id"],
            "kproxy.finding.rule": finding["rule"],
            "kproxy.finding.severity": finding["severity"],
            "kproxy.finding.scope": escape(f"{finding['scope']['kind']} {finding['scope']['name']}"),
            "kproxy.finding.summary": escape(finding["summary"]),
        }
        span.set_attributes(attributes)
        last = nanoseconds(finding["last_time"])
        span.add_event(f"kproxy.finding.{change}", attributes, timestamp=last)
        if finding["severity"] == "error" and change != "resolved":
            span.set_status(SpanStatus(StatusCode.ERROR, attributes["kproxy.finding.summary"]))
        span.end(last)

    def close(self) -> None:
        """Sends the spans that are still queued."""
        self._provider.shutdown()  # also shuts down the span processor, which both providers share

    def _provider_with(self, sampler: Sampler) -> TracerProvider:
        provider = TracerProvider(
            sampler=sampler, resource=Resource.create({"service.name": "kproxy"}), shutdown_on_exit=False
        )
        provider.add_span_processor(self._processor)
        return provider


def _senders(observed: Observed) -> Iterable[SpanContext]:
    """The contexts of the spans in which the records were produced, each once.

    They come from the records' headers `traceparent` (W3C Trace Context).
    """
    exchange = observed.exchange
    if exchange.protocol is not None or exchange.api_key not in PLACES:
        return ()
    found: dict[bytes, SpanContext] = {}
    for value in _headers(observed, b"traceparent"):
        carrier = {"traceparent": value.decode("ascii", "replace")}
        context = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        if context.is_valid:
            found[value] = context
        if len(found) == MOST_LINKS:
            break
    return found.values()


def _headers(observed: Observed, name: bytes) -> Iterator[bytes]:
    """The values of the header `name` in all records of an exchange."""
    exchange = observed.exchange
    for place in places(exchange.api_key, observed.request, observed.response, Knowledge(), definitions()):
        for batch in parse(place.records, check=False).batches if place.aligned else ():
            for _, _, _, _, headers in iterate_batch(place.records, batch, []):
                for key, value in headers:
                    if key == name and value is not None:
                        yield value


def _attributes(observed: Observed) -> dict[str, str | int | float | bool]:
    exchange = observed.exchange
    host, _, port = observed.broker.rpartition(":")
    peer, _, peer_port = observed.client.rpartition(":")
    found: dict[str, str | int | float | bool] = {
        "messaging.system": "kafka",
        "rpc.system": "kafka",
        "rpc.method": observed.api or "unknown",
        "server.address": host.strip("[]"),
        "server.port": int(port),
        "client.address": peer.strip("[]"),
        "client.port": int(peer_port),
        "kproxy.exchange": exchange.number,
        "kproxy.connection": exchange.connection.number,
        "kproxy.status": observed.status.value,
        "kproxy.long_poll": observed.long_poll,
    }
    optional: dict[str, str | int | float | None] = {
        "messaging.client.id": exchange.client_id,
        "messaging.batch.message_count": observed.records,
        "kproxy.api_version": exchange.api_version,
        "kproxy.correlation_id": exchange.correlation_id,
        "kproxy.about": observed.about or None,
        "kproxy.throttle_seconds": observed.throttle or None,
        "kproxy.request_bytes": None if exchange.request is None else exchange.request.length,
        "kproxy.response_bytes": None if exchange.response is None else exchange.response.length,
        "error.type": observed.errors[0] if observed.errors else None,
    }
    attributes = found | {name: value for name, value in optional.items() if value is not None}
    return {name: escape(value) if isinstance(value, str) else value for name, value in attributes.items()}


class _Warning(SpanExporter):
    """An exporter that passes spans to another one, and warns the user once if the collector does not accept them."""

    def __init__(self, exporter: SpanExporter, endpoint: str, warn: Callable[[str], None]) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._warn = warn
        self._lock = threading.Lock()
        self._warned = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            with self._lock:
                first, self._warned = not self._warned, True
            if first:
                self._warn(f"traces: {self._endpoint} does not accept spans; spans are lost until it does")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
