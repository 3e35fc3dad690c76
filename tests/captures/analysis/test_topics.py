"""Who produces to and fetches from a topic, and how much."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.analysis import topics
from kproxy.captures.partitioner import murmur2
from tests.captures.analysis.support import Exchanged, views
from tests.decoders.batches.support import batch, message, record

TOPIC_ID = b"\1" * 16
TWO = batch(record(0, b"k", b"v") + record(1, None, b"w"), 2)
ONE = batch(record(0, b"k", b"v"), 1, attributes=0x10, producer=0)
CONTROL = batch(record(0, b"\0\0\0\1", b"\0\0\0\0\0\0"), 1, attributes=0x30, producer=7)
OLD_MESSAGE = message(1, 0, b"a", b"b")
assert (len(TWO), len(ONE), len(CONTROL), len(OLD_MESSAGE)) == (78, 70, 78, 36)

SOFTWARE: Exchanged = (18, 3, {"clientSoftwareName": "lib", "clientSoftwareVersion": "1.2"}, {})
METADATA: Exchanged = (
    3, 12, {},
    {"topics": [{"name": "t", "topicId": TOPIC_ID, "partitions": [{"partitionIndex": number} for number in range(3)]},
                {"name": "unused", "partitions": []}]},
)  # fmt: skip


def produce(version: int, topic: str, *partitions: tuple[int, bytes | None, int], acks: int, name: Any) -> Exchanged:
    """Partitions are (index, records, error code answered); `name` is the transactional id."""
    data = [{"index": index, "records": records} for index, records, _ in partitions]
    told = [{"index": index, "errorCode": code} for index, _, code in partitions]
    asked = {"acks": acks, "topicData": [{"name": topic, "partitionData": data}]}
    if version > 2:
        asked["transactionalId"] = name
    answered = {"responses": [{"name": topic, "partitionResponses": told}]}
    return 0, version, asked, answered if acks else None


def user(first: int, last: int, requests: int, records: int, size: int, versions: list[int]) -> dict[str, Any]:
    who = {"client_id": "shop", "host": "10.0.0.1", "software": "lib 1.2"}
    counted = {"requests": requests, "records": records, "bytes": size, "versions": versions}
    return {**who, **counted, "errors": {}, "error_exchanges": {}, "first_exchange": first, "last_exchange": last}


def test_producers() -> None:
    found = views(
        SOFTWARE,
        METADATA,
        produce(8, "t", (0, TWO, 6), (5, ONE, 0), acks=-1, name="x"),
        produce(3, "t", (0, TWO, 6), (1, None, 3), acks=1, name=None),
        produce(2, "s", (0, OLD_MESSAGE, 0), acks=0, name=None),
    )
    produced = {"batches": 3, "records_per_batch": 1.7, "acks": [-1, 1], "compression": {"none": 3}, "magic": [2]}
    failed = {"errors": {3: 1, 6: 2}, "error_exchanges": {3: 4, 6: 3}}
    who = {"idempotent": True, "transactional_ids": ["x"], "partitioner": None}
    of_old = {"batches": 1, "records_per_batch": 1.0, "acks": [0], "compression": {"none": 1}, "magic": [1]}
    nobody = {"idempotent": False, "transactional_ids": [], "partitioner": None}
    assert list(found["topics"].lines()) == [
        {
            "schema": "kproxy.topic/1",
            "topic": "t",
            "topic_id": "AQEBAQEBAQEBAQEBAQEBAQ",
            "partitions": 4,
            "records_in": 5,
            "bytes_in": 78 + 70 + 78,
            "records_out": 0,
            "bytes_out": 0,
            "producers": [{**user(3, 4, 2, 5, 226, [3, 8]), **failed, **produced, **who}],
            "consumers": [],
            "groups": [],
        },
        {
            "schema": "kproxy.topic/1",
            "topic": "s",
            "topic_id": None,
            "partitions": 1,
            "records_in": 1,
            "bytes_in": 36,
            "records_out": 0,
            "bytes_out": 0,
            "producers": [{**user(5, 5, 1, 1, 36, [2]), **of_old, **nobody}],
            "consumers": [],
            "groups": [],
        },
    ]


def fetch(version: int, topic: str, *partitions: dict[str, Any], asked: Any = (), **body: Any) -> Exchanged:
    named = {"topicId": TOPIC_ID} if version > 12 else {"topic": topic}
    wanted = [{"topic": name} for name in asked]
    return 1, version, {"topics": wanted, **body}, {"responses": [{**named, "partitions": list(partitions)}]}


def test_consumers() -> None:
    both, refused = {"partitionIndex": 0, "records": TWO + CONTROL}, {"partitionIndex": 1, "errorCode": 1}
    found = views(
        SOFTWARE,
        METADATA,
        fetch(11, "t", both, refused, replicaId=-1, isolationLevel=1, asked=["t", "q"]),
        fetch(11, "t", both, replicaId=-1, isolationLevel=0, asked=["t"]),
        fetch(3, "t", {"partitionIndex": 0, "records": TWO}, replicaId=0, asked=["t"]),
        fetch(15, "t", {"partitionIndex": 0, "records": ONE}, replicaState={"replicaId": 3}),
        fetch(4, "t", replicaId=-2, asked=["t"]),
    )
    of_t, of_q = found["topics"].lines()
    either = ["read_uncommitted", "read_committed"]
    failed = {"errors": {1: 1}, "error_exchanges": {1: 3}}
    assert of_t["consumers"] == [
        {**user(3, 4, 2, 4, 312, [11]), **failed, "role": "consumer", "replica_id": None, "groups": [],
         "isolation": either},
        {**user(5, 5, 1, 2, 78, [3]), "role": "follower", "replica_id": 0, "groups": [], "isolation": []},
        {**user(6, 6, 1, 1, 70, [15]), "role": "follower", "replica_id": 3, "groups": [], "isolation": either[:1]},
        {**user(7, 7, 1, 0, 0, [4]), "role": "debugging", "replica_id": None, "groups": [], "isolation": either[:1]},
    ]  # fmt: skip
    assert (of_t["records_in"], of_t["bytes_in"], of_t["records_out"], of_t["bytes_out"]) == (0, 0, 7, 460)
    assert (of_q["topic"], of_q["consumers"][0]["requests"], of_q["partitions"]) == ("q", 1, 0)
    assert next(found["cluster"].lines())["fetches"] == {"consumer": 2, "debugging": 1, "follower": 2}


def test_share_consumers() -> None:
    asked = {"groupId": "sg", "topics": [{"topicId": TOPIC_ID, "partitions": []}]}
    answered = {"responses": [{"topicId": TOPIC_ID, "partitions": [{"partitionIndex": 0, "records": TWO}]}]}
    (line,) = views(SOFTWARE, METADATA, (78, 1, asked, answered))["topics"].lines()
    assert line["consumers"] == [
        {**user(3, 3, 1, 2, 78, [1]), "role": "share consumer", "replica_id": None, "groups": ["sg"], "isolation": []}
    ]


def test_keys_say_which_partitioner_a_producer_has() -> None:
    keys = [f"key {number}".encode() for number in range(8)]
    steps = [produce(8, "t", (murmur2(key) % 3, batch(record(0, key, b""), 1), 0), acks=1, name=None) for key in keys]
    (line,) = views(METADATA, *steps)["topics"].lines()
    assert line["producers"][0]["partitioner"] == "murmur2"


def test_topics_with_most_bytes_come_first_and_only_so_many_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [produce(8, name, (0, data, 0), acks=1, name=None) for name, data in (("a", ONE), ("c", TWO), ("b", TWO))]
    assert [line["topic"] for line in views(*steps)["topics"].lines()] == ["b", "c", "a"]
    monkeypatch.setattr(topics, "MOST", 2)
    assert [line["topic"] for line in views(*steps)["topics"].lines()] == ["c", "a"]


def test_users_of_all_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_USERS", 1)
    steps = [produce(8, name, (0, ONE, 0), acks=1, name=None) for name in ("a", "b", "a")]
    (line,) = views(*steps)["topics"].lines()
    assert (line["topic"], len(line["producers"]), line["producers"][0]["requests"]) == ("a", 1, 2)
