"""Rules about coordinators of groups and transactions."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="coord.moved",
        number=38,
        title="Coordinator moved or is not available",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="clients of the group or transactional id",
        meaning="The broker that coordinates a group or transactional id changed, or it cannot answer yet. Meanwhile "
        "members cannot commit, join or heartbeat, and producers cannot commit transactions.",
        text="{what}: {example}",
        cause="The coordinating broker was restarted, or lost its partition of __consumer_offsets or "
        "__transaction_state.",
        guards=(
            "A move is an INFO: restarts cause one, and clients find the new coordinator by themselves.",
            "NOT_COORDINATOR counts only from a broker that was the coordinator for `stable_ms` before.",
            "NOT_COORDINATOR and a new response of FindCoordinator within a minute are one move.",
            "A single success ends the time in which the coordinator was loading or not available.",
            "One move away from each broker that stops does not count for `often`: upgrades restart all, one by one.",
        ),
        thresholds=(
            Threshold("stable_ms", 10000, "ms", "that the broker must have been the coordinator"),
            Threshold("loading_ms", 10000, "ms", "of COORDINATOR_LOAD_IN_PROGRESS, for a WARN"),
            Threshold("missing_ms", 30000, "ms", "of COORDINATOR_NOT_AVAILABLE, for a WARN"),
            Threshold("often", 3, "moves", "of one coordinator within 10 minutes, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "restart brokers one by one, and wait until each is in sync again; find out why "
                "leaders of __consumer_offsets move"),
            Fix("broker", None, None, "offsets.topic.replication.factor and transaction.state.log.replication.factor "
                "of 3; make sure that the log cleaner compacts these topics, as large ones load slowly"),
        ),
        verify="Answers to Heartbeat, OffsetCommit and JoinGroup have no NOT_COORDINATOR, and FindCoordinator keeps "
        "answering one node.",
        unknown=("Why the leader moved: the controller's log tells.",),
    ),
)  # fmt: skip
