"""What the control plane's messages say of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.analysis import cluster, traffic
from tests.captures.analysis.support import Exchanged, views
from tests.decoders.batches.support import batch, record
from tests.decoders.records.test_internal import metadata as metadata_record

REPLICAS = {"partitionIndex": 0, "leaderId": 1, "leaderEpoch": 3, "isrNodes": [1, 2], "replicaNodes": [1, 2]}
LEADERLESS = {"partitionIndex": 1, "leaderId": -1, "leaderEpoch": 0, "isrNodes": [], "replicaNodes": [2]}
BROKERS = [{"nodeId": 2, "host": "b", "port": 9093}, {"nodeId": 1, "host": "a", "port": 9092, "rack": "r1"}]
TOPICS = [
    {"name": "t", "partitions": [REPLICAS]},
    {"name": "refused", "errorCode": 3, "partitions": [REPLICAS]},
    {"name": "u", "partitions": [LEADERLESS]},
]


def metadata(**body: Any) -> Exchanged:
    return 3, 12, {}, {"clusterId": "c1", "controllerId": 7, "brokers": BROKERS, "topics": TOPICS, **body}


def state(leader: int, epoch: int, isr: list[int], replicas: list[int], **more: Any) -> dict[str, Any]:
    return {"partitionIndex": 0, "leader": leader, "leaderEpoch": epoch, "isr": isr, "replicas": replicas, **more}


def control(controller: int, epoch: int, *states: dict[str, Any], key: int = 4, version: int = 4) -> Exchanged:
    topics = [{"topicName": "t", "partitionStates": list(states)}]
    return key, version, {"controllerId": controller, "controllerEpoch": epoch, "topicStates": topics}, {}


def from_controller(key: int, version: int, **body: Any) -> Exchanged:
    return key, version, {"controllerId": 1, "controllerEpoch": 6, **body}, {}


def states(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the lines of partitions say of their leaders and replicas."""
    told = ("leader", "leader_epoch", "isr", "replicas")
    return [
        {"partition": f"{one['topic']}-{one['partition']}", **{name: one[name] for name in told}}
        for one in lines
        if one["schema"] == "kproxy.partition/1" and (one["leader"], one["isr"], one["replicas"]) != (None,) * 3
    ]


def told(*steps: Exchanged) -> tuple[dict[str, Any], list[tuple[int, str, str, str]]]:
    """The cluster at last, and its events: (exchange, about, text, source)."""
    head, *others = views(*steps)["cluster"].lines()
    events = [one for one in others if one["schema"] == "kproxy.cluster_event/1"]
    return {**head, "partitions": states(others)}, [
        (one["exchange"], one["about"], one["text"], one["source"]) for one in events
    ]


def test_what_metadata_tells() -> None:
    moved = {"clusterId": None, "topics": [], "brokers": [{"nodeId": 1, "host": "a", "port": 9999}]}
    head, *events = views(metadata(), metadata(**moved))["cluster"].lines()
    events, partitions = events[:-2], events[-2:]
    assert head == {
        "schema": "kproxy.cluster/1",
        "cluster_id": "c1",
        "controller": 7,
        "controller_epoch": None,
        "brokers": [
            {"node_id": 1, "address": "a:9999", "rack": None},
            {"node_id": 2, "address": "b:9093", "rack": None},
        ],
        "fetches": {},
        "more_events": 0,
    }
    assert states(partitions) == [
        {"partition": "t-0", "leader": 1, "leader_epoch": 3, "isr": (1, 2), "replicas": (1, 2)},
        {"partition": "u-1", "leader": -1, "leader_epoch": 0, "isr": (), "replicas": (2,)},
    ]
    assert [(one["time"], one["exchange"], one["kind"], one["about"], one["text"]) for one in events] == [
        ("2023-11-14T22:13:20.001000000Z", 1, "broker", "broker 2", "at b:9093"),
        ("2023-11-14T22:13:20.001000000Z", 1, "broker", "broker 1", "at a:9092"),
        ("2023-11-14T22:13:20.001000000Z", 1, "leader", "u-1", "has no leader"),
        ("2023-11-14T22:13:20.003000000Z", 2, "broker", "broker 1", "moved from a:9092 to a:9999"),
    ]
    assert {(one["schema"], one["source"]) for one in events} == {("kproxy.cluster_event/1", "Metadata")}


