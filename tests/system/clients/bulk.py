# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""librdkafka produces and consumes much, and compares the checksums. One more argument: MiB.

What is produced does not compress, so that all of it crosses the wire; each partition's bytes are hashed in order.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.clients import Task, until_asked

PARTITIONS = 3
VALUE = 16 << 10


def fail(error: KafkaError) -> None:
    raise KafkaException(error)


def delivered(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def produce(task: Task, count: int) -> list[str]:
    """Returns the digest of each partition."""
    pool = os.urandom(4 << 20)
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    producer = Producer({
        "bootstrap.servers": task.bootstrap,
        "client.id": "bulk-producer",
        "linger.ms": 5,
        "enable.idempotence": True,
        "queue.buffering.max.kbytes": 64 << 10,
        "error_cb": fail,
    })  # fmt: skip
    for number in range(count):
        start = number * 7919 % (len(pool) - VALUE)
        value = number.to_bytes(8, "big") + pool[start : start + VALUE - 8]
        partition = number % PARTITIONS
        digests[partition].update(value)
        while True:
            try:
                producer.produce(task.name, value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    assert producer.flush(300) == 0
    return [digest.hexdigest() for digest in digests]


def consume(consumer: Consumer, task: Task, count: int) -> list[str]:
    consumer.assign([TopicPartition(task.name, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    read = 0
    quiet_since = time.monotonic()
    while read < count:
        messages = consumer.consume(1000, 1.0)
        if messages:
            quiet_since = time.monotonic()
        assert time.monotonic() - quiet_since < 60, f"read {read} of {count}"
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            digests[partition].update(value)
            read += 1
    assert read == count
    return [digest.hexdigest() for digest in digests]


def main() -> None:
    task = Task.from_arguments()
    count = int(sys.argv[-1]) * (1 << 20) // VALUE
    settings: dict[str, Any] = {"bootstrap.servers": task.bootstrap, "client.id": "bulk-admin", "error_cb": fail}
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(task.name, PARTITIONS, task.copies)]).values():
        future.result(30)
    sent = produce(task, count)
    consumer = Consumer({
        "bootstrap.servers": task.bootstrap,
        "client.id": "bulk-consumer",
        "group.id": f"{task.name}-group",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 4 << 20,
        "queued.max.messages.kbytes": 32 << 10,
        "error_cb": fail,
    })  # fmt: skip
    read = consume(consumer, task, count)
    assert read == sent, f"sent {sent}, read {read}"
    until_asked()
    consumer.close()


if __name__ == "__main__":
    main()
