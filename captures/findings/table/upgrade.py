"""Rules about versions: clients that a newer broker would not, or does not, understand."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="upgrade.cutoff",
        number=14,
        title="Client that Kafka 4 cuts off",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="Kafka 4.0 removed old versions of requests (KIP-896). A client that has no newer "
        "ones cannot talk to such a broker: the broker closes the connection without an answer.",
        text="{client} ({software}) uses {worst} at most; Kafka {target} answers {needed} and newer",
        cause="The client's library is older than what Kafka 4 supports.",
        guards=(
            "A client that asks for versions and uses the newest that an old broker offers may well know newer ones.",
            "Brokers talk to each other with the versions of their own release.",
            "Fewer requests than `probes` are a NOTE.",
            "A connection whose beginning is missing may have asked for versions before.",
        ),
        thresholds=(Threshold("probes", 3, "requests", "of a version that would be refused, for a WARN"),),
        fixes=(
            Fix(
                "client",
                "kafka-clients 2.1 or newer",
                "librdkafka 2.11.1 or newer",
                "KIP-896 keeps what the Java client speaks from 2.1 on; Kafka 4.0.0 lacks JoinGroup v0 and v1 as well",
            ),
        ),
        verify="After the update, requests of this client have the versions named, or newer.",
        unknown=("Clients that were silent during the capture: watch for as long as the rarest job takes to come.",),
    ),
    Rule(
        id="upgrade.refused",
        number=14,
        title="Broker refuses a request's version",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The request has a version that the broker does not have. Brokers close such a connection at once, "
        "without an answer; only an ApiVersions request is answered.",
        text="{client} sent {api} v{version} to {broker}, which answers v{low} to v{high}: closed after "
        "{closed_ms:.0f} ms",
        cause="The client's library is too old, or too new, for the broker.",
        guards=(
            "Only if the broker's versions are known from an ApiVersions response.",
            "A Kafka 4 broker offers Produce from v0 on and still refuses v0 to v2.",
            "Only if the connection closed within `close_ms` of the request, and the capture has all of it.",
        ),
        thresholds=(Threshold("close_ms", 1000, "ms", "longest time from the request to the close"),),
        fixes=(Fix("client", "kafka-clients 2.1 or newer", "librdkafka 2.11.1 or newer", "as for `upgrade.cutoff`"),),
        verify="The client's requests of this API are answered.",
    ),
)
