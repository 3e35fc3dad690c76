"""Rules about elections of KRaft controllers, and brokers that these fence."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="kraft.elections",
        number=46,
        title="Controllers elect a leader again and again, or have none",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="traffic between controllers",
        meaning="The quorum of controllers loses its leader often, or finds none. Without an active controller no "
        "topic is created, no leader of a partition elected, and no broker can join.",
        text="{what}",
        cause="The active controller stands still (garbage collection, a slow disk: each change waits for fsync), the "
        "network between controllers is unreliable, or most controllers are down.",
        guards=(
            "Elections before the first leader of the capture do not count: they may belong to the cluster's start.",
            "A leader that steps down (EndQuorumEpoch) is stopped on purpose: the election after it does not count.",
            ("A single election without EndQuorumEpoch is a failure that the quorum survived: an INFO "
            "(controller.failover)."),
            "A node that asks for votes while others fetch from the leader was cut off itself, and does not count.",
            "If only one node asks for votes, it may be cut off from a working quorum: inferred, at most a WARN.",
            "Silence proves nothing on a connection with missing bytes, or in a capture without responses to Fetch.",
        ),
        thresholds=(
            Threshold("elections", 3, "elections", "within the window, without EndQuorumEpoch before"),
            Threshold("window_ms", 300000, "ms", "in which elections are counted"),
            Threshold("without_ms", 5000, "ms", "without a leader, for a WARN"),
            Threshold("error_ms", 30000, "ms", "without a leader, for an ERROR"),
        ),
        fixes=(
            Fix("broker", None, None, "give controllers a disk and a CPU of their own (process.roles=controller)"),
            Fix("broker", None, None, "controller.quorum.fetch.timeout.ms and controller.quorum.election.timeout.ms "
                "above the longest pause and round trip"),
        ),
        verify="The leader epoch in Fetch requests of __cluster_metadata stays the same.",
        unknown=(
            "Why the leader failed: its log and its garbage collection tell.",
            "Votes that no connection carries, as all other controllers are down.",
        ),
    ),
    Rule(
        id="kraft.broker_fenced",
        number=47,
        title="Controller fences a broker",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="traffic of brokers to controllers",
        meaning="The active controller received no heartbeat from a broker for broker.session.timeout.ms, so the "
        "broker leads no partition and is in no ISR until its heartbeats return. Or a broker may soon be fenced: it "
        "does not follow the metadata log, lost a log directory, or is refused.",
        text="node {node} {what}",
        cause="The broker stands still or lost its connection: garbage collection, a blocked disk, a stopped process, "
        "the network; or it died.",
        guards=(
            "A broker that asks for its shutdown (wantShutDown) is fenced on purpose, as is one that starts.",
            "Answers with an error say nothing about fencing.",
            "If no other broker's heartbeat is answered meanwhile, the controller stands still, not the broker.",
            "A broker that registered again does not count: it was restarted.",
            "Records that were fetched long after they were written do not count.",
            (
                "A record soon after the capture's beginning does not count: the broker may have asked for its "
                "shutdown before."
            ),
            "A broker that starts, or catches up with the metadata log, does not count: it lacks records for a while.",
            "Refusals until the old session ends do not count: a broker that restarts after a crash gets them.",
        ),
        thresholds=(
            Threshold("session_ms", 9000, "ms", "without heartbeat; broker.session.timeout.ms"),
            Threshold("others", 3, "seconds", "in which other brokers' heartbeats are answered meanwhile"),
            Threshold("offsets", 1000, "records", "of the metadata log that a broker lacks"),
            Threshold("lasts_ms", 30000, "ms", "for which it lacks them, and does not catch up"),
            Threshold("refused_ms", 20000, "ms", "for which a broker is refused: over twice its session timeout"),
            Threshold("refused", 3, "responses", "that refuse it, without a success between them"),
            Threshold("disks", 2, "heartbeats", "that report offline log directories"),
            Threshold("followed_ms", 60000, "ms", "of capture before a broker first appears, for a fencing to count"),
        ),
        fixes=(
            Fix("broker", None, None, "look at the broker's garbage collection, disk and CPU limits at that time"),
            Fix("broker", None, None, "broker.session.timeout.ms above the longest pause that you accept"),
        ),
        verify="Heartbeats every broker.heartbeat.interval.ms, answered with isFenced=false.",
        unknown=("Why the broker was silent: see its log.",),
    ),
)  # fmt: skip
