"""kafka-python and aiokafka that do nothing wrong: groups that grow and shrink, idle members, a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError


def pure(bootstrap: str, seconds: float) -> list[Callable[[], None]]:
    """What kafka-python does, a function for each client."""
    servers, end = bootstrap.split(","), time.monotonic() + seconds

    def produce() -> None:
        producer = KafkaProducer(bootstrap_servers=servers, client_id="py-producer")
        while time.monotonic() < end:
            producer.send("orders", os.urandom(200))
            time.sleep(0.05)
        producer.close()

    def consume(name: str, group: str, topic: str, begins: float, share: float) -> Callable[[], None]:
        def work() -> None:
            time.sleep(begins * seconds)
            consumer = KafkaConsumer(
                topic, bootstrap_servers=servers, client_id=name, group_id=group, auto_offset_reset="earliest"
            )
            until, last = time.monotonic() + share * seconds, time.monotonic()
            while time.monotonic() < until:
                if consumer.poll(timeout_ms=300) and time.monotonic() - last > 2:
                    last = time.monotonic()
                    with contextlib.suppress(KafkaError):  # the group moves
                        consumer.commit()
            consumer.close()

        return work

    return [
        produce,
        consume("py-1", "py", "orders", 0, 1),
        consume("py-2", "py", "orders", 0.2, 0.4),
        consume("py-idle", "py-idle", "empty", 0, 1),
    ]


async def coroutines(bootstrap: str, seconds: float) -> None:
    """What aiokafka does."""
    end = time.monotonic() + seconds

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="aio-producer") as producer:
            while time.monotonic() < end:
                await producer.send("orders", os.urandom(200))
                await asyncio.sleep(0.05)

    async def transact() -> None:
        settings = {"bootstrap_servers": bootstrap, "client_id": "aio-exact", "transactional_id": "aio-exact"}
        async with AIOKafkaProducer(**settings) as producer:
            while time.monotonic() < end:
                async with producer.transaction():
                    for _ in range(10):
                        await producer.send("payments", os.urandom(100))
                await asyncio.sleep(0.5)

    async def consume(name: str, group: str, topic: str, begins: float, share: float, **more: Any) -> None:
        await asyncio.sleep(begins * seconds)
        settings = {"bootstrap_servers": bootstrap, "client_id": name, "group_id": group, **more}
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            until = time.monotonic() + share * seconds
            while time.monotonic() < until:
                await consumer.getmany(timeout_ms=300)

    await asyncio.gather(
        produce(),
        transact(),
        consume("aio-1", "aio", "orders", 0, 1),
        consume("aio-2", "aio", "orders", 0.2, 0.4),
        consume("aio-idle", "aio-idle", "empty", 0, 1),
        consume("aio-reader", "aio-reader", "payments", 0, 1, isolation_level="read_committed"),
    )


def run(bootstrap: str, seconds: float) -> None:
    """All of them, until they are done."""
    threads = [threading.Thread(target=work) for work in pure(bootstrap, seconds)]
    for one in threads:
        one.start()
    asyncio.run(coroutines(bootstrap, seconds))
    for one in threads:
        one.join()


if __name__ == "__main__":
    run(sys.argv[1], float(sys.argv[2]))
