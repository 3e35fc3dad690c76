"""What a Fetch may hold beside whole records: how to provoke each on a real broker, and that kproxy says it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.decoders.batches.support import message
from tests.support.brokers import Cluster, cluster
from tests.support.proxy import Proxy, export
from tests.support.raw import RawClient

# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def old() -> Iterator[Cluster]:
    with cluster("0.8.2.2", 1) as running:
        yield running


@pytest.fixture(scope="module")
def new() -> Iterator[Cluster]:
    with cluster("4.4.0", 1) as running:
        yield running


def fetched(lines: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each Fetch that brought records: its line, and the partition's part of the answer."""
    for line in lines:
        if line.get("api") != "Fetch" or line["response"] is None:
            continue
        for topic in line["response"]["body"]["responses"]:
            for partition in topic["partitions"]:
                if partition["records"] and partition["records"]["sizeInBytes"]:
                    yield line, partition


def test_a_small_fetch_ends_within_a_message(old: Cluster, tmp_path: Path) -> None:
    values = [b"%d " % number + b"x" * 90 for number in range(20)]
    with Proxy(old.bootstrap, tmp_path / "proxy") as proxy:
        with RawClient(proxy.bootstrap) as client:
            client.await_leader("partial")
            first = client.produce("partial", b"".join(message(0, 0, b"key", value) for value in values))
            answer = client.fetch("partial", first, 300)
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = export(proxy.recording, tmp_path)
    ((line, partition),) = fetched(lines)
    records = partition["records"]
    assert line["problems"] == []
    assert records["sizeInBytes"] == len(answer["records"]) == 300
    size = len(message(0, 0, b"key", values[0]))
    assert len(records["batches"]) == 300 // size == 2
    assert records["truncatedTail"] == 300 % size
    assert [batch["records"][0]["value"].encode() for batch in records["batches"]] == values[:2]


def test_a_fetch_from_the_middle_of_a_set_brings_all_of_it(old: Cluster, tmp_path: Path) -> None:
    inner = b"".join(message(0, offset, b"k", b"value %d" % offset) for offset in range(10))
    with Proxy(old.bootstrap, tmp_path / "proxy") as proxy:
        with RawClient(proxy.bootstrap) as client:
            client.await_leader("middle")
            first = client.produce("middle", message(0, 0, None, gzip.compress(inner), attributes=1))
            client.fetch("middle", first + 4)
        assert proxy.stop() in {0, 130}, proxy.said()
    lines = export(proxy.recording, tmp_path)
    ((line, partition),) = fetched(lines)
    assert line["problems"] == []
    (batch,) = partition["records"]["batches"]
    assert batch["compression"] == "gzip"
    assert [(record["offset"] - first, record.get("skipped")) for record in batch["records"]] == [
        (offset, "below_fetch_offset" if offset < 4 else None) for offset in range(10)
    ]


def deliver(producer: Producer, topic: str, values: list[str]) -> None:
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, isolation: str, count: int) -> list[bytes | None]:
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "client.id": isolation,
        "group.id": isolation,
        "isolation.level": isolation,
        "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while len(found) < count:
        got = consumer.consume(count - len(found), 30)
        assert got, f"read {len(found)} of {count}"
        found += got
    consumer.close()
    assert [one.error() for one in found] == [None] * count
    return [one.value() for one in found]


def test_only_a_reader_of_committed_records_drops_aborted_ones(new: Cluster, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": new.bootstrap})
    admin.create_topics([NewTopic("aborts", 1, 1)])["aborts"].result(30)
    with Proxy(new.bootstrap, tmp_path / "proxy") as proxy:
        producer = Producer({"bootstrap.servers": proxy.bootstrap, "transactional.id": "aborting", "linger.ms": 50})
        producer.init_transactions(60)
        for values, commit in ((["first"], True), (["dropped 1", "dropped 2"], False), (["last"], True)):
            producer.begin_transaction()
            deliver(producer, "aborts", values)
            if commit:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
        kept = consume(proxy.bootstrap, "aborts", "read_committed", 2)
        every = consume(proxy.bootstrap, "aborts", "read_uncommitted", 4)
        assert proxy.stop() in {0, 130}, proxy.said()
    assert kept == [b"first", b"last"]
    assert every == [b"first", b"dropped 1", b"dropped 2", b"last"]
    lines = export(proxy.recording, tmp_path)
    for client, taken in (("read_committed", kept), ("read_uncommitted", every)):
        data = [
            record
            for line, partition in fetched(lines)
            if line["client_id"] == client
            for batch in partition["records"]["batches"]
            if not batch["isControl"]
            for record in batch["records"]
        ]
        assert {record["value"].encode() for record in data} == set(every)
        unmarked = [record["value"].encode() for record in data if "skipped" not in record]
        assert set(unmarked) == set(taken), client
        assert {record.get("skipped") for record in data} == (
            {None, "aborted"} if client == "read_committed" else {None}
        )
        controls = [
            record["key"]["decoded"]["name"]
            for line, partition in fetched(lines)
            if line["client_id"] == client
            for batch in partition["records"]["batches"]
            if batch["isControl"]
            for record in batch["records"]
        ]
        assert set(controls) == {"COMMIT", "ABORT"}
