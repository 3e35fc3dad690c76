"""Makes facts of messages between brokers and controllers: states of partitions and brokers, elections, replication."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from kproxy.captures.findings import facts, metadata_log
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact, PartitionState
from kproxy.captures.index.labels import topic_id
from kproxy.decoders.schema import api_keys

Values: TypeAlias = Mapping[str, Any]
NOBODY: Final = -1
DELETED: Final = -2
"""Leader id that control requests have for a partition of a topic being deleted (LeaderAndIsr.LeaderDuringDelete)."""
RECOVERING: Final = {0: False, 1: True}
"""Maps a value of the field leaderRecoveryState to whether the partition is recovering; other values mean unknown."""
BEHIND: Final = 1_000
"""Maximum number of partitions that one ReplicaFetch fact lists."""
CHANGED: Final = {1: True, -1: False}
"""Maps a change field of a BrokerRegistrationChangeRecord to the new state; the value 0 means unchanged."""
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
VOTE, BEGIN_QUORUM, END_QUORUM, ALTER_PARTITION, REGISTRATION, HEARTBEAT = 52, 53, 54, 56, 62, 63


def _nodes(values: Values, name: str) -> tuple[int, ...] | None:
    """The node ids in a field; None if the field is missing or holds a negative id."""
    found = values.get(name)
    return tuple(found) if isinstance(found, list) and all(one >= 0 for one in found) else None


def _moved(values: Values, name: str) -> tuple[int, ...] | None:
    """The replicas in addingReplicas or removingReplicas; None if the field is invalid.

    Valid ids are also in `replicas`, because a reassignment keeps old and new replicas there until it ends.
    """
    found, replicas = _nodes(values, name), _nodes(values, "replicas")
    return None if found is None or replicas is None or not set(found) <= set(replicas) else found


def _state(decoded: DecodedExchange, topic: str, values: Values, **more: Any) -> PartitionState:
    """The PartitionState from a struct with the fields leader, isr, replicas …, however its message names them."""
    leader = values.get("leader", values.get("leaderId"))
    controlled = decoded.at.key in {api_keys.LEADER_AND_ISR, api_keys.UPDATE_METADATA}
    return PartitionState(
        decoded.at,
        topic,
        values.get("partitionIndex", values.get("partitionId", 0)),
        known(leader),
        leader == NOBODY,
        controlled and leader == DELETED,
        known(values.get("leaderEpoch")),
        _nodes(values, "replicas"),
        _nodes(values, "isr"),
        _moved(values, "addingReplicas"),
        _moved(values, "removingReplicas"),
        known(values.get("partitionEpoch", values.get("zkVersion"))),
        more.get("recovering", RECOVERING.get(values.get("leaderRecoveryState", -1))),
        bool(values.get("isNew")),
        more.get("past", False),
    )


# --- ZooKeeper mode ---


def _control(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered:
        controller, epoch = decoded.request.get("controllerId", NOBODY), decoded.request.get("controllerEpoch", -1)
        yield facts.ControlRequest(decoded.at, controller, epoch, decoded.error)


def _states(decoded: DecodedExchange) -> Iterator[Fact]:
    """Makes facts of LeaderAndIsr and UpdateMetadata."""
    yield from _control(decoded)
    if decoded.error:
        return
    groups = [(one, [one]) for one in listed(decoded.request, "ungroupedPartitionStates")]
    groups += [(one, listed(one, "partitionStates")) for one in listed(decoded.request, "topicStates")]
    # LeaderAndIsr has the field leaderRecoveryState from version 6 on, UpdateMetadata has it in no version.
    tells = decoded.at.key == api_keys.LEADER_AND_ISR and decoded.at.version >= 6
    more = {} if tells else {"recovering": None}
    for topic, partitions in groups:
        name = decoded.topic(topic)
        for one in partitions:
            yield _state(decoded, name, one, **more)


def _stop_replica(decoded: DecodedExchange) -> Iterator[Fact]:
    yield from _control(decoded)
    every = bool(decoded.request.get("deletePartitions"))
    deleted = {decoded.topic(one) for one in listed(decoded.request, "ungroupedPartitions") if every}
    deleted |= {decoded.topic(one) for one in listed(decoded.request, "topics") if every}
    deleted |= {
        decoded.topic(one)
        for one in listed(decoded.request, "topicStates")
        if any(part.get("deletePartition") for part in listed(one, "partitionStates"))
    }
    if not decoded.error:
        for name in sorted(deleted):
            yield facts.TopicChange(decoded.at, name, False, False)


def _controlled_shutdown(decoded: DecodedExchange) -> Iterator[Fact]:
    yield facts.Leaving(decoded.at, decoded.request.get("brokerId", NOBODY))


# --- both modes ---


def _altered(decoded: DecodedExchange) -> Iterator[Fact]:
    """Makes facts of an AlterPartition response: the partition states that the controller decided on."""
    for topic in listed(decoded.response, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            if not one.get("errorCode"):
                more = {} if decoded.at.version >= 1 else {"recovering": None}
                yield _state(decoded, name, one, **more)


def _reassigned(decoded: DecodedExchange) -> Iterator[Fact]:
    answers = {
        (topic.get("name"), one.get("partitionIndex")): one.get("errorCode", 0)
        for topic in listed(decoded.response, "responses")
        for one in listed(topic, "partitions")
    }
    for topic in listed(decoded.request, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            error = decoded.error or answers.get((name, index), 0)
            if decoded.answered:
                yield facts.Reassignment(decoded.at, name, index, _nodes(one, "replicas"), error)


def _reassigning(decoded: DecodedExchange) -> Iterator[Fact]:
    for topic in listed(decoded.response, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            yield _state(decoded, name, one, recovering=None)


# --- replication, and the metadata log ---


def _fetch(decoded: DecodedExchange) -> Iterator[Fact]:
    state = decoded.request.get("replicaState") or {}
    replica = known(decoded.request.get("replicaId", NOBODY))
    replica = known(state.get("replicaId", NOBODY)) if replica is None else replica
    if replica is None:
        return
    topics = listed(decoded.request, "topics")
    if topics and decoded.topic(topics[0]) == metadata_log.TOPIC:
        for one in listed(topics[0], "partitions")[:1]:
            yield from _metadata_fetch(decoded, replica, one)
    elif decoded.answered and not decoded.error:
        yield facts.ReplicaFetch(decoded.at, replica, _behind(decoded, topics))


def _behind(decoded: DecodedExchange, topics: list[Any]) -> tuple[tuple[str, int, int], ...]:
    """The partitions whose fetch offset is below the high watermark: (topic, partition, number of missing offsets)."""
    responses = listed(decoded.response, "responses")
    if not responses:
        return ()
    offsets = {
        (_key(topic), one.get("partition")): one.get("fetchOffset", -1)
        for topic in topics
        for one in listed(topic, "partitions")
    }
    behind: list[tuple[str, int, int]] = []
    for topic in responses:
        key = _key(topic)
        for one in listed(topic, "partitions"):
            index, mark = one.get("partitionIndex", 0), one.get("highWatermark", -1)
            offset = offsets.get((key, index), -1)
            if 0 <= offset < mark and not one.get("errorCode") and len(behind) < BEHIND:
                behind.append((decoded.topic(topic), index, mark - offset))
    return tuple(behind)


def _key(topic: Values) -> Any:
    """The topic's name or id, whichever this version of Fetch uses, to match request and response."""
    return topic.get("topicId") or topic.get("topic")


