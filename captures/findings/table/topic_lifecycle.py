"""Rules about the creation and deletion of topics."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="topic.lifecycle",
        number=72,
        title="Topic created or deleted",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="traffic of controllers to brokers",
        meaning="The controller created or deleted a topic. In ZooKeeper mode a deletion may wait, for days, after the "
        "client was told that it succeeded: then a topic of that name cannot be created either.",
        text="{what}",
        cause="An administrator, a client (auto.create.topics.enable), Kafka Streams or Kafka itself.",
        guards=(
            ("A new controller tells each broker of all partitions: before version 1 of LeaderAndIsr, which marks new "
            "ones, only partitions that come later count."),
            "Records that were fetched long after they were written do not count.",
            "A deletion is late only if the capture has the controller's requests to brokers, and they go on.",
            "In KRaft mode no deletion is late: KRaft deletes topics at once.",
            "Topic names that Kafka does not allow do not count.",
        ),
        thresholds=(
            Threshold("settled_ms", 10000, "ms", "after a controller's first request to a broker"),
            Threshold("stuck_ms", 60000, "ms", "from DeleteTopics to StopReplica at all its brokers, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "start the brokers that have replicas of the topic; the controller's log says "
                "which are ineligible for deletion"),
        ),
        verify="StopReplica with deletePartition names the topic, at all brokers that have replicas of it.",
        unknown=("Topics that were created or deleted before the capture.",),
    ),
)  # fmt: skip
