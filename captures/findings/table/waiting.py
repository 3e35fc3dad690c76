"""Rules about time that clients lose to quotas, missing responses, and moved leaders."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule, Threshold

ROWS = (
    Rule(
        id="latency.throttled",
        number=5,
        title="Client loses time to a quota",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="The broker answered with a throttle time: until it is over, the broker reads nothing more from the "
        "connection (KIP-219). The delay shows in the next request, which looks slow.",
        text="{client} was throttled {count:#time} by {broker} ({quota}): {lost_s:.1f} s in all, up to {longest_ms} ms "
        "at once",
        cause="The client exceeds a quota, or all clients with its client id or user exceed it together.",
        guards=("Short throttling is how quotas work: it is an INFO until it takes a `share` of the time.",
                "A throttle time of more than ten minutes does not count: no quota causes it."),
        thresholds=(
            Threshold("share", 0.1, "of a minute", "throttled, for a WARN"),
            Threshold("much", 0.5, "of a minute", "throttled, for an ERROR"),
            Threshold("single_ms", 1000, "ms", "of one throttling, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "raise the quota of this user or client id: kafka-configs.sh --entity-type users "
                "or clients (producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate)"),
            Fix("client", "compression.type, a client.id of its own", "compression.type, a client.id of its own",
                "byte quotas count compressed bytes; programs with the same client id share one quota"),
        ),
        verify="Responses to this client have throttle_time_ms 0.",
        unknown=("The quota itself: `kafka-configs.sh --describe --entity-type clients` tells.",),
    ),
    Rule(
        id="leader.stale",
        number=7,
        title="Client keeps asking the wrong broker",
        severity=Severity.WARN,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A broker answers again and again that it does not lead the partition. The client's metadata, or the "
        "broker's, is stale.",
        text="{client} got {error} for {partition} from {broker} {count:#time} in {seconds:.1f} s",
        cause="The leader moved, and the client did not read new metadata, or the metadata that it read was stale too.",
        guards=(
            "One or two errors after an election do not count: they tell clients of the new leader.",
            "A success on the partition ends the count.",
            "The metadata log of KRaft does not count: controllers ask each other for its leader.",
        ),
        thresholds=(
            Threshold("errors", 3, "responses", "with the error, without a success between them"),
            Threshold("lasts_ms", 5000, "ms", "from the first error to the last, for a WARN"),
            Threshold("long_ms", 30000, "ms", "from the first error to the last, for an ERROR"),
        ),
        fixes=(
            Fix("client", "metadata.max.age.ms, retry.backoff.ms",
                "topic.metadata.refresh.fast.interval.ms, retry.backoff.ms",
                "clients with KIP-951 (Java 3.7, librdkafka 2.6) take the new leader from the error itself"),
            Fix("broker", None, None, "where Metadata names the wrong leader: the broker's own metadata lags"),
        ),
        verify="The partition's requests go to the broker that the newest Metadata names, without an error.",
        unknown=("Which broker leads: a capture at the controller tells.",),
    ),
    Rule(
        id="conn.abandoned",
        number=15,
        title="Requests were left without a response",
        severity=Severity.WARN,
        confidence=Confidence.STRONG,
        vantage="this connection, whole",
        meaning="A connection was closed while requests that had waited for seconds had no response. Their fate is "
        "unknown: a Produce may have been written, and is then sent again.",
        text="{client} lost {count:#request} to {broker} with connection {connection}: {apis}; the oldest had waited "
        "{oldest_s:.1f} s",
        cause="The broker did not answer within the client's request timeout, or the connection broke.",
        guards=(
            "Long polls (Fetch, JoinGroup, SyncGroup, ShareFetch) wait on purpose and do not count.",
            "Nothing is reported where the capture does not hold the connection's end, or misses bytes of it.",
            "If there is a single request, and it is not a Produce, the finding is a NOTE.",
        ),
        thresholds=(
            Threshold("age_ms", 5000, "ms", "that a request must have waited to count"),
            Threshold("several", 3, "requests", "other than Produce, for a WARN"),
        ),
        fixes=(
            Fix("broker", None, None, "find what kept the broker busy: its disks, garbage collection, request queue"),
            Fix("client", "request.timeout.ms, delivery.timeout.ms, enable.idempotence",
                "socket.timeout.ms, message.timeout.ms, enable.idempotence",
                "a batch that an idempotent producer sends again is written once"),
        ),
        verify="Connections end without requests in flight.",
        unknown=("What the broker did meanwhile: its request log or metrics tell.",),
    ),
    Rule(
        id="txn.fenced",
        number=11,
        title="Transactional producer is fenced",
        severity=Severity.INFO,
        confidence=Confidence.STRONG,
        vantage="all producers with this transactional id, at their coordinator",
        meaning="A producer's request was refused because its epoch is not the newest of its transactional id. Its "
        "open transaction is aborted.",
        text="transactional id {txn}: {client} was fenced ({error}); {by}; fenced {count:#time}",
        cause="Another producer with the same transactional.id called initTransactions, or the coordinator ended a "
        "transaction that was open for longer than transaction.timeout.ms.",
        guards=(
            "A single fencing is an INFO: a restarted producer takes over in this way.",
            "An epoch that grows with each commit (transactions of version 2, KIP-890) does not fence a producer.",
        ),
        thresholds=(
            Threshold("often", 2, "fencings", "within 5 minutes, for a WARN"),
            Threshold("fight", 4, "fencings", "within 5 minutes, for an ERROR"),
        ),
        fixes=(
            Fix("client", "transactional.id unique to each instance (such as a pod's ordinal)",
                "transactional.id unique to each instance (such as a pod's ordinal)",
                "two producers with one id fence each other in turns"),
            Fix("client", "transaction.timeout.ms", "transaction.timeout.ms",
                "if the coordinator timed the transaction out: longer than the longest transaction"),
        ),
        verify="One client alone sends InitProducerId for this transactional id, and no response has PRODUCER_FENCED "
        "or INVALID_PRODUCER_EPOCH.",
        unknown=("Producers outside this capture: a capture at the transaction coordinator shows all.",),
    ),
)  # fmt: skip