def _metadata_fetch(decoded: DecodedExchange, replica: int, asked: Values) -> Iterator[Fact]:
    cluster = decoded.request.get("clusterId") or ""
    answers = [one for topic in listed(decoded.response, "responses") for one in listed(topic, "partitions")]
    answer = answers[0] if answers else {}
    error = decoded.error or answer.get("errorCode", 0)
    yield facts.QuorumStep(
        decoded.at, cluster, "fetch", replica, asked.get("currentLeaderEpoch", -1), error, bool(answers)
    )
    records = answer.get("records")
    if records and not error:
        for one in decoded.log.read(cluster or decoded.at.broker, records, decoded.at.time):
            make = RECORDS.get(one.name)
            if make is not None:
                yield from make(decoded, one.values, one.past)


def _topic_record(decoded: DecodedExchange, values: Values, past: bool) -> Iterator[Fact]:
    raw = topic_id(values.get("topicId"))
    if raw is not None:
        decoded.knowledge.learn_topic(raw, values.get("name") or "")
    yield facts.TopicChange(decoded.at, values.get("name") or "", True, past)


def _removed_topic(decoded: DecodedExchange, values: Values, past: bool) -> Iterator[Fact]:
    yield facts.TopicChange(decoded.at, decoded.topic(values), False, past)


def _partition_record(decoded: DecodedExchange, values: Values, past: bool) -> Iterator[Fact]:
    yield _state(decoded, decoded.topic(values), values, past=past)