def test_the_controller_of_metadata_counts_until_control_requests_name_one() -> None:
    def controllers(*steps: Exchanged) -> tuple[int, int | None]:
        head, _ = told(*steps)
        return head["controller"], head["controller_epoch"]

    assert controllers(metadata(), metadata(controllerId=8)) == (8, None)
    assert controllers(metadata(), metadata(controllerId=-1)) == (7, None)
    assert controllers(metadata(controllerId=0)) == (0, None)
    assert controllers(metadata(), control(2, 0), metadata(controllerId=8)) == (2, 0)
    # A former controller that does not know yet, and a new one.
    assert controllers(control(2, 5), control(1, 4)) == (2, 5)
    assert controllers(control(2, 5), control(1, 6)) == (1, 6)
    assert controllers(control(2, 5), control(1, 5)) == (1, 5)


def test_what_happens_to_a_partition() -> None:
    head, events = told(
        metadata(brokers=[], topics=TOPICS[:1]),
        control(1, 6, state(2, 4, [2], [2, 1], addingReplicas=[3], removingReplicas=[1])),
        control(1, 6, state(2, 4, [2], [1, 2]), key=6, version=6),  # UpdateMetadata tells nothing of what moves
        control(1, 6, state(1, 2, [1], [1], addingReplicas=[])),  # of an earlier epoch
        control(1, 6, state(-1, 5, [2], [2, 3], addingReplicas=[], removingReplicas=[])),
        control(1, 6, state(3, 6, [2, 3], [3, 2])),
        control(1, 6, state(-2, 6, [3, 2], [3, 2])),
        control(1, 6, state(2, -1, [3, 2], [3, 2])),
    )
    assert events == [
        (2, "broker 1", "controller 1 at epoch 6", "LeaderAndIsr"),
        (2, "t-0", "leader 1 -> 2 at epoch 4", "LeaderAndIsr"),
        (2, "t-0", "ISR [1,2] -> [2]", "LeaderAndIsr"),
        (2, "t-0", "reassignment: adding [3], removing [1]", "LeaderAndIsr"),
        (5, "t-0", "has no leader", "LeaderAndIsr"),
        (5, "t-0", "replicas [1,2] -> [2,3]", "LeaderAndIsr"),
        (5, "t-0", "reassignment is over", "LeaderAndIsr"),
        (6, "t-0", "leader nobody -> 3 at epoch 6", "LeaderAndIsr"),
        (6, "t-0", "ISR [2] -> [2,3]", "LeaderAndIsr"),
        (7, "t-0", "is being deleted", "LeaderAndIsr"),
        (8, "t-0", "leader nobody -> 2", "LeaderAndIsr"),
    ]
    assert head["partitions"] == [
        {"partition": "t-0", "leader": 2, "leader_epoch": 6, "isr": (2, 3), "replicas": (3, 2)}
    ]


def test_what_else_the_controller_says() -> None:
    old = {"topicName": "o", "partitionIndex": 2, "leader": 1, "leaderEpoch": 0, "isr": [1], "replicas": [1]}
    ends = [{"host": "d", "port": 1}, {"host": "e", "port": 2}]
    stopped = [{"partitionIndex": 0, "deletePartition": True}, {"partitionIndex": 1, "deletePartition": False}]
    head, events = told(
        control(1, 6),
        from_controller(6, 6, liveBrokers=[{"id": 4, "endpoints": ends, "rack": "x"}]),
        from_controller(6, 0, liveBrokers=[{"id": 3, "v0Host": "c", "v0Port": 5}], ungroupedPartitionStates=[old]),
        (7, 1, {"brokerId": 2}, {}),
        from_controller(5, 0, deletePartitions=True, ungroupedPartitions=[{"topicName": "t", "partitionIndex": 0}]),
        from_controller(5, 1, deletePartitions=False, topics=[{"name": "t", "partitionIndexes": [0, 1]}]),
        from_controller(5, 3, topicStates=[{"topicName": "t", "partitionStates": stopped}]),
    )
    assert events[1:] == [
        (2, "broker 4", "at d:1", "UpdateMetadata"),
        (3, "broker 3", "at c:5", "UpdateMetadata"),
        (4, "broker 2", "broker 2 asks to shut down", "ControlledShutdown"),
        (5, "t-0", "its replica is stopped and deleted", "StopReplica"),
        (6, "t-0", "its replica is stopped", "StopReplica"),
        (6, "t-1", "its replica is stopped", "StopReplica"),
        (7, "t-0", "its replica is stopped and deleted", "StopReplica"),
        (7, "t-1", "its replica is stopped", "StopReplica"),
    ]
    assert head["brokers"][1] == {"node_id": 4, "address": "d:1", "rack": "x"}
    assert head["partitions"] == [{"partition": "o-2", "leader": 1, "leader_epoch": 0, "isr": (1,), "replicas": (1,)}]


