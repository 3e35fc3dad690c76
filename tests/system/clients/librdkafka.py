# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""librdkafka: admin calls, every codec, a transaction, a group of two."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.system.clients import Task, looks, until_asked

CODECS = ("none", "gzip", "snappy", "lz4")
MESSAGES = 300
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def fail(error: KafkaError) -> None:
    """Errors that librdkafka gets over by itself, such as a lost connection, count as failures here."""
    raise KafkaException(error)


def admin(task: Task) -> AdminClient:
    settings: dict[str, Any] = {"bootstrap.servers": task.bootstrap, "client.id": "rd-admin", "error_cb": fail}
    client = AdminClient(settings)
    for future in client.create_topics(
        [NewTopic(task.name, 3, task.copies), NewTopic(f"{task.name}-tx", 2, task.copies)]
    ).values():
        future.result(30)
    for future in client.create_partitions([NewPartitions(task.name, 4)]).values():
        future.result(30)
    for _ in looks(task.name):
        if task.name in client.list_topics(timeout=30).topics:
            break
    topic = ConfigResource(ResourceType.TOPIC, task.name)
    if task.modern:
        setting = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, task.name, incremental_configs=[setting])
        for future in client.incremental_alter_configs([changed]).values():
            future.result(30)
        assert client.describe_cluster().result(30).nodes
    for future in client.describe_configs([topic]).values():
        assert "retention.ms" in future.result(30)
    for future in client.list_offsets({TopicPartition(task.name, 0): LATEST}).values():
        future.result(30)
    client.list_consumer_groups().result(30)
    return client


def produce(producer: Producer, topic: str, values: list[bytes]) -> None:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise KafkaException(error)

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0


def consumer(task: Task, number: int, group: str, **more: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": task.bootstrap,
        "client.id": f"rd-member-{number}",
        "group.id": f"{task.name}-{group}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "error_cb": fail,
        **more,
    })  # fmt: skip


def read(consumers: list[Consumer], wanted: set[bytes]) -> None:
    found: set[bytes] = set()
    deadline = time.monotonic() + 90
    # Every member has its share: the group is then at rest, and takes commits.
    while found != wanted or not all(member.assignment() for member in consumers):
        assert time.monotonic() < deadline, f"read {len(found)} of {len(wanted)}"
        for member in consumers:
            for message in member.consume(500, 0.2):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                value = message.value()
                assert value in wanted, f"nobody sent {value!r}"
                found.add(value)


def main() -> None:
    task = Task.from_arguments()
    keep: list[object] = [admin(task)]
    sent: set[bytes] = set()
    for codec in (*CODECS, "zstd") if task.modern else CODECS:
        producer = Producer({
            "bootstrap.servers": task.bootstrap,
            "client.id": f"rd-{codec}",
            "compression.type": codec,
            "linger.ms": 5,
            "enable.idempotence": codec != "none",
            "error_cb": fail,
        })  # fmt: skip
        values = [f"{codec} {number} ".encode() + bytes(range(256)) * (number % 7) for number in range(MESSAGES)]
        produce(producer, task.name, values)
        sent.update(values)
        keep.append(producer)
    careless = Producer({"bootstrap.servers": task.bootstrap, "client.id": "rd-acks-0", "acks": 0, "error_cb": fail})
    produce(careless, task.name, [b"nobody answers"])
    sent.add(b"nobody answers")

    members = [consumer(task, number, "group") for number in range(2)]
    for member in members:
        member.subscribe([task.name])
    read(members, sent)
    for member in members:
        # One that came late to its share may have read nothing of it, and has nothing to commit.
        if any(one.offset >= 0 for one in member.position(member.assignment())):
            member.commit(asynchronous=False)

    writer = Producer({
        "bootstrap.servers": task.bootstrap,
        "client.id": "rd-tx",
        "transactional.id": f"{task.name}-tx",
        "error_cb": fail,
    })  # fmt: skip
    writer.init_transactions(60)
    for kept in (True, False, True):
        writer.begin_transaction()
        produce(
            writer, f"{task.name}-tx", [f"{'kept' if kept else 'aborted'} {number}".encode() for number in range(4)]
        )
        if kept:
            position = [TopicPartition(task.name, 0, 0)]
            writer.send_offsets_to_transaction(position, members[0].consumer_group_metadata(), 60)
            writer.commit_transaction(60)
        else:
            writer.abort_transaction(60)
    reader = consumer(task, 2, "tx-group")
    reader.assign([TopicPartition(f"{task.name}-tx", number, OFFSET_BEGINNING) for number in range(2)])
    committed = {f"kept {number}".encode() for number in range(4)}
    read([reader], committed)
    members.append(reader)
    if task.modern:
        modern = consumer(task, 3, "new-group", **{"group.protocol": "consumer"})
        modern.subscribe([f"{task.name}-tx"])
        read([modern], committed)
        members.append(modern)

    until_asked()
    for member in members:
        member.close()


if __name__ == "__main__":
    main()
