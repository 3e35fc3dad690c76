"""kafka-python: admin calls, producing, a group."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError

from tests.system.clients import Task, looks, until_asked

CODECS = (None, "gzip")
# What a member gets that commits while its group moves.
MOVING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


def main() -> None:
    task = Task.from_arguments()
    servers = task.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers, client_id="py-admin")
    admin.create_topics([NewTopic(task.name, num_partitions=3, replication_factor=task.copies)])
    for _ in looks(task.name):
        if task.name in admin.list_topics():
            break
    admin.describe_cluster()

    sent: set[bytes] = set()
    producers = []
    for codec in CODECS:
        producer = KafkaProducer(bootstrap_servers=servers, client_id=f"py-{codec}", compression_type=codec, acks="all")
        values = [f"{codec} {number} ".encode() * (number % 5 + 1) for number in range(100)]
        for future in [producer.send(task.name, value) for value in values]:
            future.get(30)
        sent.update(values)
        producers.append(producer)

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        client_id="py-member",
        group_id=f"{task.name}-group",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    # A member that learns of partitions while it joins joins again, in which kafka-python 3.0 now and then gets stuck.
    for _ in looks(task.name):
        if len(consumer.partitions_for_topic(task.name) or ()) == 3:
            break
    consumer.subscribe([task.name])
    found: set[bytes] = set()
    deadline = time.monotonic() + 90
    while found != sent:
        assert time.monotonic() < deadline, f"read {len(found)} of {len(sent)}"
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                assert record.value in sent, f"nobody sent {record.value!r}"
                found.add(record.value)
    again = time.monotonic() + 10
    while True:
        try:
            consumer.commit()
            break
        except MOVING:  # polling ends what moves the group, or it is stuck
            assert time.monotonic() < deadline, "the group moves for ever"
            if time.monotonic() > again:
                consumer.unsubscribe()
                consumer.subscribe([task.name])
                again = time.monotonic() + 10
            consumer.poll(timeout_ms=200)

    until_asked()
    consumer.close()
    for producer in producers:
        producer.close()
    admin.close()


if __name__ == "__main__":
    main()