@pytest.mark.parametrize(
    ("key", "version", "asked", "answered", "expected"),
    [
        (19, 5, {"topics": [{"name": "a", "numPartitions": 3}, {"name": "b", "numPartitions": -1}]},
         {"topics": [{"name": "a", "errorCode": 36}, {"name": "b"}]},
         [("a", "created with 3 partitions, refused with 36"), ("b", "created")]),
        (19, 5, {"topics": [{"name": "a", "numPartitions": -1, "assignments": [{"partitionIndex": 0}] * 2}]}, {},
         [("a", "created with 2 partitions")]),
        (20, 4, {"topicNames": ["a", "b"]}, {"responses": [{"name": "a"}, {"name": "b", "errorCode": 3}]},
         [("a", "deleted"), ("b", "deleted, refused with 3")]),
        (20, 6, {"topics": [{"name": "c"}]}, {"responses": [{"name": "c", "errorCode": 29}]},
         [("c", "deleted, refused with 29")]),
        (37, 1, {"topics": [{"name": "a", "count": 6}, {"name": "b", "count": 2}]},
         {"results": [{"name": "a"}, {"name": "b", "errorCode": 37}]},
         [("a", "grows to 6 partitions"), ("b", "grows to 2 partitions, refused with 37")]),
        (45, 0,
         {"topics": [{"name": "a", "partitions": [{"partitionIndex": 0, "replicas": [1, 2]},
                                                  {"partitionIndex": 1, "replicas": None}]}]},
         {"responses": [{"name": "a", "partitions": [{"partitionIndex": 0}, {"partitionIndex": 1, "errorCode": 85}]}]},
         [("a-0", "to be moved to [1,2]"), ("a-1", "reassignment cancelled, refused with 85")]),
        (43, 1, {"topicPartitions": None}, {}, [("", "leaders are elected (all partitions)")]),
        (43, 1, {"topicPartitions": [{"topic": "a", "partitions": [0, 1]}, {"topic": "b", "partitions": [0]}]}, {},
         [("", "leaders are elected (3 partitions)")]),
    ],
)  # fmt: skip
def test_what_admin_clients_ask_for(
    key: int, version: int, asked: dict[str, Any], answered: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    _, events = told((key, version, asked, answered))
    assert [(about, text) for _, about, text, _ in events] == expected


def test_what_the_controller_answers_a_leader() -> None:
    def answered(*partitions: dict[str, Any]) -> Exchanged:
        return 56, 0, {}, {"topics": [{"topicName": "a", "partitions": list(partitions)}]}

    first = {"partitionIndex": 0, "leaderId": 1, "leaderEpoch": 2, "isr": [1, 2]}
    refused = {"partitionIndex": 1, "leaderId": 1, "leaderEpoch": 2, "isr": [1, 2], "errorCode": 6}
    head, events = told(answered(first, refused), answered({**first, "isr": [1]}))
    assert events == [(2, "a-0", "ISR [1,2] -> [1]", "AlterPartition")]
    assert head["partitions"] == [{"partition": "a-0", "leader": 1, "leader_epoch": 2, "isr": (1,), "replicas": None}]


def test_events_and_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "EVENTS", 2)
    monkeypatch.setattr(cluster, "MOST", 1)
    head, events = told(metadata())
    assert [about for _, about, _, _ in events] == ["broker 2", "broker 1"]
    assert head["more_events"] == 1
    assert [one["partition"] for one in head["partitions"]] == ["t-0"]


TOPIC = b"\1" * 16


