"""Rules about partitions that move to other brokers."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="partition.reassign",
        number=73,
        title="Partitions move to other brokers",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="traffic of controllers to brokers; an administrator's requests",
        meaning="A reassignment adds replicas, waits until they are in sync, then removes others. The copying takes "
        "disk and network from clients until it is done.",
        text="{topic}: {what}",
        cause="Somebody reassigns partitions (kafka-reassign-partitions.sh, Cruise Control).",
        guards=(
            "A new replica that copies, or joins the ISR, makes progress, however long it takes.",
            ("Without the new replica's Fetch requests in the capture its copying cannot be seen: the finding is a "
            "NOTE."),
            (
                "A move that only an administrator's requests show is never reported as stuck: the capture may lack "
                "its end."
            ),
            "Moves in records that were fetched long after they were written do not count.",
            "Silence on a connection with missing bytes proves nothing.",
        ),
        thresholds=(
            Threshold("stuck_ms", 300000, "ms", "without progress, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "start the brokers that are to have the new replicas; raise the throttle with "
                "kafka-reassign-partitions.sh --execute --additional --throttle"),
        ),
        verify="ListPartitionReassignments answers with no partition.",
        unknown=("How many bytes are left to copy: the log directories of both brokers tell.",),
    ),
)  # fmt: skip
