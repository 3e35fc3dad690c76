"""Rules about requests that brokers refuse: unknown topics, records, commits, settings, credentials, rights."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="meta.topic_missing",
        number=23,
        title="Client asks for a topic that does not exist",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="Metadata keeps answering UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION for a topic. Producers "
        "block or fail on it, consumers wait, and the client asks again and again.",
        text="{client} asked {count:#time} in {seconds:.0f} s for topic {topic}: {error}",
        cause="The topic was deleted or never created, its name is misspelt, or the client asks the wrong cluster.",
        guards=(
            "A topic that appears within the grace period does not count: it is being created.",
            "The error counts again from zero once the topic is there.",
        ),
        thresholds=(
            Threshold("times", 3, "responses", "with the error, with no success between them"),
            Threshold("grace_ms", 5000, "ms", "that a new topic may take to appear"),
        ),
        fixes=(
            Fix("client", "the topic's name and bootstrap.servers", "the topic's name and bootstrap.servers",
                "names differ in case, dots and underscores"),
            Fix("broker", None, None, "create the topic, or allow it: auto.create.topics.enable, "
                "allow.auto.create.topics of the client"),
        ),
        verify="Metadata of the client names the topic with partitions.",
        unknown=("Whether the topic exists elsewhere: `kafka-topics.sh --list` on the other cluster tells.",),
    ),
    Rule(
        id="producer.rejected",
        number=28,
        title="Broker rejects records",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this producer's traffic",
        meaning="The broker refused a record batch for its content. Sending it again cannot help: the client reports "
        "an error to the application, or drops the records.",
        text="{client} had {count:#batch} for topic {topic} rejected: {error}; the largest had {largest_bytes} bytes",
        cause="See the error: the batch is too large, corrupt, of a format or timestamp that the topic does not take, "
        "or violates a policy.",
        guards=("Errors after which clients try again (a moved leader, too few replicas) belong to other rules.",),
        thresholds=(),
        fixes=(
            Fix("client", "max.request.size, batch.size", "message.max.bytes, batch.size",
                "MESSAGE_TOO_LARGE: below the topic's max.message.bytes; the Java client splits a batch of several "
                "records, librdkafka reports it"),
            Fix("broker", None, None, "max.message.bytes, message.timestamp.*, cleanup.policy (compaction needs keys)"),
        ),
        verify="Produce responses for the topic have no error.",
        unknown=("The broker's reason in words: RecordErrors of Produce v8 and newer, or its log.",),
    ),
    Rule(
        id="commit.rejected",
        number=42,
        title="Offsets are not committed",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="The coordinator refused OffsetCommit: the consumer is no longer a member of this generation. What it "
        "has processed since its last commit is processed again by the next owner of the partition.",
        text="{client} had {count:#commit} of group {group} refused ({error}); {records} records are read again",
        cause="The group rebalanced while the consumer was busy, and its commit came too late.",
        guards=(
            "Errors after which clients commit again do not count: a coordinator that moved, a newer epoch.",
            "REBALANCE_IN_PROGRESS alone does not count: the client commits again after the rebalance.",
            "It is a WARN only if records beyond the last commit were refused.",
        ),
        thresholds=(Threshold("records", 1, "records", "beyond the last commit, for a WARN"),),
        fixes=(
            Fix("client", "max.poll.records, max.poll.interval.ms, commit in onPartitionsRevoked",
                "max.poll.interval.ms, commit in the rebalance callback",
                "commit before partitions are given up, and poll often enough"),
        ),
        verify="OffsetCommit responses have no error during the next rebalance.",
        unknown=("Whether the application had finished these records: only its own log tells.",),
        under=("group.poll_gap", "group.member_vanished", "group.static_clash", "group.rebalance_cause"),
    ),
    Rule(
        id="group.config_rejected",
        number=75,
        title="Coordinator refuses a consumer's settings",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="JoinGroup, or a heartbeat that would join, was refused because of the consumer's settings. It joins "
        "again with the same settings, so it never gets a partition.",
        text="{client} cannot join group {group}: {error} ({asked}), {count:#time}",
        cause="A setting lies outside what the broker allows.",
        guards=("A single refusal is a NOTE if the client joins soon after it: its settings were changed.",),
        thresholds=(
            Threshold("settle_ms", 30000, "ms", "after a first refusal: a join that succeeds by then makes it a NOTE"),
        ),
        fixes=(
            Fix("client", "session.timeout.ms, group.id", "session.timeout.ms, group.id",
                "INVALID_SESSION_TIMEOUT: between the broker's group.min.session.timeout.ms and "
                "group.max.session.timeout.ms; INVALID_GROUP_ID: not empty"),
            Fix("broker", None, None, "GROUP_MAX_SIZE_REACHED: group.max.size"),
        ),
        verify="JoinGroup of this client is answered without an error.",
    ),
    Rule(
        id="group.assignor_clash",
        number=32,
        title="Members have no assignor in common",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this consumer's traffic",
        meaning="The coordinator answers INCONSISTENT_GROUP_PROTOCOL or UNSUPPORTED_ASSIGNOR: no assignor of this "
        "member is supported by all the others, so it stays outside the group.",
        text="{client} cannot join group {group}: {error} ({asked}), {count:#time}",
        cause="Members of one group are configured with different partition.assignment.strategy, as during an upgrade "
        "from eager to cooperative assignors in one step.",
        guards=("A single refusal is a NOTE if the client joins soon after it: deployments go step by step.",),
        thresholds=(
            Threshold("settle_ms", 30000, "ms", "after a first refusal: a join that succeeds by then makes it a NOTE"),
        ),
        fixes=(
            Fix("client", "partition.assignment.strategy with both assignors for one deployment",
                "partition.assignment.strategy", "change it in two deployments: first add the new assignor to all "
                "members, then remove the old one (librdkafka cannot mix eager and cooperative)"),
        ),
        verify="JoinGroup of this client is answered without an error.",
        unknown=("The other members' assignors, if they are outside this capture.",),
    ),
    Rule(
        id="auth.sasl",
        number=35,
        title="Authentication fails",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The broker did not accept a client's SASL mechanism or credentials, and closed the connection. The "
        "client tries again with the same ones.",
        text="{client} failed to authenticate {count:#time} ({mechanism}, principal {principal}): {error}",
        cause="Wrong or expired credentials, or a mechanism that the listener does not offer.",
        guards=("A later success of this client ends the count.", "Credentials are never shown."),
        thresholds=(Threshold("often", 3, "failures", "without a success between them, for an ERROR"),),
        fixes=(
            Fix("client", "sasl.mechanism, sasl.jaas.config", "sasl.mechanism, sasl.username, sasl.password",
                "as the listener has it; the offered mechanisms are in the evidence"),
            Fix("broker", None, None, "kafka-configs.sh --describe --entity-type users lists SCRAM users"),
        ),
        verify="SaslAuthenticate is answered without an error, and requests follow on the connection.",
    ),
    Rule(
        id="auth.denied",
        number=36,
        title="Access is denied",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The broker answered with an authorization error: the principal of this connection has no right for "
        "the operation.",
        text="{client} was denied {what} {name} {count:#time}: {error}",
        cause="An ACL is missing for the client's principal, or it authenticates as another principal than intended.",
        guards=("One or two denials do not count: tools also ask for things that they may not see.",),
        thresholds=(
            Threshold("times", 3, "responses", "with the error within the window"),
            Threshold("window_s", 60, "s", "in which these responses come"),
        ),
        fixes=(Fix("broker", None, None, "kafka-acls.sh --add for this principal, resource and operation"),),
        verify="The operation is answered without an authorization error.",
        unknown=("The ACLs: `kafka-acls.sh --list` tells.",),
    ),
)  # fmt: skip
