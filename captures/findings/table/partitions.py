"""Rules about partitions that lack in-sync replicas or a leader."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="isr.shrunk",
        number=44,
        title="Partitions lack replicas, or a leader",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="any client's traffic, or that of controllers to brokers",
        meaning="Metadata or the controller names replicas that are not in sync (ISR), or partitions without a "
        "leader; or Produce is refused because too few replicas are in sync. One more failure may cost records, or "
        "the partition cannot be used at all.",
        text="{what} for {seconds:.0f} s (partitions: {partitions}; {example})",
        cause="A broker is down, restarts, or is too slow to fetch (replica.lag.time.max.ms).",
        guards=(
            "A replica that is missing for less than a minute is an INFO: a planned restart looks like this.",
            "A replica that was never in sync in the capture, and is not offline, is a NOTE: it may be a new one.",
            ("Elections take seconds, so a partition must be without a leader for `unusable_ms`, in two responses, or "
            "until the controller names a leader."),
            "A topic that is being deleted does not count: its partitions have no leader.",
            "A success of a producer with acks=all ends the count of refusals.",
        ),
        thresholds=(
            Threshold("short_ms", 30000, "ms", "for which a replica is out of the ISR"),
            Threshold("long_ms", 60000, "ms", "for which a replica is out of the ISR, for a WARN"),
            Threshold("unusable_ms", 5000, "ms", "without leader, or refusing records, for a WARN"),
            Threshold("error_ms", 30000, "ms", "without leader, or refusing records, for an ERROR"),
            Threshold("refused", 3, "responses", "that refuse records, without a success between them"),
        ),
        fixes=(
            Fix("broker", None, None, "start the missing broker, or look at its disk, network and garbage collection; "
                "kafka-topics.sh --describe --under-replicated-partitions names all partitions"),
            Fix("broker", None, None, "replication.factor above min.insync.replicas, so that one broker may be down"),
            Fix("client", "delivery.timeout.ms, enable.idempotence", "message.timeout.ms, enable.idempotence",
                "producers retry until enough replicas are in sync; NOT_ENOUGH_REPLICAS_AFTER_APPEND may write "
                "records twice without idempotence"),
        ),
        verify="In Metadata every partition has a leader, and all its replicas in the ISR.",
        unknown=(
            "What happened between two Metadata responses, and why the broker is gone: see its log.",
            "Partitions of topics that no client asks about: traffic of controllers to brokers tells.",
        ),
        under=("kraft.broker_fenced", "replica.lag"),
    ),
)  # fmt: skip
