"""Facts of what brokers and controllers say: from scripted bytes, of all versions, and of real brokers."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kproxy.captures.findings import facts
from kproxy.captures.findings.cluster_facts import READERS
from kproxy.captures.findings.making import FactMaker
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.reader import read
from kproxy.decoders.primitives import write_unsigned_varint
from kproxy.decoders.schema import definitions, store
from kproxy.decoders.writer import write
from tests.captures.findings.test_wire import Talk
from tests.decoders.batches.support import batch, record
from tests.support.scripts import START, Script, eyes, play, request, response

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
METADATA_ID = bytes(15) + b"\1"
TOPIC_ID = bytes(range(16))
NOW_MS = START // 1_000_000


def made(script: Script, *wanted: type[facts.Fact]) -> list[Any]:
    played = play(script.end())
    maker = FactMaker(played.tape, eyes(), wanted or facts.KINDS)
    others = {facts.Exchange, facts.Beginning}
    return [one for one in maker.make(played.exchanges) if type(one) not in others]


def written(kind: str, number: int, version: int = 0, /, **values: Any) -> bytes:
    """A record of the metadata log."""
    message = definitions().record("__cluster_metadata", "metadata", number, version)
    assert message is not None
    assert message.name == kind
    value = b"".join(map(write_unsigned_varint, (1, number, version))) + write(message, version, values)
    return record(0, None, value)


def log(*records: bytes, offset: int = 0, age_ms: int = 0) -> bytes:
    """Batches of one record each."""
    time = NOW_MS - age_ms
    return b"".join(
        batch(one, 1, offset=offset + number, base_time=time, max_time=time) for number, one in enumerate(records)
    )


def fetched(talk: Talk, records: bytes, cluster: str = "c") -> Talk:
    """A broker's Fetch of the metadata log."""
    asked = {"topicId": METADATA_ID, "partitions": [{"partition": 0, "fetchOffset": 0, "currentLeaderEpoch": 3}]}
    answer = {"topicId": METADATA_ID, "partitions": [{"partitionIndex": 0, "highWatermark": 9, "records": records}]}
    return talk.ask(
        1, 17, {"clusterId": cluster, "replicaState": {"replicaId": 2}, "topics": [asked]}, {"responses": [answer]}
    )


CREATED = written("TopicRecord", 2, name="orders", topicId=TOPIC_ID)
PARTITION = written(
    "PartitionRecord", 3, partitionId=1, topicId=TOPIC_ID, replicas=[1, 2], isr=[1, 2], leader=1, leaderEpoch=0,
    partitionEpoch=0,
)  # fmt: skip
SHRUNK = written("PartitionChangeRecord", 5, partitionId=1, topicId=TOPIC_ID, isr=[2], leader=2, leaderRecoveryState=1)
LEADERLESS = written("PartitionChangeRecord", 5, partitionId=1, topicId=TOPIC_ID, leader=-1)
FENCED = written("FenceBrokerRecord", 7, id=3, epoch=17)


def test_records_of_the_metadata_log() -> None:
    talk = fetched(Talk(), log(CREATED, PARTITION, SHRUNK, LEADERLESS, FENCED))
    step, topic, first, second, third, broker = made(
        talk, facts.QuorumStep, facts.TopicChange, facts.PartitionState, facts.BrokerState
    )
    assert (step.what, step.cluster, step.node, step.epoch) == ("fetch", "c", 2, 3)
    assert (topic.topic, topic.created, topic.past) == ("orders", True, False)
    assert (first.topic, first.partition, first.leader, first.isr, first.adding) == ("orders", 1, 1, (1, 2), ())
    assert (second.leader, second.isr, second.replicas, second.recovering) == (2, (2,), None, True)
    assert (third.leader, third.leaderless, third.isr, third.recovering) == (None, True, None, None)
    assert (broker.node, broker.broker_epoch, broker.fenced, broker.registered) == (3, 17, True, False)


def test_a_change_that_names_no_leader_leaves_it() -> None:
    change = written("PartitionChangeRecord", 5, partitionId=1, topicId=TOPIC_ID, isr=[1])
    (state,) = made(fetched(Talk(), log(change)), facts.PartitionState)
    assert (state.leader, state.leaderless, state.isr) == (None, False, (1,))


