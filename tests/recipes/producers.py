"""Faults of producers and transactions."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException, Producer

from tests.recipes.recipe import Recipe, Stage, idle
from tests.support.raw import RawClient


def too_large(stage: Stage) -> None:
    stage.topic("orders", 2)
    producer = stage.producer("large", message_max_bytes=1_000_000)
    producer.produce("orders", b"x" * 50_000)
    producer.flush(20)


def transactional(stage: Stage, client_id: str, name: str) -> Producer:
    producer = stage.producer(client_id, transactional_id=name)
    producer.init_transactions(30)
    return producer


def two_owners(stage: Stage) -> None:
    stage.topic("orders", 2)
    first = transactional(stage, "first", "payments")
    first.begin_transaction()
    first.produce("orders", b"x")
    first.flush(20)
    transactional(stage, "second", "payments")
    with pytest.raises(KafkaException):
        first.commit_transaction(20)


def open_transaction(stage: Stage) -> None:
    stage.topic("ledger", records=100)
    producer = transactional(stage, "sleeper", "night")
    producer.begin_transaction()
    producer.produce("ledger", b"x")
    producer.flush(20)
    reader = stage.consumer("reader", "careful", "ledger", isolation_level="read_committed")
    idle(reader, 14)
    reader.close()
    producer.abort_transaction(20)


def quota(stage: Stage, client_id: str, bytes_per_second: float | None) -> None:
    """Set producer_byte_rate of a client id; None removes the quota. The admin API of librdkafka cannot."""
    change = {
        "entity": [{"entityType": "client-id", "entityName": client_id}],
        "ops": [
            {"key": "producer_byte_rate", "value": bytes_per_second or 0, "remove": bytes_per_second is None},
        ],
    }  # fmt: skip
    with RawClient(stage.cluster.bootstrap.split(",")[0]) as broker:
        (done,) = broker.ask("AlterClientQuotas", 1, {"entries": [change], "validateOnly": False})["entries"]
    assert done["errorCode"] == 0, done


def throttled(stage: Stage) -> None:
    """A producer of some 100 kB/s whose quota is 20 kB/s."""
    stage.topic("bulk")
    quota(stage, "loader", 20_000)
    load(stage, "loader", 25)
    quota(stage, "loader", None)


def load(stage: Stage, client_id: str, batches: int) -> None:
    """Produce batches of 20 kB, ten a second or as fast as the broker lets it."""
    producer = stage.producer(client_id, linger_ms=0, compression_type="none")
    for _ in range(batches):
        producer.produce("bulk", bytes(20_000))
        producer.flush(30)
        time.sleep(0.1)


RECIPES = {
    "latency.throttled": Recipe(throttled, "loader@127.0.0.1"),
    "client.ignores_throttle": Recipe(throttled, "while it was throttled"),
    "producer.rejected": Recipe(too_large, "MESSAGE_TOO_LARGE", settings={"message.max.bytes": 10_000}, live=True),
    "txn.fenced": Recipe(two_owners, "second@127.0.0.1 took the id over", live=True),
    "txn.lso_stall": Recipe(
        open_transaction, "transactional id night (sleeper@127.0.0.1) keeps a transaction open", live=True
    ),
}
