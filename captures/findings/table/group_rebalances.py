"""Rules about rebalances of groups: their causes, and members that delay them."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="group.rebalance_cause",
        number=1,
        title="Group rebalanced",
        severity=Severity.INFO,
        confidence=Confidence.STRONG,
        vantage="all members of the group, at their coordinator",
        meaning="A group got a new generation. Its cause is the first event since the last generation: a member left, "
        "joined, changed its subscription, or disappeared.",
        text="group {group} rebalanced (rebalances: {rebalances}, the longest {longest_s:.1f} s): {causes}",
        cause="See the evidence: each rebalance with what came before it.",
        guards=(
            "The first generation in the capture is not a rebalance.",
            (
                "All JoinGroup requests of a generation count as one rebalance; the first request of a new member is "
                "always refused."
            ),
            "Members that join, or leave by close(), belong to a deployment and do not count for a WARN.",
        ),
        thresholds=(
            Threshold("often", 3, "rebalances", "within 5 min that no deployment explains, for a WARN"),
            Threshold("long_ms", 10000, "ms", "of one JoinGroup, for a WARN"),
        ),
        fixes=(
            Fix(
                "client",
                "group.instance.id, partition.assignment.strategy=cooperative-sticky, or group.protocol=consumer",
                "group.instance.id, partition.assignment.strategy=cooperative-sticky, or group.protocol=consumer",
                "static members may restart without a rebalance; the other settings let members read on meanwhile",
            ),
        ),
        verify="The group keeps its generation between deployments.",
        unknown=("Members outside this capture: a capture at the coordinator shows all.",),
        under=("group.poll_gap", "group.member_vanished", "group.slow_rejoin", "coord.moved"),
    ),
    Rule(
        id="group.slow_rejoin",
        number=4,
        title="A member holds up the rebalance",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="all members of the group, at their coordinator",
        meaning="JoinGroup is answered once every member of the last generation has sent it, or the rebalance "
        "timeout is over. So one member that rejoins late holds up all.",
        text="{waiters:#member} of group {group} waited up to {longest_s:.1f} s for {culprit}",
        cause="The late member rejoins only when it calls poll(): it was processing.",
        guards=(
            "A group's first generation does not count: it waits for group.initial.rebalance.delay.ms.",
            "A member that was not in the last generation does not count: nobody waits for it.",
            "If no late member is in the capture, the finding is a NOTE.",
        ),
        thresholds=(
            Threshold("warn_ms", 5000, "ms", "of the longest JoinGroup, for a WARN"),
            Threshold("error_ms", 30000, "ms", "of the longest JoinGroup, for an ERROR"),
        ),
        fixes=(
            Fix(
                "client",
                "lower the late member's max.poll.records, or its max.poll.interval.ms, which bounds the wait",
                "let the late member poll() more often, or lower its max.poll.interval.ms, which bounds the wait",
                "with cooperative-sticky or group.protocol=consumer the others go on meanwhile",
            ),
        ),
        verify="JoinGroup of all members is answered within a heartbeat interval (3 s).",
        unknown=("A late member outside this capture: a capture at the coordinator shows it.",),
        under=("group.poll_gap", "group.member_vanished"),
    ),
)
