"""Rules about changes of the controller."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="controller.churn",
        number=48,
        title="Controller changes again and again",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="traffic between brokers in ZooKeeper mode; any client's Metadata",
        meaning="The role of the controller moves from broker to broker. Each new one reads the whole state of the "
        "cluster from ZooKeeper, and meanwhile no leader of a partition is elected.",
        text="{count} changes of the controller in {seconds:.0f} s",
        cause="Brokers lose their sessions with ZooKeeper: garbage collection, a slow ZooKeeper, the network.",
        guards=(
            "A controller that asked for a controlled shutdown hands over on purpose.",
            "Each epoch counts once, although the controller tells all brokers.",
            "Changes that only Metadata shows are a NOTE, because Metadata does not show shutdowns.",
            "Only brokers that offer LeaderAndIsr count: those in KRaft mode name a random broker as controller.",
            "A controller that a broker names only once does not count.",
        ),
        thresholds=(
            Threshold("changes", 3, "changes", "within the window"),
            Threshold("window_ms", 600000, "ms", "in which changes are counted"),
            Threshold("planned_ms", 60000, "ms", "after ControlledShutdown of the old controller"),
        ),
        fixes=(
            Fix("broker", None, None, "look at garbage collection and at the latency of ZooKeeper; raise "
                "zookeeper.session.timeout.ms"),
        ),
        verify="The controller epoch in LeaderAndIsr and UpdateMetadata stays the same.",
        unknown=("Why sessions end: the logs of ZooKeeper and of the controllers tell.",),
    ),
    Rule(
        id="controller.failover",
        number=69,
        title="Another node is the controller",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="traffic between brokers, or between controllers",
        meaning="The controller epoch (ZooKeeper mode) or the leader epoch of the controllers (KRaft) rose: another "
        "node is in charge. A controller that still acts in an older epoch is refused.",
        text="{what}",
        cause="The controller was restarted, failed or was cut off.",
        guards=(
            "The first controller in the capture is not a change.",
            ("Errors of single partitions (STALE_CONTROLLER_EPOCH, INVALID_REQUEST in LeaderAndIsr) say that a leader "
            "epoch is not newer: they are harmless."),
            "One or two refusals are a NOTE: the requests were in flight when the controller changed.",
        ),
        thresholds=(Threshold("refused", 3, "responses", "that refuse an old controller, for a WARN"),),
        fixes=(
            Fix("broker", None, None, "if it was not planned: look at the old controller's garbage collection, disk "
                "and network"),
        ),
        verify="The epoch stays the same.",
        unknown=("Whether the change was intended: the old controller's log tells.",),
        under=("kraft.elections", "controller.churn"),
    ),
)  # fmt: skip
