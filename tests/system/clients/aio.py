"""aiokafka: admin calls, producing, a group, a transaction."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.system.clients import Task, looks, until_asked

CODECS = (None, "gzip", "snappy", "lz4")


async def admin(task: Task, keep: AsyncExitStack) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=task.bootstrap, client_id="aio-admin")
    keep.push_async_callback(client.close)
    await client.start()
    await client.create_topics([NewTopic(task.name, 3, task.copies), NewTopic(f"{task.name}-tx", 1, task.copies)])
    for _ in looks(task.name):
        if task.name in await client.list_topics():
            break
    for _ in looks(f"the partitions of {task.name}"):
        if (await client.describe_topics([task.name]))[0]["partitions"]:
            break
    await client.describe_cluster()
    await client.list_consumer_groups()


async def read(consumer: AIOKafkaConsumer, wanted: set[bytes]) -> None:
    found: set[bytes] = set()
    async with asyncio.timeout(90):
        while found != wanted:
            message = await consumer.getone()
            assert message.value in wanted, f"nobody sent {message.value!r}"
            found.add(message.value)


async def run(task: Task) -> None:
    async with AsyncExitStack() as keep:
        await admin(task, keep)
        sent: set[bytes] = set()
        for codec in CODECS:
            producer = AIOKafkaProducer(
                bootstrap_servers=task.bootstrap, client_id=f"aio-{codec}", compression_type=codec
            )
            await keep.enter_async_context(producer)
            values = [f"{codec} {number} ".encode() * (number % 5 + 1) for number in range(100)]
            for future in [await producer.send(task.name, value) for value in values]:
                await future
            sent.update(values)
        consumer = AIOKafkaConsumer(
            task.name,
            bootstrap_servers=task.bootstrap,
            client_id="aio-member",
            group_id=f"{task.name}-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await keep.enter_async_context(consumer)
        await read(consumer, sent)
        await consumer.commit()

        writer = AIOKafkaProducer(
            bootstrap_servers=task.bootstrap, client_id="aio-tx", transactional_id=f"{task.name}-tx"
        )
        await keep.enter_async_context(writer)
        async with writer.transaction():
            await writer.send_and_wait(f"{task.name}-tx", b"kept")
        await writer.begin_transaction()
        await writer.send_and_wait(f"{task.name}-tx", b"aborted")
        await writer.abort_transaction()
        async with writer.transaction():
            await writer.send_and_wait(f"{task.name}-tx", b"kept too")
        reader = AIOKafkaConsumer(
            f"{task.name}-tx",
            bootstrap_servers=task.bootstrap,
            client_id="aio-tx-reader",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        await keep.enter_async_context(reader)
        await read(reader, {b"kept", b"kept too"})
        # In a thread: the clients go on with their heartbeats meanwhile.
        await asyncio.to_thread(until_asked)


if __name__ == "__main__":
    asyncio.run(run(Task.from_arguments()))