def logged(*values: bytes, offset: int = 0) -> Exchanged:
    """A Fetch of the metadata log from `offset` on."""
    records = b"".join(record(delta, None, value) for delta, value in enumerate(values))
    data = batch(records, len(values), offset=offset)
    partition = {"partitionIndex": 0, "records": data}
    asked = {"replicaId": 3, "topics": [{"topic": "__cluster_metadata", "partitions": [{"partition": 0}]}]}
    return 1, 11, asked, {"responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}


def test_what_the_metadata_log_tells() -> None:
    created = metadata_record(2, 0, "TopicRecord", name="t", topicId=TOPIC)
    at_first = {"topicId": TOPIC, "partitionId": 0, "leader": 1, "leaderEpoch": 0, "isr": [1, 2], "replicas": [1, 2]}
    placed = metadata_record(3, 0, "PartitionRecord", **at_first)

    def changed(**what: Any) -> bytes:
        return metadata_record(5, 0, "PartitionChangeRecord", topicId=TOPIC, partitionId=0, **what)

    ends = [{"name": "A", "host": "a", "port": 9092}, {"name": "B", "host": "b", "port": 9093}]
    registered = metadata_record(0, 0, "RegisterBrokerRecord", brokerId=4, endPoints=ends, rack="r")
    head, events = told(
        logged(created, placed, changed(addingReplicas=[3], replicas=[1, 2, 3])),
        # Another follower reads the same, and what came after.
        logged(created, placed, changed(addingReplicas=[3], replicas=[1, 2, 3]), changed(leader=2, isr=[2])),
        logged(changed(leader=-1), changed(leader=2), changed(addingReplicas=[]), registered, offset=4),
        logged(
            metadata_record(1, 0, "UnregisterBrokerRecord", brokerId=4),
            metadata_record(9, 0, "RemoveTopicRecord", topicId=TOPIC),
            b"\1\xff",
            offset=8,
        ),
    )
    assert [(exchange, about, text) for exchange, about, text, _ in events] == [
        (1, "t", "created"),
        (1, "t-0", "replicas [1,2] -> [1,2,3]"),
        (1, "t-0", "reassignment: adding [3], removing []"),
        (2, "t-0", "leader 1 -> 2"),
        (2, "t-0", "ISR [1,2] -> [2]"),
        (3, "t-0", "has no leader"),
        (3, "t-0", "leader nobody -> 2"),
        (3, "t-0", "reassignment is over"),
        (3, "broker 4", "at a:9092"),
        (4, "broker 4", "unregistered"),
        (4, "t", "deleted"),
    ]
    assert {source for _, _, _, source in events} == {"__cluster_metadata"}
    assert head["fetches"] == {"follower": 4}
    assert head["brokers"] == [{"node_id": 4, "address": "a:9092", "rack": "r"}]
    assert head["partitions"] == [
        {"partition": "t-0", "leader": 2, "leader_epoch": 0, "isr": (2,), "replicas": (1, 2, 3)}
    ]


def partitions(*steps: Exchanged) -> list[dict[str, Any]]:
    return [one for one in views(*steps)["cluster"].lines() if one["schema"] == "kproxy.partition/1"]


def test_replicas_that_are_missing() -> None:
    lacking = {**REPLICAS, "isrNodes": [1], "offlineReplicas": [2]}
    whole, less, back = (metadata(topics=[{"name": "t", "partitions": [one]}]) for one in (REPLICAS, lacking, REPLICAS))
    (one,) = partitions(whole)
    assert (one["under_replicated"], one["offline"], one["changes"]) == (False, (), [])
    (one,) = partitions(whole, less)
    assert (one["under_replicated"], one["offline"]) == (True, (2,))
    assert [change["text"] for change in one["changes"]] == ["ISR [1,2] -> [1]", "offline replicas [] -> [2]"]
    (one,) = partitions(whole, less, back)
    assert (one["under_replicated"], one["offline"], len(one["changes"])) == (False, (), 4)


def test_the_traffic_of_a_partition() -> None:
    data = [{"name": "t", "partitionData": [{"index": 4, "records": batch(record(0, b"k", b"v"), 1)}]}]
    fetched = {"partitionIndex": 4, "highWatermark": 9, "records": batch(record(0, b"k", b"v") * 2, 2)}
    produce: Exchanged = (0, 8, {"acks": 1, "topicData": data}, {})
    fetch: Exchanged = (1, 11, {"replicaId": -1}, {"responses": [{"topic": "t", "partitions": [fetched]}]})
    (one,) = partitions(produce, produce, fetch)
    assert (one["topic"], one["partition"], one["leader"], one["under_replicated"], one["end"]) == (
        "t",
        4,
        None,
        None,
        9,
    )
    size = len(batch(record(0, b"k", b"v"), 1))
    assert (one["records_in"], one["bytes_in"], one["records_out"]) == (2, 2 * size, 2)
    # two requests 2 ms apart
    assert (one["records_in_per_second"], one["records_out_per_second"]) == (1000.0, None)
    assert [(user["role"], user["client_id"], user["records"], user["first_exchange"]) for user in one["users"]] == [
        ("producer", "shop", 2, 1),
        ("consumer", "shop", 2, 3),
    ]


def test_only_so_much_traffic_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST", 1)
    counted = traffic.Traffic()
    for partition in (0, 1):
        for user in ("a", "b"):
            counted.add("t", partition, (traffic.PRODUCER, user, "h"), (1, 10), 5, 1)
    assert list(counted) == [("t", 0)]
    assert counted.line("t", 0)["records_in"] == 1
    assert counted.line("t", 1)["records_in"] == 0