def _broker_record(decoded: DecodedExchange, values: Values, past: bool) -> Iterator[Fact]:
    """Makes a BrokerState of a RegisterBrokerRecord or a BrokerRegistrationChangeRecord.

    FenceBrokerRecord and UnfenceBrokerRecord have other field names, so `_fence_record` handles them.
    """
    fenced, leaving = values.get("fenced", 0), values.get("inControlledShutdown", 0)
    registered = isinstance(fenced, bool)
    yield facts.BrokerState(
        decoded.at,
        values.get("brokerId", NOBODY),
        known(values.get("brokerEpoch")),
        fenced if isinstance(fenced, bool) else CHANGED.get(fenced),
        leaving if isinstance(leaving, bool) else CHANGED.get(leaving),
        registered,
        past,
    )


def _fence_record(fenced: bool) -> Any:
    def make(decoded: DecodedExchange, values: Values, past: bool) -> Iterator[Fact]:
        epoch = known(values.get("epoch"))
        yield facts.BrokerState(decoded.at, values.get("id", NOBODY), epoch, fenced, None, False, past)

    return make


RECORDS: Final[dict[str, Any]] = {
    "TopicRecord": _topic_record,
    "RemoveTopicRecord": _removed_topic,
    "PartitionRecord": _partition_record,
    "PartitionChangeRecord": _partition_record,
    "RegisterBrokerRecord": _broker_record,
    "BrokerRegistrationChangeRecord": _broker_record,
    "FenceBrokerRecord": _fence_record(True),
    "UnfenceBrokerRecord": _fence_record(False),
}
"""Maps the name of a metadata log record to the function that makes facts of it."""


# --- KRaft ---


def _quorum(decoded: DecodedExchange) -> Iterator[Fact]:
    """Makes facts of Vote, BeginQuorumEpoch and EndQuorumEpoch."""
    asked = [one for topic in listed(decoded.request, "topics") for one in listed(topic, "partitions")]
    answers = [one for topic in listed(decoded.response, "topics") for one in listed(topic, "partitions")]
    if not asked:
        return
    one, error = asked[0], decoded.error or (answers[0].get("errorCode", 0) if answers else 0)
    if decoded.at.key == VOTE:
        what = "pre-vote" if one.get("preVote") else "vote"
        node, epoch = one.get("replicaId", NOBODY), one.get("replicaEpoch", -1)
    else:
        what = "begin" if decoded.at.key == BEGIN_QUORUM else "end"
        node, epoch = one.get("leaderId", NOBODY), one.get("leaderEpoch", -1)
    yield facts.QuorumStep(
        decoded.at, decoded.request.get("clusterId") or "", what, node, epoch, error, decoded.answered
    )


def _heartbeat(decoded: DecodedExchange) -> Iterator[Fact]:
    asked, answered = decoded.request, decoded.response
    yield facts.BrokerHeartbeat(
        decoded.at,
        asked.get("brokerId", NOBODY),
        asked.get("brokerEpoch", -1),
        known(asked.get("currentMetadataOffset")),
        bool(asked.get("wantFence")),
        bool(asked.get("wantShutDown")),
        bool(answered.get("isFenced")) if decoded.answered and not decoded.error else None,
        len(listed(asked, "offlineLogDirs")),
        decoded.error,
        decoded.answered,
    )


def _registration(decoded: DecodedExchange) -> Iterator[Fact]:
    if decoded.answered:
        yield facts.BrokerRegistration(decoded.at, decoded.request.get("brokerId", NOBODY), decoded.error)


_STATES = frozenset({facts.ControlRequest, PartitionState})
_LOG = frozenset({facts.QuorumStep, PartitionState, facts.TopicChange, facts.BrokerState})
_QUORUM = Reading(frozenset({facts.QuorumStep}), _quorum)
READERS: Final[dict[int, Reading]] = {
    api_keys.FETCH: Reading(_LOG | {facts.ReplicaFetch}, _fetch),
    api_keys.LEADER_AND_ISR: Reading(_STATES, _states),
    api_keys.STOP_REPLICA: Reading(frozenset({facts.ControlRequest, facts.TopicChange}), _stop_replica),
    api_keys.UPDATE_METADATA: Reading(_STATES, _states),
    api_keys.CONTROLLED_SHUTDOWN: Reading(frozenset({facts.Leaving}), _controlled_shutdown),
    ALTER_PARTITION_REASSIGNMENTS: Reading(frozenset({facts.Reassignment}), _reassigned),
    LIST_PARTITION_REASSIGNMENTS: Reading(frozenset({PartitionState}), _reassigning),
    VOTE: _QUORUM,
    BEGIN_QUORUM: _QUORUM,
    END_QUORUM: _QUORUM,
    ALTER_PARTITION: Reading(frozenset({PartitionState}), _altered),
    REGISTRATION: Reading(frozenset({facts.BrokerRegistration}), _registration),
    HEARTBEAT: Reading(frozenset({facts.BrokerHeartbeat}), _heartbeat),
}
