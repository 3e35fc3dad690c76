"""Fields that occur in many messages."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NO_ID, NULL, POSITIVE, Row, Texts

NOT_ASKED: Final = -(2**31)

OPERATIONS: Final[Texts] = {
    1: "any", 2: "all", 3: "read", 4: "write", 5: "create", 6: "delete", 7: "alter", 8: "describe",
    9: "cluster action", 10: "describe configs", 11: "alter configs", 12: "idempotent write", 13: "create tokens",
    14: "describe tokens", 15: "two-phase commit",
}  # fmt: skip
"""ACL operations by code; the code is also the bit in a set of authorized operations."""

COMPRESSION: Final[Texts] = {0: "not compressed", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def operations(bits: int) -> str:
    """The operations whose bits are set."""
    return "May: " + (
        ", ".join(OPERATIONS[bit] for bit in range(1, len(OPERATIONS) + 1) if bits >> bit & 1) or "nothing"
    )


ROWS: Final = (
    Row(
        "*",
        "*.throttleTimeMs",
        "How long a quota keeps this client back; until Kafka 2.0 the broker delayed the answer, since then it mutes "
        "the connection after it.",
        {POSITIVE: "over a quota: the client is kept back so many milliseconds"},
    ),
    Row(
        "*",
        "*.errorCode",
        "The outcome of what stands beside it; an answer may hold several.",
    ),
    Row("*", "*.errorMessage", "Words of the broker for people; not made to be parsed.", {NULL: "no more to say"}),
    Row("*", "*.leaderId", "The broker that leads the partition.", {-1: "no leader is known"}),
    Row(
        "*",
        "*.leaderEpoch",
        "Counts the changes of leader of the partition; a higher one is newer.",
        {-1: "leader epoch not known"},
    ),
    Row(
        "*",
        "*.currentLeaderEpoch",
        "The leader epoch that the sender knows; a broker that knows another answers error 74 or 75.",
        {-1: "the sender does not know, so the broker does not check it"},
    ),
    Row("*", "*.offlineReplicas", "Replicas whose broker or disk is down.", {EMPTY: "all replicas are online"}),
    Row(
        "*",
        "*.producerId",
        "Names an idempotent producer; with epoch and sequence the broker tells new batches from repeated ones.",
        {-1: "no producer id"},
    ),
    Row(
        "*",
        "*.producerEpoch",
        "Goes up whenever the producer starts anew; an older producer is fenced off.",
        {-1: "no producer epoch"},
    ),
    Row("*", "*.transactionalId", "Names a producer over its restarts.", {NULL: "not transactional"}),
    Row(
        "*",
        "*.isolationLevel",
        "Whether records of open and aborted transactions count.",
        {
            0: "read uncommitted: everything up to the high watermark",
            1: "read committed: nothing beyond the first open transaction",
        },
    ),
    Row("*", "*.rackId", "Where the client runs, so that a replica nearby can serve it.", {EMPTY: "no rack told"}),
    Row("*", "*.rack", "The rack or zone that the broker is configured with.", {NULL: "no rack configured"}),
    Row(
        "*",
        "*.groupInstanceId",
        "A name that the client keeps over restarts: coming back under it in time costs no rebalance (KIP-345).",
        {NULL: "a dynamic member: each restart is a new member"},
    ),
    Row(
        "*",
        "*.instanceId",
        "The static name of the member (KIP-345).",
        {NULL: "a dynamic member, or unchanged since the last heartbeat"},
    ),
    Row("*", "*.groupId", "The group that the request is about."),
    Row("*", "*.memberId", "Names a member of the group for as long as it stays."),
    Row(
        "*",
        "*.generationId",
        "Counts the rebalances of the group; a request with an older one is refused (error 22).",
        {-1: "no generation: not a member, or the join failed"},
    ),
    Row(
        "*",
        "*.topicId",
        "The topic's id, which a topic made again under the same name does not share.",
        {NO_ID: "no topic id: the name counts"},
    ),
    Row(
        "*",
        "*.topicAuthorizedOperations",
        "What the client may do with the topic, a bit for each operation.",
        {NOT_ASKED: "not asked for: authorized operations of the topic"},
        read=operations,
    ),
    Row(
        "*",
        "*.clusterAuthorizedOperations",
        "What the client may do with the cluster, a bit for each operation.",
        {NOT_ASKED: "not asked for: authorized operations of the cluster"},
        read=operations,
    ),
    Row(
        "*",
        "*.authorizedOperations",
        "What the client may do with the group, a bit for each operation.",
        {NOT_ASKED: "not asked for: authorized operations of the group"},
        read=operations,
    ),
    Row("*", "*.isInternal", "Whether Kafka keeps the topic for itself.", {1: "a topic of Kafka's own bookkeeping"}),
    Row(
        "*",
        "*.validateOnly",
        "A rehearsal: everything is checked, nothing is changed.",
        {1: "only checked, nothing changes", 0: "takes effect"},
    ),
    Row(
        "*",
        "*.brokerEpoch",
        "Changes whenever the broker registers, so that requests from before a restart are recognised.",
        {-1: "broker epoch not known: not checked"},
    ),
    Row(
        "*",
        "*.nodeEndpoints",
        "Addresses of the leaders named above, so that the client need not ask for metadata (KIP-951).",
        {EMPTY: "no leader has changed"},
    ),
    Row(
        "*",
        "*.controllerEpoch",
        "Counts the changes of controller; brokers refuse requests of an older one (error 11).",
    ),
    Row(
        "*",
        "*.partitionEpoch",
        "Counts the changes of the partition's state; the controller takes a change only on top of the newest.",
    ),
    Row(
        "*",
        "*.leaderRecoveryState",
        "Whether the leader was elected cleanly.",
        {0: "the leader was elected from the ISR", 1: "recovering from an unclean election: records may be lost"},
    ),
    Row(
        "*",
        "*.securityProtocol",
        "How clients connect to the listener.",
        {0: "PLAINTEXT", 1: "TLS", 2: "SASL without TLS", 3: "SASL over TLS"},
    ),
    Row(
        "*",
        "*.committedLeaderEpoch",
        "Leader epoch of the last record consumed; with it a consumer notices that the log was truncated.",
        {-1: "the consumer did not tell a leader epoch"},
    ),
    Row(
        "*",
        "*.committedMetadata",
        "Any text that the client stores beside the offset.",
        {NULL: "stored as empty text", EMPTY: "no text beside the offset"},
    ),
    Row(
        "*",
        "*.includeTopicAuthorizedOperations",
        "Whether the answer says what the client may do with each topic.",
    ),
    Row(
        "*",
        "*.timeoutMs",
        "How long the broker may work on it; when it runs out (error 7) the change may still happen.",
    ),
    Row(
        "*",
        "*.clusterId",
        "The cluster that the sender means or belongs to.",
        {NULL: "the sender does not know its cluster, so it is not checked"},
    ),
    Row("*", "*.memberEpoch", "How far the member has followed the group's assignments (KIP-848)."),
    Row(
        "*",
        "*.heartbeatIntervalMs",
        "How often the member is to send heartbeats; the coordinator decides (KIP-848).",
    ),
    Row("*", "*.partitionMaxBytes", "Upper limit for one partition; the first batch comes whole even if larger."),
    Row(
        "RequestHeader",
        "clientId",
        "What the client calls itself; quotas, logs and metrics go by it.",
        {NULL: "the client gave no name", EMPTY: "the client gave an empty name"},
    ),
    Row(
        "RequestHeader ResponseHeader",
        "correlationId",
        "The client's number for the request; its response carries the same one.",
    ),
    Row("RequestHeader", "requestApiKey", "Which API is asked."),
    Row("RequestHeader", "requestApiVersion", "The version of the body here and of the response."),
)
