"""Rules about share groups (KIP-932) and Streams groups (KIP-1071)."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="share.poison",
        number=49,
        title="Share group cannot process a record",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="all members of the share group",
        meaning="The broker delivers a record of a share group again until a member accepts it, or until it was "
        "delivered as often as the group allows. After that it is archived: no member gets it, and nobody is told.",
        text="group {group} got offsets {offsets} of {place} {deliveries:#time}{outcome}",
        cause="The program releases these records or fails at them.",
        guards=(
            "Records that were delivered fewer times do not count: members crash, and locks run out.",
            "An earlier delivery of the same records must be in the capture, with a smaller number.",
            "Records that a member rejects do not count: the program says that it cannot use them.",
            "Only a release at the limit that no delivery follows is an ERROR, and only while members are active.",
            "A group with a delivery beyond `limit` has another limit, so it is unknown which records are archived.",
        ),
        thresholds=(
            Threshold("deliveries", 4, "deliveries", "of the same records, for a WARN"),
            Threshold("limit", 5, "deliveries", "after which records are archived: "
                      "group.share.delivery.count.limit, 5 unless it is set"),
            Threshold("wait_ms", 10000, "ms", "without another delivery after the release, for an ERROR"),
        ),
        fixes=(
            Fix("client", "acknowledge(record, REJECT) for what cannot be used, after it was stored elsewhere",
                "acknowledge with REJECT, after the record was stored elsewhere",
                "RELEASE asks for the same record again"),
            Fix("broker", None, None, "group.share.record.lock.duration.ms longer than the slowest record takes; "
                "group.share.delivery.count.limit"),
        ),
        verify="No record of the group is delivered as often.",
        unknown=("The group's own limit: `kafka-configs.sh --describe --entity-type groups` tells.",
                 "Why members fail: their logs tell."),
    ),
    Rule(
        id="streams.status",
        number=50,
        title="Streams group cannot work fully",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="a member's traffic to its coordinator",
        meaning="The coordinator of a Streams group says in its responses to heartbeats why it cannot assign all "
        "tasks, or why it refuses a member's topology.",
        text="group {group}: {what} ({detail}), for {lasted_s:.0f} s",
        cause="Topics do not fit the topology, or members have different ones.",
        guards=(
            "Members may start before their source topics exist, so only a status that lasts counts.",
            "The coordinator creates internal topics, and delays the first assignment by seconds.",
            "During a rolling upgrade a group has two topologies: a NOTE, and a WARN after `upgrade_ms`.",
        ),
        thresholds=(
            Threshold("lasts_ms", 10000, "ms", "of missing or unfit source topics"),
            Threshold("makes_ms", 60000, "ms", "of missing internal topics, or of an assignment put off"),
            Threshold("upgrade_ms", 600000, "ms", "of different topologies, for a WARN"),
            Threshold("gap_ms", 120000, "ms", "without the status, after which it counts anew"),
        ),
        fixes=(
            Fix("client", "create the source topics first, with equal partitions where they are joined", None,
                "Streams makes internal topics only"),
            Fix("client", "update all instances; another topology needs an application.id of its own", None,
                "members of one group have one topology"),
        ),
        verify="Answers to StreamsGroupHeartbeat have no status.",
        unknown=("What the coordinator says to members outside this capture.",),
    ),
)  # fmt: skip
