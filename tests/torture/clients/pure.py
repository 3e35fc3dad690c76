"""kafka-python."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from tests.torture.clients import task
from tests.torture.clients.task import Seen, batches

RESULT_SECONDS = 45


def produce() -> None:
    producer = KafkaProducer(
        bootstrap_servers=task.BOOTSTRAP,
        enable_idempotence=True,
        request_timeout_ms=task.REQUEST_MS,
        delivery_timeout_ms=30_000,
    )
    for batch in batches():
        sent = [producer.send(task.TOPIC, value.encode(), partition=partition) for partition, value in batch]
        for future in sent:
            future.get(RESULT_SECONDS)
    producer.close()


def transact() -> None:
    producer = KafkaProducer(
        bootstrap_servers=task.BOOTSTRAP,
        transactional_id=task.TRANSACTIONAL_ID,
        transaction_timeout_ms=20_000,
        request_timeout_ms=task.REQUEST_MS,
        delivery_timeout_ms=30_000,
    )
    producer.init_transactions()
    for batch in batches():
        producer.begin_transaction()
        for partition, value in batch:
            producer.send(task.TOPIC, value.encode(), partition=partition)
        producer.commit_transaction()
    producer.close()


def consume() -> None:
    consumer = KafkaConsumer(
        task.TOPIC,
        bootstrap_servers=task.BOOTSTRAP,
        group_id=task.GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=6000,
        request_timeout_ms=7000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=2000,
    )
    seen = Seen()
    while seen.going_on:
        found = consumer.poll(1000, max_records=task.BATCH)
        for messages in found.values():
            for message in messages:
                seen.add(message.value)
        if seen.polled(len(found)):
            try:
                consumer.commit()
                seen.committed(done=True)
            except KafkaError as error:
                print("commit:", repr(error), flush=True)
                seen.committed(done=False)
    consumer.close()


if __name__ == "__main__":
    {"produce": produce, "transact": transact, "consume": consume}[task.ROLE]()