def test_all_followers_fetch_the_same_records() -> None:
    talk = fetched(fetched(Talk(), log(CREATED, PARTITION)), log(CREATED, PARTITION, FENCED))
    assert len(made(talk, facts.TopicChange, facts.PartitionState, facts.BrokerState)) == 3
    talk = fetched(fetched(Talk(), log(CREATED)), log(CREATED), cluster="other")
    assert len(made(talk, facts.TopicChange)) == 2


def test_old_records_tell_of_the_past() -> None:
    talk = fetched(Talk(), log(CREATED, age_ms=3_600_000) + log(FENCED, offset=1))
    topic, broker = made(talk, facts.TopicChange, facts.BrokerState)
    assert (topic.past, broker.past) == (True, False)


def test_changes_of_a_registration() -> None:
    leaving = written("BrokerRegistrationChangeRecord", 17, 1, brokerId=3, brokerEpoch=9, inControlledShutdown=1)
    fenced = written("BrokerRegistrationChangeRecord", 17, 1, brokerId=3, brokerEpoch=9, fenced=1)
    back = written("BrokerRegistrationChangeRecord", 17, 1, brokerId=3, brokerEpoch=9, fenced=-1)
    found = made(fetched(Talk(), log(leaving, fenced, back)), facts.BrokerState)
    assert [(one.fenced, one.leaving) for one in found] == [(None, True), (True, None), (False, None)]


@pytest.mark.parametrize("size", [0, 3, 40, 60, 90])
def test_damaged_records_raise_nothing(size: int) -> None:
    records = log(PARTITION)
    assert not list(MetadataLog().read("c", records[:size], START))
    broken = bytearray(records)
    broken[-8:] = b"\xff" * 8
    list(MetadataLog().read("c", bytes(broken), START))
    header = bytearray(records)
    struct.pack_into(">i", header, 57, 1 << 30)
    list(MetadataLog().read("c", bytes(header), START))


def test_a_follower_that_is_behind() -> None:
    asked = {"topic": "t", "partitions": [{"partition": one, "fetchOffset": 100} for one in range(3)]}
    answers = [
        {"partitionIndex": 0, "highWatermark": 100},
        {"partitionIndex": 1, "highWatermark": 170},
        {"partitionIndex": 2, "highWatermark": -1, "errorCode": 6},
    ]
    answer = {"responses": [{"topic": "t", "partitions": answers}]}
    (fact,) = made(Talk().ask(1, 11, {"replicaId": 2, "topics": [asked]}, answer), facts.ReplicaFetch)
    assert (fact.replica, fact.behind) == (2, (("t", 1, 70),))
    assert not made(Talk().ask(1, 11, {"replicaId": -1, "topics": [asked]}, answer), facts.ReplicaFetch)


def test_replicas_that_are_nonsense_make_no_reassignment() -> None:
    def states(**said: Any) -> facts.PartitionState:
        topic = {"name": "t", "partitions": [{"partitionIndex": 0, **said}]}
        (found,) = made(Talk().ask(46, 0, {"topics": None}, {"topics": [topic]}), facts.PartitionState)
        assert isinstance(found, facts.PartitionState)
        return found

    good = states(replicas=[1, 2, 3], addingReplicas=[3], removingReplicas=[1])
    assert (good.adding, good.removing) == ((3,), (1,))
    strange = states(replicas=[1, 2], addingReplicas=[3], removingReplicas=[-7])
    assert (strange.adding, strange.removing) == (None, None)


def test_requests_for_votes() -> None:
    def partition(**said: Any) -> dict[str, Any]:
        return {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0, **said}]}]}

    granted = partition(leaderId=-1, leaderEpoch=3, voteGranted=True)
    talk = Talk().ask(52, 2, partition(replicaEpoch=3, replicaId=2, preVote=True), granted)
    talk.ask(52, 1, partition(replicaEpoch=4, replicaId=2), granted)
    talk.ask(53, 1, partition(leaderId=2, leaderEpoch=4), partition(leaderId=2, leaderEpoch=4))
    talk.ask(54, 1, partition(leaderId=2, leaderEpoch=4), partition(leaderId=2, leaderEpoch=4, errorCode=42))
    found = made(talk, facts.QuorumStep)
    assert [(one.what, one.node, one.epoch, one.error) for one in found] == [
        ("pre-vote", 2, 3, 0), ("vote", 2, 4, 0), ("begin", 2, 4, 0), ("end", 2, 4, 42),
    ]  # fmt: skip


