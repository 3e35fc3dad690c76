"""Rules about elections of leaders from outside the ISR."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule

ROWS = (
    Rule(
        id="leader.unclean",
        number=70,
        title="An out-of-sync replica became leader",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="traffic of controllers to brokers; any client's Metadata",
        meaning="No replica in sync was alive, so the controller made another one the leader (unclean election). "
        "Records that it had not copied are lost, though producers were told that they are stored.",
        text="{partition}: node {leader} became leader, and {known}",
        cause="unclean.leader.election.enable is true, or somebody asked for it (ElectLeaders, "
        "kafka-leader-election.sh --election-type unclean), after all brokers in the ISR failed.",
        guards=(
            "When a partition is first seen, its earlier ISR is unknown, so nothing is reported.",
            "Records that were fetched long after they were written do not count.",
            ("In ZooKeeper mode leaders change the ISR by themselves, so a restarted replica may be in it again: if "
            "the partition's version shows that a change was missed, the finding is a NOTE."),
            "A leader from the last ISR does not count, nor does a topic that was recreated.",
            ("In Metadata, only partitions count that had an ISR but no leader: with eligible leader replicas "
            "(KIP-966) the ISR is empty, and the new leader may have all records."),
        ),
        thresholds=(),
        fixes=(
            Fix("broker", None, None, "unclean.leader.election.enable=false, min.insync.replicas=2 and a replication "
                "factor of 3"),
            Fix("client", "acks=all", "acks=all", "with min.insync.replicas=2 an acknowledged record has two copies"),
        ),
        verify="Leaders change only to nodes in the ISR.",
        unknown=(
            ("How many records are lost: consumers' positions beyond the end of the log tell (log.truncated), and the "
            "log of the old leader has them, until it truncates."),
        ),
    ),
)  # fmt: skip
