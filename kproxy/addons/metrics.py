"""Prometheus metrics of exchanges and of the relay. See docs/metrics.md.

The relay's metrics are read from its control socket at each scrape.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kproxy.addons.api import Observed, Observer, Progress
from kproxy.addons.scrapes import ScrapeServer
from kproxy.decoders.escaping import escape
from kproxy.decoders.exchange import Health, Status
from kproxy.runs.registry import ask
from kproxy.runs.settings import shown

CLIENTS = 200
"""Maximum number of values of the label `client`; further clients are counted under OTHER."""
BROKERS = 1000
"""Maximum number of values of the label `broker`."""
VERSIONS = 64
"""Maximum number of version labels for one API."""
SOFTWARE = 10_000
"""Maximum number of connections whose client software is remembered; the oldest are forgotten first."""
OTHER = "other"
NONE = "NONE"
"""Kafka's name for error code 0."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the duration histogram, in seconds."""
ASK_SECONDS = 1.0
API_VERSIONS = "ApiVersions"
_ANSWERED = frozenset({Status.OK, Status.NO_REPLY_EXPECTED})


class Capped:
    """Limits the number of values of a label: the first `limit` distinct values stay, all later ones become OTHER."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit:
            return OTHER
        self._seen.add(value)
        return value


class Metrics(Observer):
    """Counts exchanges as Prometheus metrics. `run_dir` is the directory with the relay's control socket."""

    name = "metrics"

    def __init__(self, run_dir: Path | None = None) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "kproxy_requests",
            "Completed exchanges.",
            ("api", "version", "client", "broker", "error"),
            registry=registry,
        )
        self._duration = Histogram(
            "kproxy_request_duration_seconds",
            "From a request's last byte to its response's last byte.",
            ("api", "broker", "kind"),
            buckets=BUCKETS,
            registry=registry,
        )
        parties = ("api", "client", "broker")
        self._up = Counter("kproxy_request_bytes", "Bytes of requests.", parties, registry=registry)
        self._down = Counter("kproxy_response_bytes", "Bytes of responses.", parties, registry=registry)
        self._throttle = Counter(
            "kproxy_throttle_seconds", "Time for which brokers throttled clients.", parties, registry=registry
        )
        self._records = Counter("kproxy_records", "Records produced and fetched.", parties, registry=registry)
        self._behind = Gauge(
            "kproxy_observer_behind_bytes",
            "Bytes of the recording that these metrics do not count yet.",
            registry=registry,
        )
        labels = ("rule", "severity")
        self._findings = Counter(
            "kproxy_findings", "Findings that were opened, or became worse.", labels, registry=registry
        )
        self._open_findings = Gauge(
            "kproxy_open_findings", "Findings that are not resolved.", labels, registry=registry
        )
        self._severities: dict[str, str] = {}
        """Severity of each open finding, by finding id."""
        self._health = Health()
        registry.register(_HealthCollector(self))
        if run_dir is not None:
            registry.register(_RelayCollector(run_dir))
        self._client = Capped(CLIENTS)
        self._broker = Capped(BROKERS)
        self._versions: dict[str, Capped] = {}
        self._software: dict[int, str] = {}
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._server: ScrapeServer | None = None

    def serve(self, host: str, port: int) -> str:
        """Starts a thread that answers scrapes; returns the URL. `host` "*" listens on every IPv4 address.

        Raises OSError.
        """
        address = "0.0.0.0" if host == "*" else host.strip("[]")  # noqa: S104 (asked for)
        self._server = ScrapeServer(address, port, self.registry)
        self._server.start()
        return f"http://{shown(address, self._server.server_port)}/metrics"

    @property
    def health(self) -> Health:
        return self._health

    def exchange(self, observed: Observed) -> None:
        exchange = observed.exchange
        api = observed.api or OTHER
        client, broker = self._client(self._client_of(observed)), self._broker(observed.broker)
        self._child(
            self._requests, api, self._version(api, exchange.api_version), client, broker, _error(observed)
        ).inc()
        for counter, amount in (
            (self._up, 0 if exchange.request is None else exchange.request.length),
            (self._down, 0 if exchange.response is None else exchange.response.length),
            (self._throttle, observed.throttle),
            (self._records, observed.records),
        ):
            if amount:
                self._child(counter, api, client, broker).inc(amount)
        seconds = observed.seconds
        if seconds is not None:
            kind = "long_poll" if observed.long_poll else "data"
            self._child(self._duration, api, broker, kind).observe(max(0.0, seconds))

    def finding(self, change: str, finding: dict[str, Any]) -> None:
        name, rule, severity = finding["id"], finding["rule"], finding["severity"]
        before = self._severities.pop(name, None)
        if before is not None:
            self._open_findings.labels(rule, before).dec()
        if change == "resolved":
            return
        self._severities[name] = severity
        self._open_findings.labels(rule, severity).inc()
        self._findings.labels(rule, severity).inc()

    def progress(self, progress: Progress) -> None:
        self._behind.set(progress.behind)
        self._health = progress.health

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _client_of(self, observed: Observed) -> str:
        """The value of the client label: the client id, else the software named in the ApiVersions request, else ""."""
        exchange = observed.exchange
        number = exchange.connection.number
        if observed.api == API_VERSIONS and (asked := observed.request) and asked.get("clientSoftwareName"):
            self._software[number] = str(asked["clientSoftwareName"])
            if len(self._software) > SOFTWARE:
                del self._software[next(iter(self._software))]
        return exchange.client_id or self._software.get(number, "")

    def _version(self, api: str, version: int | None) -> str:
        if version is None or api == OTHER:
            return OTHER if version is not None else ""
        known = self._versions.get(api)
        if known is None:
            known = self._versions[api] = Capped(VERSIONS)
        return known(str(version))

    def _child(self, metric: Any, *labels: str) -> Any:
        """A metric's child for these label values.

        Children are cached: to look one up in prometheus_client takes longer than to count.
        """
        found = self._children.get((metric, labels))
        if found is None:
            found = self._children[metric, labels] = metric.labels(*map(escape, labels))
        return found


