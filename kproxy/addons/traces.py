"""OpenTelemetry traces: one span for each exchange, sent as OTLP over HTTP. Needs the extra `otel`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

try:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
    from opentelemetry.trace import SpanContext, SpanKind, StatusCode, get_current_span
    from opentelemetry.trace import Status as SpanStatus
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(f"OpenTelemetry is missing ({error.name}): pip install 'kafka-kproxy[otel]'") from error

from kproxy.addons.api import Observed, Observer
from kproxy.decoders.batches.batch import parse
from kproxy.decoders.batches.opening import iterate_batch
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Status
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.records.places import PLACES, places
from kproxy.decoders.schema import definitions

QUEUE = 50_000
"""Most spans that wait for the collector; the SDK drops further ones."""
DELAY_MILLISECONDS = 1000
MOST_LINKS = 128
"""Most links of a span: the SDK's default limit."""
EXPORT_SECONDS = 2.0
"""Deadline of one export: the end of a run does not wait much longer for the indexer."""


class Traces(Observer):
    """Sends a share `sample` of all exchanges to `endpoint`, a URL such as "http://collector:4318/v1/traces"."""

    name = "traces"

    def __init__(self, endpoint: str, sample: float, warn: Callable[[str], None]) -> None:
        exporter = _Warning(OTLPSpanExporter(endpoint, timeout=EXPORT_SECONDS), endpoint, warn)
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(sample),
            resource=Resource.create({"service.name": "kproxy"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=QUEUE, schedule_delay_millis=DELAY_MILLISECONDS)
        )
        self._tracer = self._provider.get_tracer("kproxy")

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

    def close(self) -> None:
        """Sends the spans that still wait."""
        self._provider.shutdown()


def _senders(observed: Observed) -> Iterable[SpanContext]:
    """The spans in which the records were sent, each once: from their headers `traceparent` (W3C Trace Context)."""
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
    """The values of a header in all records of an exchange."""
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
        "kproxy.request_bytes": None if exchange.request is None else exchange.request.size + 4,
        "kproxy.response_bytes": None if exchange.response is None else exchange.response.size + 4,
        "error.type": observed.errors[0] if observed.errors else None,
    }
    attributes = found | {name: value for name, value in optional.items() if value is not None}
    return {name: escape(value) if isinstance(value, str) else value for name, value in attributes.items()}


class _Warning(SpanExporter):
    """Passes spans on and warns once if the collector does not accept them."""

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
                self._warn(f"traces: {self._endpoint} does not take spans; they are lost until it does")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
