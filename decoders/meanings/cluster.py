"""Meanings of fields in messages between brokers and controllers.

The messages are those of KRaft's quorum, of broker registration, and the older control requests.
"""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NULL, Row, Texts

_SCOPE: Final[Texts] = {
    0: "not known whether the request is complete",
    1: "changes only",
    2: "complete: partitions that it omits no longer exist",
}

ROWS: Final = (
    Row("LeaderAndIsrRequest", "", "The controller tells a broker which partitions to lead and to follow (ZooKeeper)."),
    Row(
        "LeaderAndIsrResponse",
        "*.errorCode",
        "",
        {13: "the broker knows a newer leader epoch: the request came from a controller that was replaced"},
        "0",
    ),
    Row("LeaderAndIsrRequest", "type", "Whether the request names all partitions of the broker.", _SCOPE),
    Row("UpdateMetadataRequest", "type", "Whether the request holds all of the metadata.", _SCOPE),
    Row(
        "UpdateMetadataRequest", "", "The controller sends brokers the metadata that they give to clients (ZooKeeper)."
    ),
    Row(
        "LeaderAndIsrRequest UpdateMetadataRequest",
        "*.leader",
        "Broker that becomes the leader.",
        {-1: "no leader: no replica that may lead is alive", -2: "the topic is being deleted"},
    ),
    Row("LeaderAndIsrRequest AlterPartitionResponse UpdateMetadataRequest", "*.isr", "The replicas in sync."),
    Row(
        "LeaderAndIsrRequest",
        "*.isNew",
        "Whether the broker gets the replica now.",
        {1: "a new replica", 0: "a replica that the broker had before"},
    ),
    Row(
        "StopReplicaRequest",
        "deletePartitions",
        "Whether the broker deletes its replicas.",
        {1: "replicas are deleted", 0: "replicas are kept"},
    ),
    Row(
        "StopReplicaRequest",
        "topicStates[].partitionStates[].deletePartition",
        "Whether the broker deletes this replica.",
        {1: "the replica is deleted", 0: "the replica is kept"},
    ),
    Row(
        "ControlledShutdownResponse",
        "remainingPartitions",
        "Partitions that the broker still leads.",
        {EMPTY: "the broker leads nothing more and may stop"},
    ),
    Row("VoteRequest", "", "A controller that hears from no leader asks the others for their votes."),
    Row(
        "VoteRequest",
        "*.preVote",
        "Whether this is only a trial vote before an election (KIP-996).",
        {1: "a trial, which changes no epoch", 0: "a real election"},
    ),
    Row("VoteRequest", "voterId", "Voter whose vote is requested.", {-1: "the voter is not named"}),
    Row(
        "VoteRequest",
        "*.lastOffsetEpoch",
        "Epoch of the last record in the candidate's log; a voter refuses a candidate whose log is behind its own.",
    ),
    Row(
        "VoteResponse",
        "topics[].partitions[].voteGranted",
        "Whether the voter votes for the candidate.",
        {1: "the vote is given", 0: "the vote is refused"},
    ),
    Row("BeginQuorumEpochRequest", "", "The elected controller tells the voters that it is the leader."),
    Row("EndQuorumEpochRequest", "", "The leading controller resigns and names its preferred successors, best first."),
    Row(
        "DescribeQuorumResponse",
        "*.lastFetchTimestamp",
        "When the leader last heard from the replica.",
        {-1: "the leader has not heard from the replica"},
    ),
    Row(
        "DescribeQuorumResponse",
        "*.lastCaughtUpTimestamp",
        "When the replica last had caught up with the leader's log.",
        {-1: "not known when the replica had caught up"},
    ),
    Row(
        "DescribeQuorumResponse",
        "*.observers",
        "Nodes that replicate the metadata log without a vote; most are brokers.",
    ),
    Row(
        "DescribeQuorumResponse",
        "*.logEndOffset",
        "Offset up to which the replica has the log.",
        {-1: "the replica's end offset is not known"},
    ),
    Row("AlterPartitionRequest", "*.newIsr", "The replicas that the leader now finds in sync."),
    Row(
        "BrokerRegistrationRequest",
        "previousBrokerEpoch",
        "Broker epoch that the broker had before it stopped cleanly.",
        {-1: "the broker did not stop cleanly, or is new"},
    ),
    Row(
        "BrokerRegistrationRequest",
        "isMigratingZkBroker",
        "Whether the broker is a ZooKeeper broker in migration.",
        {1: "a ZooKeeper broker in migration", 0: "a KRaft broker"},
    ),
    Row(
        "BrokerHeartbeatRequest",
        "wantFence",
        "Whether the broker asks to be fenced, so that clients do not use it.",
        {1: "asks to be fenced", 0: "asks to serve"},
    ),
    Row(
        "BrokerHeartbeatRequest",
        "wantShutDown",
        "Whether the broker asks to stop.",
        {1: "asks to stop; its partitions get other leaders first", 0: "does not ask to stop"},
    ),
    Row(
        "BrokerHeartbeatRequest", "currentMetadataOffset", "Offset up to which the broker has applied the metadata log."
    ),
    Row(
        "BrokerHeartbeatRequest",
        "cordonedLogDirs",
        "Directories that take no new partitions.",
        {NULL: "cordoned directories not known yet", EMPTY: "no directory is cordoned"},
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
        "Whether the broker is fenced: it may not serve clients.",
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
        "Whether the response waits until the new voters are committed.",
        {
            1: "the response waits until the new voters are committed",
            0: "the response comes when the new voters are written",
        },
    ),
    Row("LeaderChangeMessage", "voters", "The voters in force when the leader was elected."),
    Row("EndTxnMarker", "coordinatorEpoch", "Number of coordinator changes of the transaction."),
)
