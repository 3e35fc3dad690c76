"""Consumer groups: membership, offsets, description."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NEGATIVE, NULL, POSITIVE, Row, Texts

STATES: Final[Texts] = {
    "Stable": "every member has its assignment",
    "PreparingRebalance": "waiting for all members to join again",
    "CompletingRebalance": "all have joined; waiting for the leader's assignment",
    "AwaitingSync": "as CompletingRebalance, which older brokers call so",
    "Empty": "no members; committed offsets are kept until they expire",
    "Dead": "the group is not there, or is being removed",
    "Assigning": "the coordinator works out a new assignment (KIP-848)",
    "Reconciling": "members are moving to the new assignment (KIP-848)",
    "NotReady": "the topology or its topics are not ready (Streams)",
}

ROWS: Final = (
    Row(
        "JoinGroupRequest",
        "memberId",
        "The id that the coordinator gave; a member that is known keeps it.",
        {
            EMPTY: "a first join: the coordinator makes an id; since version 4 error 79 tells it, "
            "and a client that is not static joins again"
        },
    ),
    Row(
        "JoinGroupRequest",
        "sessionTimeoutMs",
        "A member whose heartbeats stay away this long is removed and the group rebalances.",
    ),
    Row(
        "JoinGroupRequest",
        "rebalanceTimeoutMs",
        "How long the others wait for this member to join again (max.poll.interval.ms).",
        {-1: "as long as the session timeout"},
    ),
    Row(
        "JoinGroupRequest",
        "protocols",
        "Ways of assigning that the member knows, the preferred one first; all members need one in common.",
    ),
    Row(
        "JoinGroupRequest JoinGroupResponse SyncGroupRequest SyncGroupResponse",
        "protocolType",
        "What kind of group it is: consumer, connect, or one of the client's own.",
        {NULL: "the kind of group is not told"},
    ),
    Row(
        "JoinGroupResponse",
        "leader",
        "The member that works out the assignment for all.",
        {EMPTY: "no leader: the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "members",
        "All members with their subscriptions; told to the leader only.",
        {EMPTY: "this member is a follower, or the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "skipAssignment",
        "A static leader that came back keeps the assignment as it is (KIP-814).",
        {1: "the leader must not assign anew", 0: "the leader assigns"},
    ),
    Row(
        "JoinGroupResponse",
        "memberId",
        "The id to use from now on.",
        {EMPTY: "no member id: the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "protocolName",
        "The way of assigning that was chosen.",
        {NULL: "no way of assigning: the join failed", EMPTY: "no way of assigning chosen: the join failed"},
    ),
    Row(
        "SyncGroupRequest",
        "assignments",
        "What each member gets; the group's leader alone sends it.",
        {EMPTY: "a follower, which waits for the leader's assignment; or a leader that skips it"},
    ),
    Row(
        "SyncGroupResponse",
        "assignment",
        "What this member gets.",
        {EMPTY: "nothing is assigned"},
    ),
    Row("HeartbeatRequest", "generationId", "The generation that the member believes in; an older one gets error 22."),
    Row(
        "LeaveGroupRequest",
        "members[].memberId",
        "The member that leaves.",
        {EMPTY: "an administrator removes the member of this instance id"},
    ),
    Row(
        "OffsetCommitRequest",
        "",
        "Version 0 stores offsets in ZooKeeper, later ones in the group's own topic.",
        versions="0",
    ),
    Row(
        "OffsetFetchRequest",
        "",
        "Version 0 reads offsets from ZooKeeper, later ones from the group's own topic.",
        versions="0",
    ),
    Row(
        "OffsetCommitRequest TxnOffsetCommitRequest",
        "generationIdOrMemberEpoch",
        "The generation, or with the newer protocol the member epoch, in which the offsets were consumed.",
        {-1: "no membership, with an empty member id: no subscription or a tool; refused while the group has members"},
    ),
    Row(
        "TxnOffsetCommitRequest",
        "generationId",
        "The generation in which the offsets of the transaction were consumed.",
        {-1: "no membership, with an empty member id: the group's generation is not checked"},
    ),
    Row(
        "OffsetCommitRequest TxnOffsetCommitRequest",
        "memberId",
        "The member that commits.",
        {EMPTY: "no member of the group commits"},
    ),
    Row(
        "OffsetCommitRequest",
        "retentionTimeMs",
        "How long the offsets are kept.",
        {-1: "as long as the broker keeps them (offsets.retention.minutes)"},
    ),
    Row(
        "OffsetCommitRequest",
        "topics[].partitions[].commitTimestamp",
        "The time from which the offset's retention counts.",
        {-1: "the time at which the broker receives the commit"},
        "1",
    ),
    Row(
        "OffsetCommitRequest TxnOffsetCommitRequest",
        "topics[].partitions[].committedOffset",
        "The offset of the next record to consume, one after the last consumed.",
    ),
    Row(
        "OffsetFetchRequest",
        "topics",
        "The partitions whose offsets are wanted.",
        {NULL: "all partitions for which the group has offsets"},
    ),
    Row(
        "OffsetFetchRequest",
        "groups[].topics",
        "The partitions whose offsets of this group are wanted.",
        {NULL: "every partition for which the group has offsets"},
    ),
    Row(
        "OffsetFetchRequest",
        "groups[].memberEpoch",
        "The member epoch of the asking member (KIP-848).",
        {-1: "no member epoch: membership is not checked"},
    ),
    Row(
        "OffsetFetchRequest",
        "requireStable",
        "Whether to wait for offsets in open transactions (error 88) instead of giving the older ones.",
        {1: "offsets of open transactions are awaited", 0: "offsets of open transactions do not count"},
    ),
    Row(
        "OffsetFetchResponse",
        "*.committedOffset",
        "The offset of the next record that the group is to consume.",
        {-1: "nothing committed: the consumer starts by its auto.offset.reset"},
    ),
    Row(
        "OffsetFetchResponse",
        "*.errorCode",
        "",
        {3: "ZooKeeper has no offset of the group for this partition; later versions say offset -1 without an error"},
        "0",
    ),
    Row(
        "FindCoordinatorRequest",
        "keyType",
        "What the key is.",
        {0: "a group id", 1: "a transactional id", 2: "a share group's partition (group:topic id:partition)"},
    ),
    Row("FindCoordinatorRequest", "key", "The group id or transactional id whose coordinator is wanted."),
    Row("FindCoordinatorResponse", "*.nodeId", "The broker that coordinates.", {-1: "no coordinator, see the error"}),
    Row(
        "DescribeGroupsResponse ConsumerGroupDescribeResponse ShareGroupDescribeResponse StreamsGroupDescribeResponse "
        "ListGroupsResponse",
        "*.groupState",
        "What the group is doing.",
        STATES,
    ),
    Row(
        "DescribeGroupsResponse ListGroupsResponse",
        "*.protocolType",
        "The kind of group: consumer, connect, or one of the client's own.",
        {EMPTY: "no members ever joined: only offsets were committed"},
    ),
    Row("ListGroupsRequest", "statesFilter", "Which states of groups to list.", {EMPTY: "groups of every state"}),
    Row("ListGroupsRequest", "typesFilter", "Which kinds to list.", {EMPTY: "groups of every kind"}),
    Row(
        "ListGroupsResponse",
        "groups[].groupType",
        "Which rebalance protocol the group uses.",
        {
            "classic": "members join and sync, one of them assigns",
            "consumer": "the coordinator assigns, by heartbeats (KIP-848)",
            "share": "members share partitions and acknowledge records (KIP-932)",
            "streams": "the coordinator assigns tasks of a Streams topology (KIP-1071)",
        },
    ),
    Row(
        "ConsumerGroupHeartbeatRequest ShareGroupHeartbeatRequest StreamsGroupHeartbeatRequest",
        "memberEpoch",
        "How far the member has come; a coordinator that differs answers error 110.",
        {
            0: "joins the group",
            -1: "leaves the group",
            -2: "a static member goes and will come back",
            POSITIVE: "the epoch of the assignment that the member has taken up",
        },
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "memberId",
        "The member's id; since version 1 the client makes it.",
        {EMPTY: "a new member that leaves its id to the coordinator"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest StreamsGroupHeartbeatRequest",
        "rebalanceTimeoutMs",
        "How long the member may take to give partitions up.",
        {-1: "the time to give up partitions is as before"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest ShareGroupHeartbeatRequest",
        "subscribedTopicNames",
        "The topics subscribed to.",
        {NULL: "the subscription is as before"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "subscribedTopicRegex",
        "The pattern subscribed to, read as RE2 does.",
        {NULL: "the pattern is as before, or there is none"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "serverAssignor",
        "The assignor that the member would like.",
        {NULL: "no wish, or the assignor as before"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "topicPartitions",
        "What the member has now.",
        {NULL: "the member owns what it did before", EMPTY: "the member owns nothing"},
    ),
    Row(
        "ConsumerGroupHeartbeatResponse ShareGroupHeartbeatResponse",
        "assignment",
        "What the member is to take up, in full.",
        {NULL: "the assignment is as before"},
    ),
    Row(
        "ConsumerGroupHeartbeatResponse ShareGroupHeartbeatResponse StreamsGroupHeartbeatResponse",
        "memberEpoch",
        "The epoch for the next heartbeat.",
        {NEGATIVE: "the member has left"},
    ),
    Row(
        "ConsumerGroupDescribeResponse ShareGroupDescribeResponse StreamsGroupDescribeResponse",
        "groups[].groupEpoch",
        "Counts the changes of members and subscriptions; each leads to a new assignment.",
    ),
    Row(
        "ConsumerGroupDescribeResponse ShareGroupDescribeResponse StreamsGroupDescribeResponse",
        "groups[].assignmentEpoch",
        "The group epoch for which the assignment was made; behind it, one is due.",
    ),
    Row(
        "ConsumerGroupDescribeResponse StreamsGroupDescribeResponse",
        "groups[].members[].targetAssignment",
        "What the member is to have; its assignment is what it has.",
    ),
    Row(
        "ConsumerGroupDescribeResponse",
        "groups[].members[].memberType",
        "Which protocol the member speaks.",
        {-1: "protocol of the member not known", 0: "the classic protocol", 1: "the consumer protocol (KIP-848)"},
    ),
    Row(
        "StreamsGroupHeartbeatRequest",
        "topology",
        "The tasks to be made and the topics they take.",
        {NULL: "the topology is as before"},
    ),
    Row(
        "StreamsGroupHeartbeatRequest",
        "shutdownApplication",
        "Asks all members to stop.",
        {1: "all members of the application are to stop", 0: "no stop is asked for"},
    ),
    Row(
        "StreamsGroupHeartbeatResponse",
        "status[].statusCode",
        "What hinders the group.",
        {
            0: "the member's topology is not the group's",
            1: "source topics are missing",
            2: "topics to be joined differ in partitions",
            3: "internal topics are missing",
            4: "a member asked the application to stop",
            5: "the coordinator puts the assignment off",
            6: "client tags for rack-aware standbys are missing",
        },
    ),
    Row(
        "ConsumerProtocolSubscription",
        "ownedPartitions",
        "What the member had before, so that a cooperative assignor moves little.",
        {EMPTY: "the member had no partitions, or gave them up to rebalance"},
    ),
    Row("ConsumerProtocolSubscription", "userData", "The assignor's own data.", {NULL: "no data of the assignor"}),
    Row(
        "ConsumerProtocolAssignment",
        "assignedPartitions",
        "The partitions that the member gets.",
        {EMPTY: "the member gets no partitions"},
    ),
)