def _error(observed: Observed) -> str:
    """The value of the error label: the name of the first error, or "NONE".

    If there is no response that can be decoded, the label is the exchange's status instead.
    """
    if observed.status not in _ANSWERED:
        return observed.status.value
    if not observed.errors:
        return NONE
    name = observed.errors[0]
    return OTHER if name.startswith("UNKNOWN(") else name


class _HealthCollector:
    """Exports the health counts of the reader as metrics."""

    NAMES = (
        ("gaps", "kproxy_gaps", "Gaps: places where the recording lacks bytes of a connection."),
        ("lost", "kproxy_lost_bytes", "Bytes that are missing in these gaps."),
        ("cut", "kproxy_cut_frames", "Frames of which the recording lacks bytes."),
        ("undecoded", "kproxy_undecoded_frames", "Frames whose body could not be decoded."),
        ("not_kafka", "kproxy_not_kafka_connections", "Connections that carried a protocol other than Kafka's."),
        ("tls", "kproxy_tls_connections", "Connections that carried TLS, which was not read."),
    )

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        health = self._metrics.health
        for attribute, name, text in self.NAMES:
            yield CounterMetricFamily(name, text, value=getattr(health, attribute))


class _RelayCollector:
    """Exports the relay's status as metrics; kproxy_up is 0 if the control socket does not answer."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def describe(self) -> Iterable[Metric]:
        """Returns no metrics, so that registering this collector does not query the relay."""
        return ()

    def collect(self) -> Iterator[Metric]:
        try:
            began = time.monotonic()
            status = ask(self._run_dir, "status", ASK_SECONDS)
            took = time.monotonic() - began
        except (OSError, ValueError):
            yield GaugeMetricFamily("kproxy_up", "1 if the relay answers, else 0.", value=0)
            return
        yield GaugeMetricFamily("kproxy_up", "1 if the relay answers, else 0.", value=1)
        yield GaugeMetricFamily("kproxy_relay_answer_seconds", "How long the relay took to answer.", value=took)
        yield GaugeMetricFamily("kproxy_open_connections", "Clients' open connections.", value=status["connections"])
        yield CounterMetricFamily(
            "kproxy_connections", "Connections that clients have opened.", value=status["connections_total"]
        )
        relayed = CounterMetricFamily("kproxy_relayed_bytes", "Bytes that the relay has forwarded.", labels=("sender",))
        relayed.add_metric(("client",), status["bytes_from_clients"])
        relayed.add_metric(("broker",), status["bytes_from_brokers"])
        yield relayed
        yield GaugeMetricFamily("kproxy_held_bytes", "Bytes of frames being held.", value=status["held_bytes"])
        responses = CounterMetricFamily(
            "kproxy_address_responses",
            "Responses that may carry addresses of brokers, by how the relay treated them.",
            labels=("what",),
        )
        for what, count in status["responses"].items():
            responses.add_metric((what,), count)
        yield responses
        recorder = status["recorder"]
        if recorder is not None:
            packets, dropped = recorder["packets"], recorder["dropped"]
            yield CounterMetricFamily("kproxy_recorder_packets", "Packets recorded.", value=packets)
            yield CounterMetricFamily("kproxy_recorder_bytes", "Bytes recorded.", value=recorder["bytes"])
            yield CounterMetricFamily(
                "kproxy_recorder_dropped_packets", "Packets that were forwarded but not recorded.", value=dropped
            )
            yield GaugeMetricFamily(
                "kproxy_recorder_failed",
                "1 if recording has stopped, else 0.",
                value=float(recorder["failed"] is not None),
            )
