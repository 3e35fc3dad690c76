"""Faults in what producers send."""

from __future__ import annotations

import time

from tests.recipes.producers import transactional
from tests.recipes.recipe import Recipe, Stage, polled

TEXT = b"an order with a customer, an address, and items; "
"""Text that compresses well."""


def two_partitioners(stage: Stage) -> None:
    stage.topic("orders", 6)
    for client_id, partitioner in (("like-java", "murmur2_random"), ("default", "consistent_random")):
        producer = stage.producer(client_id, partitioner=partitioner, linger_ms=100)
        for number in range(90):
            producer.produce("orders", b"x", b"order-%d" % number)
        producer.flush(20)


def refused_without_answer(stage: Stage) -> None:
    stage.topic("orders")
    producer = stage.producer("careless", acks=0, message_max_bytes=1_000_000)
    for number in range(4):
        producer.produce("orders", b"x" * (50_000 if number % 2 else 50))
        producer.flush(20)
        time.sleep(2)


def clock_ahead(stage: Stage) -> None:
    stage.topic("orders", 4)
    producer = stage.producer("ahead", linger_ms=100)
    for number in range(40):
        producer.produce("orders", b"x", partition=number % 4, timestamp=int((time.time() + 1_800) * 1000))
    producer.flush(20)


def two_codecs(stage: Stage) -> None:
    stage.topic("orders", compression_type="zstd")
    producer = stage.producer("gzip", compression_type="gzip", linger_ms=100)
    consumer = stage.consumer("reader", "readers", "orders")
    for _ in range(3):
        for _ in range(20):
            producer.produce("orders", TEXT * 4)
        producer.flush(20)
        polled(consumer)
        time.sleep(4)
    consumer.close()


def record_by_record(stage: Stage) -> None:
    stage.topic("orders")
    producer = transactional(stage, "eager", "orders-1")
    until = time.monotonic() + 12
    while time.monotonic() < until:
        producer.begin_transaction()
        producer.produce("orders", b"x")
        producer.commit_transaction(20)
        time.sleep(0.03)


def default_key(stage: Stage) -> None:
    stage.topic("orders", 4)
    producer = stage.producer("shop", linger_ms=200)
    for turn in range(5):
        for number in range(700):
            producer.produce("orders", b"x", b"unknown" if number % 2 else b"customer-%d" % (turn * 700 + number))
        producer.flush(20)
        time.sleep(10)


def large_record(stage: Stage) -> None:
    stage.topic("documents")
    producer = stage.producer("archive", message_max_bytes=1_000_000)
    producer.produce("documents", bytes(700_000))
    producer.flush(20)


def two_serializers(stage: Stage) -> None:
    stage.topic("orders")
    for client_id, start in (("avro", b"\0\0\0\0\x07"), ("json", b"")):
        producer = stage.producer(client_id, linger_ms=200)
        for number in range(50):
            producer.produce("orders", start + b'{"order": %d}' % number)
        producer.flush(20)


def no_codec(stage: Stage) -> None:
    stage.topic("orders")
    producer = stage.producer("plain", linger_ms=50)
    for _ in range(1_500):
        producer.produce("orders", TEXT * 20)
    producer.flush(20)


def named_partition(stage: Stage) -> None:
    """A producer that names the partition of three fifths of its records itself, for five minutes."""
    stage.topic("clicks", 8)
    producer = stage.producer("biased", batch_size=30_000, linger_ms=20, compression_type="none")
    for _ in range(28):
        for turn in range(20):
            for _ in range(10):
                producer.produce("clicks", bytes(1_000), partition=0 if turn < 12 else turn - 12)
        producer.flush(20)
        time.sleep(11)


RECIPES = {
    "broker.recompress": Recipe(two_codecs, "that gzip@127.0.0.1 sends as gzip reach reader@127.0.0.1 as zstd"),
    "key.partitioner_mix": Recipe(two_partitioners, "like-java@127.0.0.1 by murmur2"),
    "key.skew": Recipe(default_key, "have the key unknown"),
    "partition.hot": Recipe(named_partition, "clicks-0 got 6"),
    "payload.schema": Recipe(two_serializers, "values with an id: 50, without: 50"),
    "producer.acks0_dropped": Recipe(
        refused_without_answer, "closed the connection of careless@127.0.0.1", settings={"message.max.bytes": 10_000}
    ),
    "producer.uncompressed": Recipe(no_codec, "plain@127.0.0.1 sends topic orders uncompressed"),
    "record.clock_skew": Recipe(clock_ahead, "are ahead of the capture's clock (by 29 min"),
    "record.size": Recipe(large_record, "a record of 700k"),
    "txn.tiny": Recipe(record_by_record, "eager@127.0.0.1 ends"),
}
