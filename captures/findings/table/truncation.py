"""Rules about partitions that lost records."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="log.truncated",
        number=43,
        title="Partition lost records",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="consumers of the partition",
        meaning="The log of a partition ends before what was read from it, or its high watermark fell with a new "
        "leader: acknowledged records are gone, and other records may have their offsets. Or the topic was deleted, "
        "and another one has its name.",
        text="{partition}: {what}; offsets lost: {lost}",
        cause="A replica that was out of sync became leader (unclean.leader.election.enable), or a broker lost its "
        "disk's last writes.",
        guards=(
            "Followers truncate what was never committed: only consumers' traffic counts.",
            "A new leader's high watermark lags for a moment: it must stay lower for longer than a replica may lag.",
            "A lower high watermark in the same leader epoch comes from a follower, and does not count.",
            "A consumer on a new connection may be another consumer, so a lost position is only inferred.",
            "If the topic was deleted and recreated, the finding is a NOTE.",
        ),
        thresholds=(
            Threshold("lasts_ms", 40000, "ms", "for which a high watermark stays lower: over replica.lag.time.max.ms"),
        ),
        fixes=(
            Fix("broker", None, None, "unclean.leader.election.enable=false, min.insync.replicas=2 and a replication "
                "factor of 3"),
            Fix("client", "acks=all", "acks=all", "acks=1 is acknowledged before any follower has the record"),
        ),
        verify="OffsetForLeaderEpoch answers offsets at or beyond the consumers' positions.",
        unknown=(
            "Which records are gone: the log of the old leader has them, until it truncates.",
            "Losses that new records cover before anybody reads: a capture between the brokers tells.",
        ),
        under=("leader.unclean",),
    ),
)  # fmt: skip
