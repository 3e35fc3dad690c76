"""Python's clients over TLS: produce a hundred records and read them again.

Arguments: librdkafka, aio or pure; bootstrap servers; a topic; the file of the CA to trust.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import warnings
from collections.abc import Callable
from typing import Any

from tests.system.clients import until_asked

VALUES = [f"value {number}".encode() for number in range(100)]


def librdkafka(bootstrap: str, topic: str, ca: str) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

    def fail(error: KafkaError) -> None:
        raise KafkaException(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": ca,
        "error_cb": fail,
    }
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes | None] = []
    while len(got) < len(VALUES):
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            raise KafkaException(message.error())
        got.append(message.value())
    assert sorted(filter(None, got)) == sorted(VALUES)
    until_asked()
    consumer.close()


def aio(bootstrap: str, topic: str, ca: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run() -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(cafile=ca),
        }
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
            async with AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest") as consumer:
                got = [(await asyncio.wait_for(anext(consumer), 30)).value for _ in VALUES]
                assert sorted(got) == sorted(VALUES)
                await asyncio.to_thread(until_asked)

    asyncio.run(run())


def pure(bootstrap: str, topic: str, ca: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer, KafkaProducer
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap.split(","),
        "security_protocol": "SSL",
        "ssl_context": ssl.create_default_context(cafile=ca),
    }
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value).get(30)
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    got = [next(consumer).value for _ in VALUES]
    assert sorted(got) == sorted(VALUES)
    until_asked()
    consumer.close()
    producer.close()


CLIENTS: dict[str, Callable[[str, str, str], None]] = {"librdkafka": librdkafka, "aio": aio, "pure": pure}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](*sys.argv[2:])
