"""Meanings of fields about consumer groups: membership, offsets, description."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import EMPTY, NEGATIVE, NULL, POSITIVE, Row, Texts

STATES: Final[Texts] = {
    "Stable": "every member has its assignment",
    "PreparingRebalance": "waiting for all members to join again",
    "CompletingRebalance": "all have joined; waiting for the leader's assignment",
    "AwaitingSync": "the same as CompletingRebalance: older brokers use this name",
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
        "Member id that the coordinator assigned.",
        {
            EMPTY: "a first join: the coordinator assigns an id; since version 4 it sends the id with error 79, and"
            " a dynamic member joins again with it"
        },
    ),
    Row(
        "JoinGroupRequest",
        "sessionTimeoutMs",
        "A member that sends no heartbeat for this time is removed, and the group rebalances.",
    ),
    Row(
        "JoinGroupRequest",
        "rebalanceTimeoutMs",
        "How long the group waits for this member to join again (max.poll.interval.ms).",
        {-1: "as long as the session timeout"},
    ),
    Row(
        "JoinGroupRequest",
        "protocols",
        "Assignors that the member supports, the preferred one first; all members need one in common.",
    ),
    Row(
        "JoinGroupRequest JoinGroupResponse SyncGroupRequest SyncGroupResponse",
        "protocolType",
        "Kind of group: consumer, connect, or a name that the application chose.",
        {NULL: "kind of group not known"},
    ),
    Row(
        "JoinGroupResponse",
        "leader",
        "Member that computes the assignment for all members.",
        {EMPTY: "no leader: the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "members",
        "All members with their subscriptions; only the leader gets them.",
        {EMPTY: "this member is a follower, or the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "skipAssignment",
        "Whether the leader must keep the present assignment, as a static leader that came back does (KIP-814).",
        {1: "the leader must keep the present assignment", 0: "the leader computes an assignment"},
    ),
    Row(
        "JoinGroupResponse",
        "memberId",
        "Member id to use from now on.",
        {EMPTY: "no member id: the join failed"},
    ),
    Row(
        "JoinGroupResponse",
        "protocolName",
        "Assignor that the coordinator chose.",
        {NULL: "no assignor: the join failed", EMPTY: "no assignor chosen: the join failed"},
    ),
    Row(
        "SyncGroupRequest",
        "assignments",
        "Assignment of each member; only the group's leader sends it.",
        {EMPTY: "a follower, which waits for the leader's assignment; or a leader that assigns nothing"},
    ),
    Row(
        "SyncGroupResponse",
        "assignment",
        "Assignment of this member.",
        {EMPTY: "nothing is assigned"},
    ),
    Row("HeartbeatRequest", "generationId", "Generation that the member knows; an older one is refused with error 22."),
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
        {
            -1: "with an empty member id: a consumer without subscription, or a tool; refused while the group "
            "has members"
        },
    ),
    Row(
        "TxnOffsetCommitRequest",
        "generationId",
        "The generation in which the offsets of the transaction were consumed.",
        {-1: "with an empty member id: the generation is not checked"},
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
        "Whether the broker answers error 88 while transactions with newer offsets are open, instead of "
        "the older offsets.",
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
        "Kind of the key.",
        {0: "a group id", 1: "a transactional id", 2: "a share group's partition (group:topic id:partition)"},
    ),
    Row("FindCoordinatorRequest", "key", "The group id or transactional id whose coordinator is wanted."),
    Row("FindCoordinatorResponse", "*.nodeId", "Node id of the coordinator.", {-1: "no coordinator, see the error"}),
    Row(
        "DescribeGroupsResponse ConsumerGroupDescribeResponse ShareGroupDescribeResponse StreamsGroupDescribeResponse "
        "ListGroupsResponse",
        "*.groupState",
        "State of the group.",
        STATES,
    ),
    Row(
        "DescribeGroupsResponse ListGroupsResponse",
        "*.protocolType",
        "Kind of group (protocol type): consumer, connect, or a name that the application chose.",
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
        "Epoch of the member's assignment; if the coordinator has another, it answers error 110.",
        {
            0: "joins the group",
            -1: "leaves the group",
            -2: "a static member leaves and will come back",
            POSITIVE: "the epoch of the assignment that the member has reached",
        },
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "memberId",
        "Member id; since version 1 the client generates it.",
        {EMPTY: "a new member, whose id the coordinator generates"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest StreamsGroupHeartbeatRequest",
        "rebalanceTimeoutMs",
        "How long the member may take to give up partitions.",
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
        "Pattern of the topics subscribed to, in RE2 syntax.",
        {NULL: "the pattern is as before, or there is none"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "serverAssignor",
        "Assignor that the member prefers.",
        {NULL: "no preference, or the assignor as before"},
    ),
    Row(
        "ConsumerGroupHeartbeatRequest",
        "topicPartitions",
        "Partitions that the member owns now.",
        {NULL: "the member owns the same partitions as before", EMPTY: "the member owns nothing"},
    ),
    Row(
        "ConsumerGroupHeartbeatResponse ShareGroupHeartbeatResponse",
        "assignment",
        "Complete assignment that the member is to reach.",
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
        "Number of changes of members and subscriptions; each leads to a new assignment.",
    ),
    Row(
        "ConsumerGroupDescribeResponse ShareGroupDescribeResponse StreamsGroupDescribeResponse",
        "groups[].assignmentEpoch",
        "Group epoch for which the assignment was made; if it is behind the group's epoch, a new assignment is due.",
    ),
    Row(
        "ConsumerGroupDescribeResponse StreamsGroupDescribeResponse",
        "groups[].members[].targetAssignment",
        "Assignment that the member is to reach; the field assignment is what it has.",
    ),
    Row(
        "ConsumerGroupDescribeResponse",
        "groups[].members[].memberType",
        "Group protocol that the member uses.",
        {-1: "protocol of the member not known", 0: "the classic protocol", 1: "the consumer protocol (KIP-848)"},
    ),
    Row(
        "StreamsGroupHeartbeatRequest",
        "topology",
        "Topology: the tasks to create and the topics that they read.",
        {NULL: "the topology is as before"},
    ),
    Row(
        "StreamsGroupHeartbeatRequest",
        "shutdownApplication",
        "Whether all members of the application are to stop.",
        {1: "all members of the application are to stop", 0: "no stop is asked for"},
    ),
    Row(
        "StreamsGroupHeartbeatResponse",
        "status[].statusCode",
        "Why the group cannot work fully.",
        {
            0: "the member's topology is not the group's",
            1: "source topics are missing",
            2: "topics that are joined have different numbers of partitions",
            3: "internal topics are missing",
            4: "a member asked the application to stop",
            5: "the coordinator delays the assignment",
            6: "client tags for rack-aware standbys are missing",
        },
    ),
    Row(
        "ConsumerProtocolSubscription",
        "ownedPartitions",
        "Partitions that the member owned before, so that a cooperative assignor moves few.",
        {EMPTY: "the member had no partitions, or gave them up to rebalance"},
    ),
    Row(
        "ConsumerProtocolSubscription", "userData", "User data of the assignor.", {NULL: "no user data of the assignor"}
    ),
    Row(
        "ConsumerProtocolAssignment",
        "assignedPartitions",
        "The partitions that the member gets.",
        {EMPTY: "the member gets no partitions"},
    ),
)
