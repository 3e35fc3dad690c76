"""Meanings of fields that occur in many messages."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NO_ID, NULL, POSITIVE, Row, Texts

NOT_ASKED: Final = -(2**31)

OPERATIONS: Final[Texts] = {
    1: "any", 2: "all", 3: "read", 4: "write", 5: "create", 6: "delete", 7: "alter", 8: "describe",
    9: "cluster action", 10: "describe configs", 11: "alter configs", 12: "idempotent write", 13: "create tokens",
    14: "describe tokens", 15: "two-phase commit",
}  # fmt: skip
"""Names of ACL operations by code; in a set of authorized operations, the operation with code n is bit n."""

COMPRESSION: Final[Texts] = {0: "not compressed", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def operations(bits: int) -> str:
    """The names of the operations whose bits are set in `bits`."""
    return "May: " + (
        ", ".join(OPERATIONS[bit] for bit in range(1, len(OPERATIONS) + 1) if bits >> bit & 1) or "nothing"
    )


ROWS: Final = (
    Row(
        "*",
        "*.throttleTimeMs",
        "How long a quota throttles this client. Until Kafka 2.0 the broker delayed the response; since "
        "then it sends the response and stops reading the connection for this time.",
        {POSITIVE: "over a quota: the client is throttled for so many milliseconds"},
    ),
    Row(
        "*",
        "*.errorCode",
        "Error of the element that holds this field; a response may hold several.",
    ),
    Row("*", "*.errorMessage", "The broker's explanation for people, not for programs.", {NULL: "no message"}),
    Row("*", "*.leaderId", "The broker that leads the partition.", {-1: "no leader is known"}),
    Row(
        "*",
        "*.leaderEpoch",
        "Number of leader changes of the partition; a higher epoch is newer.",
        {-1: "leader epoch not known"},
    ),
    Row(
        "*",
        "*.currentLeaderEpoch",
        "The leader epoch that the sender knows; a broker that knows another answers error 74 or 75.",
        {-1: "the sender knows no leader epoch, so the broker does not check it"},
    ),
    Row("*", "*.offlineReplicas", "Replicas whose broker or disk is down.", {EMPTY: "all replicas are online"}),
    Row(
        "*",
        "*.producerId",
        "Id of an idempotent producer; with its epoch and the sequence, the broker recognises repeated batches.",
        {-1: "no producer id"},
    ),
    Row(
        "*",
        "*.producerEpoch",
        "Increases whenever the producer restarts; a producer with an older epoch is fenced.",
        {-1: "no producer epoch"},
    ),
    Row(
        "*",
        "*.transactionalId",
        "Name of a producer that stays the same when it restarts.",
        {NULL: "not transactional"},
    ),
    Row(
        "*",
        "*.isolationLevel",
        "Whether records of open and aborted transactions are visible.",
        {
            0: "read uncommitted: everything up to the high watermark",
            1: "read committed: nothing beyond the first open transaction",
        },
    ),
    Row(
        "*",
        "*.rackId",
        "Where the client runs, so that a replica nearby can serve it.",
        {EMPTY: "the client states no rack"},
    ),
    Row("*", "*.rack", "The rack or zone that the broker is configured with.", {NULL: "no rack configured"}),
    Row(
        "*",
        "*.groupInstanceId",
        "Static name of the member: if it restarts and rejoins in time, the group does not rebalance (KIP-345).",
        {NULL: "a dynamic member: each restart is a new member"},
    ),
    Row(
        "*",
        "*.instanceId",
        "The static name of the member (KIP-345).",
        {NULL: "a dynamic member, or unchanged since the last heartbeat"},
    ),
    Row("*", "*.groupId", "The group that the request is about."),
    Row("*", "*.memberId", "Id of a member, valid as long as it stays in the group."),
    Row(
        "*",
        "*.generationId",
        "Number of rebalances of the group; a request with an older generation is refused (error 22).",
        {-1: "no generation: not a member, or the join failed"},
    ),
    Row(
        "*",
        "*.topicId",
        "The topic's id; a topic that is deleted and created again gets another one.",
        {NO_ID: "no topic id: the name identifies the topic"},
    ),
    Row(
        "*",
        "*.topicAuthorizedOperations",
        "Operations that the client may perform on the topic, a bit for each.",
        {NOT_ASKED: "authorized operations of the topic were not requested"},
        read=operations,
    ),
    Row(
        "*",
        "*.clusterAuthorizedOperations",
        "Operations that the client may perform on the cluster, a bit for each.",
        {NOT_ASKED: "authorized operations of the cluster were not requested"},
        read=operations,
    ),
    Row(
        "*",
        "*.authorizedOperations",
        "Operations that the client may perform on the group, a bit for each.",
        {NOT_ASKED: "authorized operations of the group were not requested"},
        read=operations,
    ),
    Row("*", "*.isInternal", "Whether the topic is internal to Kafka.", {1: "an internal topic of Kafka"}),
    Row(
        "*",
        "*.validateOnly",
        "Whether the request is only validated, without any change.",
        {1: "only validated, nothing changes", 0: "takes effect"},
    ),
    Row(
        "*",
        "*.brokerEpoch",
        "Changes whenever the broker registers, so that requests sent before a restart can be refused.",
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
        "Number of controller changes; brokers refuse requests with an older epoch (error 11).",
    ),
    Row(
        "*",
        "*.partitionEpoch",
        "Number of changes of the partition's state; the controller accepts a change only to the newest state.",
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
        "Leader epoch of the last record consumed; a consumer uses it to notice that the log was truncated.",
        {-1: "the consumer states no leader epoch"},
    ),
    Row(
        "*",
        "*.committedMetadata",
        "Any text that the client stores with the offset.",
        {NULL: "stored as empty text", EMPTY: "no text with the offset"},
    ),
    Row(
        "*",
        "*.includeTopicAuthorizedOperations",
        "Whether the response lists the operations that the client may perform on each topic.",
    ),
    Row(
        "*",
        "*.timeoutMs",
        "How long the broker may work on the request; after that it answers error 7, but the change may still happen.",
    ),
    Row(
        "*",
        "*.clusterId",
        "Id of the cluster that the sender means or belongs to.",
        {NULL: "the sender does not know its cluster, so the id is not checked"},
    ),
    Row("*", "*.memberEpoch", "Epoch of the assignment that the member has reached (KIP-848)."),
    Row(
        "*",
        "*.heartbeatIntervalMs",
        "How often the member is to send heartbeats; the coordinator decides (KIP-848).",
    ),
    Row(
        "*",
        "*.partitionMaxBytes",
        "Maximum bytes for one partition; the first batch is returned whole even if it is larger.",
    ),
    Row(
        "RequestHeader",
        "clientId",
        "Name that the client gives itself; quotas, logs and metrics use it.",
        {NULL: "the client gave no name", EMPTY: "the client gave an empty name"},
    ),
    Row(
        "RequestHeader ResponseHeader",
        "correlationId",
        "The client's number for the request; its response carries the same number.",
    ),
    Row("RequestHeader", "requestApiKey", "Number of the requested API."),
    Row("RequestHeader", "requestApiVersion", "The version of the body here and of the response."),
)
