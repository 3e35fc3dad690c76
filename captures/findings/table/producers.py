"""Rules about producers that send batches again."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="producer.retry_dup",
        number=12,
        title="Producer sends batches again",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this producer's traffic",
        meaning="A producer sent the same batch to a partition again, as it got no response or an error. An idempotent "
        "producer's batch is written once. Any other producer's batch is written twice if the broker got both.",
        text="{client}: batches for topic {topic} {what} (batches: {count}, records: {records}; {example})",
        cause="A response was lost or late, and the producer is not idempotent.",
        guards=(
            "Batches are compared by producer id, epoch and sequence; without these by size, CRC and timestamps.",
            "A batch that is sent again after its success response reached the client does not count.",
            "Equal batches that are in flight at the same time do not count.",
            (
                "If the first send succeeded only after the second began, the producer must have closed the first "
                "connection."
            ),
            "Errors that say that nothing was written (a moved leader, too few replicas) do not count.",
            "A request without response counts only if nothing of its connection is missing.",
            "OUT_OF_ORDER_SEQUENCE_NUMBER after a failed batch does not count: it is a consequence.",
        ),
        thresholds=(
            Threshold("share", 0.1, "of all sends", "that are retries within a minute, for a NOTE"),
            Threshold("sends", 20, "sends", "at least, in that minute"),
            Threshold("minutes", 2, "minutes", "with so many retries, for a WARN"),
        ),
        fixes=(
            Fix("client", "enable.idempotence=true (the default since 3.0; needs acks=all)",
                "enable.idempotence=true (the default is false)",
                "brokers then recognise a batch that is sent again"),
            Fix("client", "request.timeout.ms, delivery.timeout.ms", "socket.timeout.ms, message.timeout.ms",
                "longer than the broker's slowest response, so that fewer batches are sent again"),
            Fix("broker", None, None, "find out why responses are late or lost: lagging replicas, cut connections"),
        ),
        verify="No batch is sent twice; Produce responses have no DUPLICATE_SEQUENCE_NUMBER and no "
        "OUT_OF_ORDER_SEQUENCE_NUMBER.",
        unknown=(
            "Whether the broker wrote a batch that it never acknowledged: consumers would then read it twice.",
            "Records that were sent again in another batch, or under another producer id: payloads are not compared.",
        ),
        under=("isr.shrunk", "leader.stale", "conn.abandoned"),
    ),
)  # fmt: skip
