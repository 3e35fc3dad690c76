"""librdkafka, by confluent-kafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from tests.torture.clients import task
from tests.torture.clients.task import Seen, batches

COMMON: dict[str, Any] = {"bootstrap.servers": task.BOOTSTRAP, "socket.timeout.ms": task.REQUEST_MS}
DELIVERY_MS = 30_000


def produce() -> None:
    producer = Producer({**COMMON, "enable.idempotence": True, "delivery.timeout.ms": DELIVERY_MS})
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(f"{message.value()}: {error}")

    for batch in batches():
        for partition, value in batch:
            producer.produce(task.TOPIC, value, partition=partition, on_delivery=delivered)
        producer.flush()
    if failed:
        raise SystemExit(f"{len(failed)} records failed, such as {failed[0]}")


def transact() -> None:
    producer = Producer(
        {
            **COMMON,
            "transactional.id": task.TRANSACTIONAL_ID,
            "delivery.timeout.ms": 20_000,
            "transaction.timeout.ms": 20_000,
        }
    )
    producer.init_transactions(30)
    for batch in batches():
        producer.begin_transaction()
        for partition, value in batch:
            producer.produce(task.TOPIC, value, partition=partition)
        producer.commit_transaction(30)


def consume() -> None:
    consumer = Consumer(
        {
            **COMMON,
            "group.id": task.GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 2000,
        }
    )
    consumer.subscribe([task.TOPIC])
    seen = Seen()
    while seen.going_on:
        messages = consumer.consume(task.BATCH, 1)
        for message in messages:
            error, value = message.error(), message.value()
            if error is None and value is not None:
                seen.add(value)
            elif error is not None and error.fatal():
                raise KafkaException(error)
        if seen.polled(len(messages)):
            try:
                consumer.commit(asynchronous=False)
                seen.committed(done=True)
            except KafkaException as error:
                print("commit:", error, flush=True)
                seen.committed(done=error.args[0].name() == "_NO_OFFSET")
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "transact": transact, "consume": consume}[task.ROLE]()
