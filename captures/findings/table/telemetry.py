"""Rules about the telemetry that clients push to brokers (KIP-714)."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="telemetry.rejected",
        number=63,
        title="Client telemetry is rejected or pointless",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="Brokers collect metrics of clients that subscribe to client-metrics resources (KIP-714). Here the "
        "broker rejects them, so they are lost, or the client pushes although nobody asked for any.",
        text="{client}: {what}",
        cause="The subscription asks for more than the broker takes, or the client does not follow it.",
        guards=(
            "UNKNOWN_SUBSCRIPTION_ID once after a change of the subscription does not count: the client asks again.",
            "The last push of a client that ends does not count: it may come early.",
            "A single push after a subscription without metrics does not count: it may have been in flight.",
        ),
        thresholds=(
            Threshold("times", 3, "responses", "with the same error, or unrequested pushes, within 10 minutes"),
        ),
        fixes=(
            Fix("broker", None, None, "for TELEMETRY_TOO_LARGE fewer metrics in the client-metrics resource, or "
                "telemetry.max.bytes"),
            Fix("client", "the latest version; enable.metrics.push=false switches it off",
                "the latest version; enable.metrics.push=false switches it off", "as a workaround"),
        ),
        verify="Answers to PushTelemetry have no error.",
        unknown=("What the broker does with the metrics: its ClientTelemetry plugin tells.",),
        under=("latency.throttled",),
    ),
)  # fmt: skip
