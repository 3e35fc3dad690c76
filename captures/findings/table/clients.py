"""Rules about how clients use connections, commits, acknowledgements and quotas."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="client.leak",
        number=17,
        title="Short-lived clients, one after the other",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="all connections of this host",
        meaning="A host opens a producer or consumer, uses it for seconds, and opens the next. Each one costs "
        "connections, ApiVersions, Metadata, a login and often a producer id, which the broker keeps for a day.",
        text="{client} began and ended {count} clients within a minute, which lived {life_s:.1f} s (median) "
        "and took {connections} connections",
        cause="A producer or consumer is made for each message or request instead of once for each process.",
        guards=(
            ("The rule counts clients, not connections: up to three connections to one broker within 2 s belong to "
            "one client."),
            "Only clients that did some work count: failed logins and refused connections do not.",
            "Only clients that are wholly in the capture count, from the first packet to the close.",
            "Client ids that differ only in numbers count as one.",
        ),
        thresholds=(
            Threshold("instances", 30, "clients", "that ended within a minute"),
            Threshold("many", 300, "clients", "that ended within a minute, for an ERROR"),
            Threshold("life_s", 10, "s", "the longest median lifetime of these clients"),
        ),
        fixes=(
            Fix("client", "one KafkaProducer for the process, shared by its threads",
                "one producer handle for the process", "producers are thread-safe and meant to live long"),
            Fix("client", "keep the client between calls of a serverless function",
                "keep the client between calls of a serverless function", "create it outside of the handler"),
        ),
        verify="The number of new connections of this host falls to about none.",
        unknown=("Whether one process or many do it: the host's process list tells.",),
    ),
    Rule(
        id="client.conn_pool",
        number=77,
        title="Many connections of one client to one broker",
        severity=Severity.NOTE,
        confidence=Confidence.INFERRED,
        vantage="all connections of this host",
        meaning="A Kafka client needs one or two connections to a broker. Here many with one client id are in use at "
        "once, so batches are smaller and brokers hold more sockets.",
        text="{client} uses {count:#connection} to {broker} at once",
        cause="A pool of producers, or a consumer for each thread, in one process.",
        guards=(
            "Connections that only bootstrap do not count.",
            "Client ids that are a library's default do not count: several programs may have them.",
        ),
        thresholds=(Threshold("connections", 5, "connections", "of one client id and host to one broker"),),
        fixes=(
            Fix("client", "one KafkaProducer for all threads", "one producer handle for all threads",
                "a pool of producers makes smaller batches and is slower"),
        ),
        verify="Each client id has at most two connections to each broker.",
        unknown=("Whether several programs share the client id: the host's process list tells.",),
    ),
    Rule(
        id="consumer.commit_storm",
        number=19,
        title="Consumer commits nearly every record",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this member's traffic to its coordinator",
        meaning="Each commit is a write to __consumer_offsets with all its replicas. A member that commits each record "
        "spends its time, and the coordinator's, on commits.",
        text="{client} commits {rate:.0f} times a second in group {group}, {advance:.1f} offsets each",
        cause="The program calls commit after each record, or commits offsets that have not moved.",
        guards=(
            "Commits are counted for each member separately, over a whole minute.",
            "Automatic commits, every 5 s by default, are far below the threshold.",
        ),
        thresholds=(
            Threshold("rate", 5, "commits a second", "over a minute"),
            Threshold("much", 50, "commits a second", "over a minute, for a WARN"),
            Threshold("advance", 2, "offsets", "that a commit advances on average, at most"),
        ),
        fixes=(
            Fix("client", "commitSync or commitAsync once for each poll, or enable.auto.commit",
                "commit once for each batch, or enable.auto.commit and enable.auto.offset.store=false",
                "a commit for each batch gives the same guarantee, at least once"),
        ),
        verify="The member commits at most once for each batch of records.",
        unknown=("Whether the program waits for each commit: its own metric commit-latency-avg tells.",),
    ),
    Rule(
        id="producer.tiny_batches",
        number=18,
        title="Produce requests with one or two records",
        severity=Severity.NOTE,
        confidence=Confidence.STRONG,
        vantage="this client's traffic",
        meaning="A busy client sends many Produce requests with one or two small records, so most of the work of "
        "client and broker is overhead.",
        text="{client} sends {rate:.0f} Produce requests a second with one or two records: {records:.1f} records and "
        "{bytes} bytes on average",
        cause="The program flushes, or waits for the result, after each record; or linger.ms is 0.",
        guards=(
            "Clients that send seldom do not count.",
            "Requests count as a whole: one record for each of many partitions is not tiny.",
            "Records of transactions do not count, as the end of a transaction flushes.",
        ),
        thresholds=(
            Threshold("rate", 100, "requests a second", "of at most 2 records and less than 1 KiB, over 10 s"),
            Threshold("much", 500, "requests a second", "over 10 s, for a WARN"),
            Threshold("least", 200, "requests", "within 10 s or more, before the client is judged"),
        ),
        fixes=(
            Fix("client", "linger.ms=5 or more; no get() or flush() after each send",
                "linger.ms=5 or more; no flush() after each produce()",
                "linger gathers records only if the program does not wait for each one"),
        ),
        verify="Fewer requests a second carry the same number of records.",
        unknown=("Whether the program waits for each record: its code tells.",),
        under=("client.leak",),
    ),
    Rule(
        id="producer.weak_acks",
        number=26,
        title="Producer does not wait for replicas",
        severity=Severity.NOTE,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="With acks=1 records are lost if the leader fails before its followers have them; with acks=0 also "
        "when the broker refuses them, and the producer is never told.",
        text="{client} asks for {what} (acks={acks}) in {count} Produce requests, {bytes} bytes of records",
        cause="acks is set, or is the default of an old client.",
        guards=(
            "acks=1 is a NOTE, because it may be intended; a few requests with acks=0 are a NOTE too.",
            "Producers with acks=all do not count, whether they are idempotent or not.",
        ),
        thresholds=(
            Threshold("requests", 20, "requests", "with this acks"),
            Threshold("many", 100, "requests", "with acks=0, for a WARN"),
        ),
        fixes=(
            Fix("client", "acks=all, enable.idempotence=true", "acks=all, enable.idempotence=true",
                "these are the defaults of Java since 3.0; librdkafka's are acks=all without idempotence"),
            Fix("broker", None, None, "min.insync.replicas=2 with three replicas, which acks=all relies on"),
        ),
        verify="Produce requests of this client have acks -1.",
        unknown=("Whether loss is acceptable for these records: their owner tells.",),
        under=("client.leak",),
    ),
    Rule(
        id="join.id_retry",
        number=84,
        title="Client joins again and again without its member id",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic to its coordinator",
        meaning="The coordinator answers the first JoinGroup of a member with MEMBER_ID_REQUIRED and an id, with which "
        "the client must join again (KIP-394). This client joins without the id, and so never gets into the group.",
        text="{client} joined group {group} {count:#time} in a row without the member id that it was given",
        cause="The client library does not take the member id from a response with an error.",
        guards=(
            "Joins are counted for each connection separately: a client that lost its connection may begin anew.",
            "Any other response than MEMBER_ID_REQUIRED ends the count.",
        ),
        thresholds=(Threshold("joins", 3, "requests", "without a member id, in a row"),),
        fixes=(
            Fix("client", "any version", "1.0 or later", "other libraries: a version with KIP-394, or "
                "JoinGroup of version 3 or lower"),
        ),
        verify="The second JoinGroup of the client has the member id of the first response.",
        unknown=(),
    ),
    Rule(
        id="group.abandoned_member_id",
        number=78,
        title="A member id was issued and never used",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this client's traffic to its coordinator",
        meaning="A client asked twice for a member id and joined with one of them. The coordinator waits for the "
        "other one until its session times out, which may delay a rebalance.",
        text="{client} was given the member id {member} in group {group}, and joined as {other}",
        cause="The client sent its first JoinGroup twice, such as after a timeout of its own.",
        guards=(
            "A member id counts as used once any request carries it.",
            "The same connection must have joined with another id, at least `grace_ms` ago.",
            "A client that went away does not count, nor does a connection with missing bytes.",
        ),
        thresholds=(Threshold("grace_ms", 5000, "ms", "after the join with the other id"),),
        fixes=(
            Fix("client", "the latest version", "the latest version", "a client bug: report it with this capture"),
            Fix("client", "session.timeout.ms", "session.timeout.ms", "shorter, so that the coordinator waits less"),
        ),
        verify="Each MEMBER_ID_REQUIRED is followed by a JoinGroup with its member id.",
        unknown=("Whether the id was used over a connection outside this capture.",),
        under=("join.id_retry",),
    ),
)  # fmt: skip
