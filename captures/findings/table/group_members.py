"""Rules about members of groups: they stopped polling, vanished, or share an instance id."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="group.poll_gap",
        number=2,
        title="Consumer does not poll in time",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this consumer's traffic",
        meaning="A consumer that does not call poll() for max.poll.interval.ms leaves its group by itself, while its "
        "connection stays open; it joins again once it polls. What it had not committed is processed again.",
        text="{client} left group {group} after at least {stalled_s:.1f} s without poll(); max.poll.interval.ms is "
        "{interval_ms}",
        cause="Processing what one poll() returned took longer than max.poll.interval.ms.",
        guards=(
            "A LeaveGroup does not count if the connection ends within 1 s: the program called close().",
            (
                "A LeaveGroup within max.poll.interval.ms of a join or commit does not count: the program called "
                "unsubscribe()."
            ),
            (
                "Commits may be automatic: if one came long before LeaveGroup, the finding is inferred, and at first a "
                "NOTE."
            ),
            "A static member of the Java client sends no LeaveGroup: see `group.member_vanished`.",
            "A gap between Fetch requests proves nothing: clients fetch in the background.",
        ),
        thresholds=(
            Threshold("close_ms", 1000, "ms", "from LeaveGroup to the connection's end: the consumer was closed"),
            Threshold("repeats", 3, "times", "by one client, for an ERROR"),
        ),
        fixes=(
            Fix(
                "client",
                "lower max.poll.records, or raise max.poll.interval.ms above the longest processing",
                "process in another thread and pause(), or raise max.poll.interval.ms",
                "poll() has to be called once in each max.poll.interval.ms",
            ),
        ),
        verify="For twice max.poll.interval.ms the client sends no LeaveGroup while its connection stays open.",
        unknown=("What the application did meanwhile: its own log, or a thread dump, tells.",),
    ),
    Rule(
        id="group.member_vanished",
        number=3,
        title="Member vanished without leaving",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="all members of the group, at their coordinator",
        meaning="A member sent nothing for its session timeout, so the coordinator removed it and the others "
        "rebalanced. Until then nobody read its partitions.",
        text="{client} of group {group} was last heard {silent_s:.1f} s before the rebalance that removed it (session "
        "timeout {session_ms} ms): {how}",
        cause="The member crashed, was killed or stopped, or its network failed.",
        guards=(
            "The member must have sent no LeaveGroup and got no error before.",
            "Another member must learn of the rebalance just when this member's session ends.",
            "Only the first member to learn of a rebalance counts: the others then wait in JoinGroup, and are silent.",
            "Nothing is reported about a connection with gaps.",
            "A static member that comes back with its instance id does not count.",
        ),
        thresholds=(Threshold("slack_ms", 4000, "ms", "from the end of the session until another member hears of it"),),
        fixes=(
            Fix(
                "client",
                "look for the process's exit code or OOM kill, long GC pauses, CPU limits",
                "look for the process's exit code or OOM kill, CPU limits",
                "lower session.timeout.ms only if crashes are common: it shortens the time in which nobody reads",
            ),
        ),
        verify="Members leave with LeaveGroup, or go on to send heartbeats.",
        unknown=("Whether the process lives: its host tells.",),
    ),
    Rule(
        id="group.static_clash",
        number=21,
        title="Two members with one group.instance.id",
        severity=Severity.ERROR,
        confidence=Confidence.STRONG,
        vantage="both members, at their coordinator",
        meaning="Two members use the same group.instance.id. In classic groups the newcomer takes the place of the "
        "older member, which is fenced at its next request; with the protocol of KIP-848 the newcomer is refused.",
        text="{victim} got {error} for instance id {instance} of group {group}, which {other} uses as well",
        cause="group.instance.id is not unique: each instance needs one of its own.",
        guards=(
            "A restart at the same host, whose old connection is closed, is an INFO.",
            "If the capture has only one of the two members, the finding is a WARN.",
        ),
        thresholds=(),
        fixes=(
            Fix(
                "client",
                "group.instance.id from the pod's or host's name",
                "group.instance.id from the pod's or host's name",
                "two instances fence each other for ever",
            ),
        ),
        verify="No FENCED_INSTANCE_ID and no UNRELEASED_INSTANCE_ID comes in the group.",
        unknown=("The other owner, where only one is named: a capture at the coordinator shows both.",),
    ),
)