def test_heartbeats_of_brokers() -> None:
    asked = {"brokerId": 3, "brokerEpoch": 9, "currentMetadataOffset": 50, "offlineLogDirs": [TOPIC_ID]}
    talk = Talk().ask(63, 1, asked, {"isFenced": False}).ask(63, 1, asked, {"errorCode": 41, "isFenced": True})
    good, refused = made(talk, facts.BrokerHeartbeat)
    assert (good.node, good.fenced, good.offline_dirs, good.error) == (3, False, 1, 0)
    assert (refused.fenced, refused.error) == (None, 41)


def test_control_requests_of_zookeeper_mode() -> None:
    states = [{"topicName": "t", "partitionStates": [
        {"partitionIndex": 0, "leader": -2, "leaderEpoch": 4, "isr": [1], "replicas": [1, 2], "zkVersion": 6},
    ]}]  # fmt: skip
    talk = Talk().ask(6, 5, {"controllerId": 1, "controllerEpoch": 3, "topicStates": states}, {})
    talk.ask(6, 5, {"controllerId": 1, "controllerEpoch": 2, "topicStates": states}, {"errorCode": 11})
    control, state, refused = made(talk, facts.ControlRequest, facts.PartitionState)
    assert (control.controller, control.epoch, control.error) == (1, 3, 0)
    assert (state.topic, state.leader, state.deleting, state.version, state.recovering) == ("t", None, True, 6, None)
    assert (refused.epoch, refused.error) == (2, 11)


def test_leader_and_isr_of_an_unclean_election() -> None:
    """From version 6 on the request says that the leader must recover."""
    state = {"partitionIndex": 0, "leader": 2, "leaderEpoch": 4, "isr": [2], "replicas": [1, 2]}
    for version, recovering in ((5, None), (6, True), (7, True)):
        said = state | ({} if recovering is None else {"leaderRecoveryState": 1})
        body = {"controllerId": 1, "controllerEpoch": 3, "topicStates": [{"topicName": "t", "partitionStates": [said]}]}
        (found,) = made(Talk().ask(4, version, body, {}), facts.PartitionState)
        assert found.recovering is recovering


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, {"deletePartitions": True, "ungroupedPartitions": [{"topicName": "t", "partitionIndex": 0}]}),
        (2, {"deletePartitions": True, "topics": [{"name": "t", "partitionIndexes": [0]}]}),
        (3, {"topicStates": [
            {"topicName": "t", "partitionStates": [{"partitionIndex": 0, "deletePartition": True}]},
            {"topicName": "u", "partitionStates": [{"partitionIndex": 0, "deletePartition": False}]},
        ]}),
    ],
)  # fmt: skip
def test_replicas_that_are_stopped_and_deleted(version: int, body: dict[str, Any]) -> None:
    found = made(Talk().ask(5, version, {"controllerId": 1, "controllerEpoch": 3, **body}, {}), facts.TopicChange)
    assert [(one.topic, one.created) for one in found] == [("t", False)]


def test_controllers_of_a_real_cluster() -> None:
    """Kafka 0.8.2.2: broker 1 asks for its shutdown, broker 2 becomes the controller."""
    reader = read(CAPTURES / "kafka-0.8.2.2.pcap")
    maker = FactMaker(reader.source, reader.definitions, (facts.ControlRequest, facts.Leaving))
    found = [one for items in reader.batches() for one in maker.make(items, reader.closings)]
    controls = [one for one in found if isinstance(one, facts.ControlRequest)]
    assert {(one.controller, one.epoch, one.error) for one in controls} == {(1, 1, 0), (2, 2, 0)}
    assert [one.node for one in found if isinstance(one, facts.Leaving)] == [1]


@pytest.mark.parametrize("key", sorted(READERS))
def test_empty_bodies_of_every_version_give_facts_or_none(key: int) -> None:
    versions = sorted({
        version
        for kept in store.definitions().values()
        for one in kept
        if one.api_key == key and one.kind == "request"
        for version in range(one.versions.low, one.versions.high + 1)
    })  # fmt: skip
    script = Script()
    for number, version in enumerate(versions):
        script.client(request(key, version, number, "app"))
        script.broker(response(key, version, number))
    kinds = {type(one) for one in made(script, *READERS[key].makes)}
    assert kinds <= READERS[key].makes
