"""Messages between brokers and controllers: KRaft's quorum, registration, and the older control requests."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NULL, Row, Texts

_SCOPE: Final[Texts] = {0: "not told whether this is all", 1: "changes only", 2: "everything: what is missing is gone"}

ROWS: Final = (
    Row("LeaderAndIsrRequest", "", "The controller tells a broker which partitions to lead and to follow (ZooKeeper)."),
    Row(
        "LeaderAndIsrResponse",
        "*.errorCode",
        "",
        {13: "the broker knows a newer leader epoch: the order came from a controller that was replaced"},
        "0",
    ),
    Row("LeaderAndIsrRequest", "type", "Whether all partitions of the broker are named.", _SCOPE),
    Row("UpdateMetadataRequest", "type", "Whether all of the metadata is here.", _SCOPE),
    Row("UpdateMetadataRequest", "", "The controller tells brokers what clients may be told (ZooKeeper)."),
    Row(
        "LeaderAndIsrRequest UpdateMetadataRequest",
        "*.leader",
        "The broker to lead.",
        {-1: "nobody leads: no replica that may is alive", -2: "the topic is being deleted"},
    ),
    Row("LeaderAndIsrRequest AlterPartitionResponse UpdateMetadataRequest", "*.isr", "The replicas in sync."),
    Row(
        "LeaderAndIsrRequest",
        "*.isNew",
        "Whether the replica is new to the broker.",
        {1: "a new replica", 0: "a replica that the broker has had"},
    ),
    Row(
        "StopReplicaRequest",
        "deletePartitions",
        "What becomes of the copies.",
        {1: "copies are deleted", 0: "copies are kept"},
    ),
    Row(
        "StopReplicaRequest",
        "topicStates[].partitionStates[].deletePartition",
        "What becomes of this copy.",
        {1: "the copy is deleted", 0: "the copy is kept"},
    ),
    Row(
        "ControlledShutdownResponse",
        "remainingPartitions",
        "What the broker still leads.",
        {EMPTY: "the broker leads nothing more and may stop"},
    ),
    Row("VoteRequest", "", "A controller that hears from no leader asks the others for their votes."),
    Row(
        "VoteRequest",
        "*.preVote",
        "Whether the vote is only tried (KIP-996).",
        {1: "a trial, which changes no epoch", 0: "a true election"},
    ),
    Row("VoteRequest", "voterId", "Whose vote is asked for.", {-1: "the voter is not named"}),
    Row("VoteRequest", "*.lastOffsetEpoch", "Epoch of the candidate's last record; the log further on wins."),
    Row(
        "VoteResponse",
        "topics[].partitions[].voteGranted",
        "Whether the voter agrees.",
        {1: "the vote is given", 0: "the vote is refused"},
    ),
    Row("BeginQuorumEpochRequest", "", "The elected controller tells the voters that it leads."),
    Row("EndQuorumEpochRequest", "", "The leading controller steps down; it names who should follow, best first."),
    Row(
        "DescribeQuorumResponse",
        "*.lastFetchTimestamp",
        "When the leader last heard from the replica.",
        {-1: "the leader has not heard from the replica"},
    ),
    Row(
        "DescribeQuorumResponse",
        "*.lastCaughtUpTimestamp",
        "When the replica last had everything.",
        {-1: "not known when the replica had everything"},
    ),
    Row("DescribeQuorumResponse", "*.observers", "Nodes that copy the metadata log without a vote, brokers mostly."),
    Row(
        "DescribeQuorumResponse",
        "*.logEndOffset",
        "How far the replica has the log.",
        {-1: "not known how far the replica is"},
    ),
    Row("AlterPartitionRequest", "*.newIsr", "The replicas that the leader now finds in sync."),
    Row(
        "BrokerRegistrationRequest",
        "previousBrokerEpoch",
        "The epoch before a clean stop.",
        {-1: "the broker did not stop cleanly, or is new"},
    ),
    Row(
        "BrokerRegistrationRequest",
        "isMigratingZkBroker",
        "Whether it is a ZooKeeper broker in migration.",
        {1: "a ZooKeeper broker in migration", 0: "a KRaft broker"},
    ),
    Row(
        "BrokerHeartbeatRequest",
        "wantFence",
        "Whether the broker asks not to serve.",
        {1: "asks to be fenced: clients are kept away", 0: "asks to serve"},
    ),
    Row(
        "BrokerHeartbeatRequest",
        "wantShutDown",
        "Whether the broker asks to stop.",
        {1: "asks to stop: its partitions are given to others first", 0: "does not ask to stop"},
    ),
    Row("BrokerHeartbeatRequest", "currentMetadataOffset", "How far the broker has followed the metadata log."),
    Row(
        "BrokerHeartbeatRequest",
        "cordonedLogDirs",
        "Directories that take no new partitions.",
        {NULL: "cordoned directories not told yet", EMPTY: "no directory is cordoned"},
    ),
    Row("BrokerHeartbeatRequest", "offlineLogDirs", "Directories that failed.", {EMPTY: "no directory has failed"}),
    Row(
        "BrokerHeartbeatResponse",
        "isCaughtUp",
        "Whether the broker knows nearly all metadata.",
        {1: "has nearly all metadata", 0: "still behind with metadata"},
    ),
    Row(
        "BrokerHeartbeatResponse",
        "isFenced",
        "Whether the broker may serve clients.",
        {1: "fenced: may not serve clients", 0: "may serve clients"},
    ),
    Row(
        "BrokerHeartbeatResponse",
        "shouldShutDown",
        "Whether the broker may stop now.",
        {1: "may stop now", 0: "must not stop yet"},
    ),
    Row(
        "AllocateProducerIdsResponse", "producerIdStart", "First of a range of producer ids that the broker hands out."
    ),
    Row("EnvelopeRequest", "", "A broker passes a client's request on to the controller, with the client's name."),
    Row(
        "AddRaftVoterRequest",
        "ackWhenCommitted",
        "When the answer comes.",
        {1: "the answer waits until the new voters are committed", 0: "the answer comes once they are written"},
    ),
    Row("LeaderChangeMessage", "voters", "The voters in force when the leader was elected."),
    Row("EndTxnMarker", "coordinatorEpoch", "Counts the changes of coordinator of the transaction."),
)
