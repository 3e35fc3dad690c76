"""Faults of consumers: offsets that go nowhere, records that nobody gets."""

from __future__ import annotations

import time

from confluent_kafka import TopicPartition

from tests.recipes.recipe import Recipe, Stage, polled


def commits_nothing_new(stage: Stage) -> None:
    """A consumer that reads on, but commits the first offset again and again for half a minute."""
    stage.topic("orders", records=500)
    consumer = stage.consumer("stuck", "stuck-group", "orders")
    while not consumer.assignment():
        consumer.poll(0.5)
    for _ in range(12):
        consumer.poll(3)
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        time.sleep(4)
    consumer.close()


def fast_retention(stage: Stage) -> None:
    stage.topic("events", records=100)
    late = stage.consumer("reader", "late")
    late.commit(offsets=[TopicPartition("events", 0, 10)], asynchronous=False)
    late.close()
    for future in stage.admin().delete_records([TopicPartition("events", 0, 50)]).values():
        future.result(30)
    late = stage.consumer("reader", "late", "events")
    assert polled(late).offset() == 50
    late.close()


def poison(stage: Stage) -> None:
    stage.topic("letters", records=100)
    picky = stage.consumer("reader", "picky")
    picky.commit(offsets=[TopicPartition("letters", 0, 70)], asynchronous=False)
    picky.close()
    for start in range(4):
        picky = stage.consumer("reader", "picky", "letters")
        assert polled(picky).offset() == 70
        picky.close()
        if start < 3:
            time.sleep(11)  # thirty seconds from the first start to the last


def too_slow(stage: Stage) -> None:
    """For 110 s, fifty records arrive each second, and the consumer takes 200 ms for each record."""
    stage.topic("inflow")
    producer = stage.producer("writer", linger_ms=200, compression_type="none")
    limits = {"queued_min_messages": 1, "fetch_message_max_bytes": 2_000, "queued_max_messages_kbytes": 2}
    consumer = stage.consumer("slow", "slow", "inflow", **limits)
    until = time.monotonic() + 110
    while time.monotonic() < until:
        for _ in range(10):
            producer.produce("inflow", b"x" * 100)
        producer.poll(0)
        message = consumer.poll(0)
        if message is not None and message.error() is None:
            consumer.commit(message=message, asynchronous=True)
        time.sleep(0.2)
    producer.flush(10)
    consumer.close()


RECIPES = {
    "consumer.lag_cause": Recipe(too_slow, "group slow"),
    "group.lag_state": Recipe(commits_nothing_new, "commits the same offset again and again", live=True),
    "consumer.offset_skip": Recipe(fast_retention, "skipped up to 40 offsets of topic events", live=True),
    "consumer.poison": Recipe(poison, "began again at offset 70 of letters-0", live=True),
}
