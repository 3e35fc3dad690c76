"""Meanings of fields in Produce, Fetch, offsets by time and by epoch, metadata, and API versions."""

from __future__ import annotations

from typing import Final

from kproxy.decoders.meanings.row import ANY, EMPTY, NEGATIVE, NULL, POSITIVE, Row

ROWS: Final = (
    Row(
        "ProduceRequest",
        "acks",
        "How many replicas must have the records before the broker answers.",
        {
            0: "nobody: no response ever comes, so error and offset stay unknown; instead of an error the broker "
            "closes the connection",
            1: "the leader alone: what it has written is lost if it fails before a follower has copied it",
            -1: "all replicas in sync, and at least min.insync.replicas of them",
            POSITIVE: "that many replicas, in Kafka 0.8 only; later brokers answer error 21",
        },
    ),
    Row(
        "ProduceRequest",
        "timeoutMs",
        "How long the leader waits for followers with acks -1; not a limit on time in queues, disks, quotas, the "
        "network or retries. If it runs out (error 7), the records stay written.",
    ),
    Row(
        "ProduceRequest",
        "transactionalId",
        "The transaction that the records belong to.",
        {NULL: "the records belong to no transaction"},
    ),
    Row("ProduceRequest", "topicData[].partitionData[].records", "", {NULL: "nothing to write"}),
    Row(
        "ProduceResponse",
        "responses[].partitionResponses[].baseOffset",
        "The offset that the first record of the batch was given.",
        {-1: "nothing was written, or it was a duplicate whose offset is no longer known"},
    ),
    Row(
        "ProduceResponse",
        "responses[].partitionResponses[].logAppendTimeMs",
        "Time at which the broker wrote the records, if the topic uses LogAppendTime.",
        {-1: "the records keep the producer's time (CreateTime)"},
    ),
    Row(
        "ProduceResponse",
        "responses[].partitionResponses[].logStartOffset",
        "The first offset that the partition still has.",
        {-1: "the first offset is not known"},
    ),
    Row(
        "ProduceResponse",
        "responses[].partitionResponses[].recordErrors",
        "Which records made the broker refuse the whole batch.",
        {EMPTY: "no record is singled out"},
    ),
    Row(
        "ProduceResponse FetchResponse",
        "*.currentLeader",
        "Current leader of the partition, sent with errors 6 and 74.",
    ),
    Row("ProduceResponse FetchResponse", "*.leaderId", "", {-1: "no other leader: nothing changed"}),
    Row(
        "FetchRequest",
        "replicaId",
        "Who fetches.",
        {-1: "a consumer", -2: "a debugging tool; until Kafka 2.3 it may also read from a follower"},
    ),
    Row(
        "FetchRequest ListOffsetsRequest OffsetForLeaderEpochRequest",
        "replicaId",
        "",
        {POSITIVE: "the id of a follower that replicates", 0: "follower 0, which replicates"},
    ),
    Row(
        "FetchRequest",
        "replicaState.replicaId",
        "Node id of the follower that fetches; its fetch offset shows how far its replica is.",
        {-1: "a consumer fetches, not a follower", POSITIVE: "a follower's id", 0: "follower 0 replicates"},
    ),
    Row(
        "FetchRequest",
        "replicaState.replicaEpoch",
        "The broker epoch of the follower.",
        {-1: "no broker epoch: a consumer, or a follower without one"},
    ),
    Row(
        "FetchRequest ShareFetchRequest",
        "maxWaitMs",
        "How long the broker holds the request if fewer bytes than the minimum are available.",
        {0: "answer at once, even with nothing"},
    ),
    Row(
        "FetchRequest ShareFetchRequest",
        "minBytes",
        "The broker answers when this many bytes are available, at the latest after the maximum wait.",
        {0: "answer at once, even without data", 1: "answer as soon as there is any data"},
    ),
    Row(
        "FetchRequest ShareFetchRequest",
        "maxBytes",
        "Maximum bytes of the whole response; the first batch is returned whole even if it is larger.",
    ),
    Row(
        "FetchRequest",
        "sessionId",
        "Id of the fetch session (KIP-227): the broker remembers the partitions, so that requests list only changes.",
        {0: "no fetch session yet"},
    ),
    Row(
        "FetchRequest",
        "sessionEpoch",
        "Number of the request in its fetch session.",
        {
            0: "a full fetch that asks for a new session",
            -1: "a full fetch without a session; ends the session with this id, if there is one",
            POSITIVE: "an incremental fetch: partitions not named are fetched as before",
        },
    ),
    Row(
        "FetchRequest",
        "topics",
        "Partitions to fetch; in an incremental fetch only new or changed ones.",
        {EMPTY: "in a fetch session, the same partitions as before; else none"},
    ),
    Row(
        "FetchRequest",
        "topics[].partitions[].fetchOffset",
        "Offset of the next record wanted; a follower has copied all records before it.",
    ),
    Row(
        "FetchRequest",
        "topics[].partitions[].lastFetchedEpoch",
        "Leader epoch of the last record fetched; the leader uses it to check whether the logs diverge.",
        {-1: "not known, so the leader does not check whether the logs diverge"},
    ),
    Row(
        "FetchRequest",
        "topics[].partitions[].logStartOffset",
        "The first offset that the follower still has.",
        {-1: "a consumer, which has no log"},
    ),
    Row(
        "FetchRequest",
        "topics[].partitions[].highWatermark",
        "High watermark that the follower knows; if the leader has a newer one, it answers early.",
        {-1: "the follower knows no high watermark", 2**63 - 1: "the sender does not use this field"},
    ),
    Row(
        "FetchRequest ShareFetchRequest",
        "forgottenTopicsData",
        "Partitions that leave the session.",
        {EMPTY: "no partition leaves the session"},
    ),
    Row(
        "FetchRequest",
        "rackId",
        "The consumer's rack: the leader may send the consumer to a replica in this rack (KIP-392).",
        {EMPTY: "no rack: the consumer stays with the leader"},
    ),
    Row(
        "FetchResponse",
        "sessionId",
        "The session to name in the next fetch.",
        {0: "no session: none was asked for, or the broker has no room for one"},
    ),
    Row(
        "FetchResponse",
        "responses",
        "Fetched topics with their partitions.",
        {EMPTY: "no news; in a fetch session, partitions without news are left out"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].highWatermark",
        "Records before this offset are on every replica in sync, so consumers may read them. Lag is the"
        " distance from a consumer's next offset to this one.",
        {-1: "not known, because of the error"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].lastStableOffset",
        "Records before this offset belong to no open transaction; consumers with read_committed get no further.",
        {-1: "last stable offset not known"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].logStartOffset",
        "The partition's first offset that was not deleted.",
        {-1: "first offset not known, because of the error"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].abortedTransactions",
        "Producers and where their aborted transactions begin: consumers skip their records up to the abort marker.",
        {NULL: "the consumer reads uncommitted records as well", EMPTY: "no aborted transaction among these records"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].preferredReadReplica",
        "A replica nearer to the consumer, from which it should fetch from now on (KIP-392).",
        {-1: "stay with this broker"},
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].divergingEpoch",
        "Where the follower's log diverges from the leader's; the follower truncates its log there.",
    ),
    Row("FetchResponse", "responses[].partitions[].divergingEpoch.epoch", "", {-1: "the logs do not diverge"}),
    Row("FetchResponse", "responses[].partitions[].divergingEpoch.endOffset", "", {-1: "nothing to truncate"}),
    Row(
        "FetchResponse",
        "responses[].partitions[].snapshotId",
        "Snapshot to fetch, because the log no longer has the offset (metadata log only).",
    ),
    Row(
        "FetchResponse",
        "responses[].partitions[].records",
        "Record batches as they are in the log: the first may begin before the fetch offset, the last "
        "may be incomplete.",
        {NULL: "no records here"},
    ),
    Row(
        "ListOffsetsRequest",
        "replicaId",
        "Who asks.",
        {-1: "a consumer, which sees committed records only", -2: "a debugging tool, which sees the log's end"},
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "Which offset is wanted: the one at this time; a negative number asks for a special one.",
        {
            -1: "latest: the high watermark, or the last stable offset when reading committed",
            -2: "earliest: the first offset that the partition still has",
        },
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {-3: "the record with the greatest timestamp (KIP-734)"},
        "7+",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {-4: "the first offset on the broker's own disks, older ones are tiered (KIP-405)"},
        "8+",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {-5: "the last offset that is in tiered storage (KIP-1005)"},
        "9+",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {-6: "the first offset that still waits for its upload to tiered storage (KIP-1023)"},
        "11+",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {NEGATIVE: "no release gives this number a meaning in this version"},
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {ANY: "offsets of segments that were last changed before this time"},
        "0",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].timestamp",
        "",
        {ANY: "the first record of this time or later"},
        "1+",
    ),
    Row(
        "ListOffsetsRequest",
        "topics[].partitions[].maxNumOffsets",
        "How many offsets version 0 may list.",
    ),
    Row(
        "ListOffsetsRequest",
        "timeoutMs",
        "How long the broker may look in tiered storage (KIP-1075).",
    ),
    Row(
        "ListOffsetsResponse",
        "topics[].partitions[].oldStyleOffsets",
        "First offsets of log segments, newest first; for the latest offset also the log end offset.",
        {EMPTY: "no segment was last changed before this time"},
        "0",
    ),
    Row(
        "ListOffsetsResponse",
        "topics[].partitions[].offset",
        "The offset found.",
        {-1: "no record has this time or a later one"},
    ),
    Row(
        "ListOffsetsResponse",
        "topics[].partitions[].timestamp",
        "The time of the record found.",
        {-1: "no time: earliest and latest are no records"},
    ),
    Row(
        "OffsetForLeaderEpochRequest",
        "topics[].partitions[].leaderEpoch",
        "Leader epoch whose end offset is requested, to detect a truncated log (KIP-101, KIP-320).",
    ),
    Row(
        "OffsetForLeaderEpochRequest",
        "replicaId",
        "Node id of the follower that asks; negative for other clients.",
        {-1: "a consumer checks its position", -2: "an older client, or a debugging tool"},
    ),
    Row(
        "OffsetForLeaderEpochResponse",
        "topics[].partitions[].endOffset",
        "End offset of the leader epoch; records beyond it were truncated.",
        {-1: "the leader does not know where the epoch ends"},
    ),
    Row(
        "OffsetForLeaderEpochResponse",
        "topics[].partitions[].leaderEpoch",
        "Largest leader epoch that is not above the requested one.",
        {-1: "the leader knows no such epoch"},
    ),
    Row(
        "MetadataRequest",
        "topics",
        "Topics to describe. A broker with auto.create.topics.enable creates missing ones.",
        {EMPTY: "all topics"},
        "0",
    ),
    Row(
        "MetadataRequest",
        "topics",
        "Topics to describe; in these versions a broker with auto.create.topics.enable always creates missing ones.",
        {NULL: "all topics of the cluster", EMPTY: "no topics, brokers only"},
        "1-3",
    ),
    Row(
        "MetadataRequest",
        "topics",
        "Topics to describe; with allowAutoTopicCreation, missing ones may be created.",
        {NULL: "every topic of the cluster", EMPTY: "no topic, only brokers"},
        "4+",
    ),
    Row(
        "MetadataRequest",
        "allowAutoTopicCreation",
        "Whether the broker may create topics that are missing, if auto.create.topics.enable is set there.",
        {1: "missing topics may be created", 0: "nothing is created"},
    ),
    Row(
        "MetadataRequest",
        "topics[].name",
        "The name of a topic to describe.",
        {NULL: "the topic is named by its id"},
        "10+",
    ),
    Row(
        "MetadataResponse",
        "controllerId",
        "Broker to send administrative requests to. With KRaft it is any live broker, which forwards "
        "them to the controller.",
        {-1: "no controller is known"},
    ),
    Row(
        "MetadataResponse DescribeTopicPartitionsResponse",
        "*.isrNodes",
        "Replicas in sync; they alone may become leader without losing records.",
        {EMPTY: "no replica is in sync"},
    ),
    Row(
        "MetadataResponse DescribeTopicPartitionsResponse",
        "*.replicaNodes",
        "Brokers with a copy of the partition, the preferred leader first.",
    ),
    Row(
        "MetadataResponse DescribeTopicPartitionsResponse",
        "topics[].partitions[].leaderId",
        "Node id of the leader: the broker to produce to and to consume from.",
        {-1: "no leader: the partition can be neither written nor read"},
    ),
    Row(
        "DescribeTopicPartitionsResponse",
        "topics[].partitions[].eligibleLeaderReplicas",
        "Replicas out of the ISR that still have all committed records and may lead (KIP-966).",
        {NULL: "the cluster does not keep eligible leader replicas", EMPTY: "no eligible replica beside the ISR"},
    ),
    Row(
        "DescribeTopicPartitionsResponse",
        "nextCursor",
        "Partition from which the next request must continue: the response reached its limit of partitions.",
        {NULL: "the response is complete"},
    ),
    Row(
        "ApiVersionsRequest",
        "nodeId",
        "Node id that the client means to reach, so that the broker can detect a wrong address.",
        {-1: "the client does not say which node it expects"},
    ),
    Row(
        "ApiVersionsResponse",
        "apiKeys",
        "The APIs and versions that the broker serves; clients take the highest that both know.",
    ),
    Row(
        "ApiVersionsResponse",
        "finalizedFeaturesEpoch",
        "Increases with each change of the finalized features.",
        {-1: "not known: ignore the finalized features"},
    ),
    Row(
        "ApiVersionsResponse",
        "finalizedFeatures",
        "Feature levels that the whole cluster has enabled, such as metadata.version.",
    ),
    Row(
        "ApiVersionsResponse",
        "zkMigrationReady",
        "Whether the KRaft controller is configured for the migration from ZooKeeper.",
        {1: "ready to migrate from ZooKeeper", 0: "not set up to migrate from ZooKeeper"},
    ),
    Row(
        "ApiVersionsResponse",
        "errorCode",
        "",
        {
            35: "the broker does not know this version of ApiVersions; it lists the versions it knows in the "
            "layout of v0"
        },
    ),
)
