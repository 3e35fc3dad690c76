"""aiokafka."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.torture.clients import task
from tests.torture.clients.task import Seen, batches


async def produce() -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=task.BOOTSTRAP, enable_idempotence=True, request_timeout_ms=task.REQUEST_MS
    )
    await producer.start()
    try:
        for batch in batches():
            sent = [await producer.send(task.TOPIC, value.encode(), partition=partition) for partition, value in batch]
            await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def transact() -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=task.BOOTSTRAP,
        transactional_id=task.TRANSACTIONAL_ID,
        transaction_timeout_ms=20_000,
        request_timeout_ms=task.REQUEST_MS,
    )
    await producer.start()
    try:
        for batch in batches():
            async with producer.transaction():
                for partition, value in batch:
                    await producer.send(task.TOPIC, value.encode(), partition=partition)
    finally:
        await producer.stop()


async def consume() -> None:
    consumer = AIOKafkaConsumer(
        task.TOPIC,
        bootstrap_servers=task.BOOTSTRAP,
        group_id=task.GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        request_timeout_ms=task.REQUEST_MS,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=2000,
    )
    await consumer.start()
    try:
        seen = Seen()
        while seen.going_on:
            found = await consumer.getmany(timeout_ms=1000, max_records=task.BATCH)
            for messages in found.values():
                for message in messages:
                    seen.add(message.value)
            if seen.polled(len(found)):
                try:
                    await consumer.commit()
                    seen.committed(done=True)
                except KafkaError as error:
                    print("commit:", repr(error), flush=True)
                    seen.committed(done=False)
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run({"produce": produce, "transact": transact, "consume": consume}[task.ROLE]())
