"""Rules about how consumer groups share partitions, and about the protocol of KIP-848."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="group.idle_members",
        number=33,
        title="Group shares its partitions unevenly",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="the group's leader at its coordinator; in the protocol of KIP-848, all members",
        meaning="Members of a group of consumers have no partition at all, or some have more than others by two or "
        "more. The former do nothing, the latter have more work than the rest.",
        text="group {group}: {what} ({members} members, {partitions} partitions, {assignor})",
        cause="The assignor assigns each topic separately (range), so the first members get one partition more of each "
        "topic.",
        guards=(
            "An assignment counts once it has lasted for a while: members come one after the other.",
            "Members that subscribe to different topics, or whose subscription is not in the capture, do not count.",
            "Assignors other than Kafka's own for consumers (Streams, Connect) do not count.",
            "Members that have left, or whose connection has ended, do not count.",
            "A group whose topics have no partitions does not count: see `meta.topic_missing`.",
            "The finding is a NOTE: members may stand by on purpose.",
        ),
        thresholds=(
            Threshold("lasts_ms", 60000, "ms", "without another assignment"),
            Threshold("difference", 2, "partitions", "between the member with most and the one with fewest"),
        ),
        fixes=(
            Fix("client", "as many consumers as partitions at most", "as many consumers as partitions at most",
                "a partition is read by one member of a group"),
            Fix("broker", None, None, "add partitions to the topics, if keys may move to others"),
            Fix("client", "partition.assignment.strategy=CooperativeStickyAssignor, or group.protocol=consumer",
                "partition.assignment.strategy=cooperative-sticky, or group.protocol=consumer",
                "these share the partitions of all topics together"),
        ),
        verify="In the next assignment each member has partitions, and numbers differ by one at most.",
        unknown=("Whether members stand by on purpose: the group's owner knows.",
                 "How busy each partition is: `kproxy topics` shows its bytes."),
    ),
    Rule(
        id="group.protocol_upgrade",
        number=34,
        title="Group could use the newer rebalance protocol",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="members of the group at their coordinator",
        meaning="A group of consumers uses the classic protocol at a broker that offers the one of KIP-848, in which "
        "the broker assigns partitions and members go on reading those that they keep. With an eager assignor each "
        "rebalance stops all members.",
        text="group {group} joins with the classic protocol, and {broker} offers that of KIP-848: {what}",
        cause="The client's group.protocol is classic, which is its default, or the client is too old for another one.",
        guards=(
            "The broker has to offer ConsumerGroupHeartbeat, and its feature group.version has to be finalized.",
            "Kafka Streams, Kafka Connect and custom assignors cannot use it, so they do not count.",
            "The finding is an INFO, unless a rebalance stopped members with partitions for seconds.",
            "A member that joins for the first time does not count: it has no partitions to stop.",
            "A group with members of both protocols is migrating, which is an INFO.",
        ),
        thresholds=(
            Threshold("stop_ms", 3000, "ms", "from a member's JoinGroup to its assignment, for a NOTE"),
            Threshold("migration_ms", 600000, "ms", "between joins in both protocols: the group migrates"),
        ),
        fixes=(
            Fix("client", "group.protocol=consumer (Java 4.0), without partition.assignment.strategy, "
                "session.timeout.ms and heartbeat.interval.ms",
                "group.protocol=consumer (librdkafka 2.12), without partition.assignment.strategy, session.timeout.ms "
                "and heartbeat.interval.ms",
                "one member after the other: a group may have members of both protocols meanwhile"),
            Fix("client", "partition.assignment.strategy=CooperativeStickyAssignor",
                "partition.assignment.strategy=cooperative-sticky",
                "in the classic protocol members then keep reading what stays theirs"),
        ),
        verify="Members send ConsumerGroupHeartbeat, and Fetch requests go on while the group's epoch grows.",
        unknown=("Whether the client's version has the protocol: ApiVersions names client and version.",),
        under=("group.slow_rejoin",),
    ),
)  # fmt: skip
