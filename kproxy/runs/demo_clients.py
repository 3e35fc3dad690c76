"""The demo's client applications, which are real librdkafka clients."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Consumer

START_SECONDS = 30.0
MAX_POLL_SECONDS = 3.0
POLLING_SECONDS, WORKING_SECONDS = 2.5, 5.0
"""Seconds for which the application that polls too late polls, and then works without polling."""


def run_all(servers: str, stop: threading.Event) -> list[threading.Thread]:
    """Starts a thread for each application, which ends after `stop` is set."""
    threads = [threading.Thread(target=_kept_going, args=(one, servers, stop), daemon=True) for one in CLIENTS]
    for thread in threads:
        thread.start()
    return threads


@dataclass(frozen=True, slots=True)
class Client:
    """A client application; `run` works until the event passed to it is set."""

    name: str
    run: Callable[[str, threading.Event], None]


def _kept_going(client: Client, servers: str, stop: threading.Event) -> None:
    """Runs a client, and starts it again when librdkafka gives up, as happens while the proxy is restarted."""
    from confluent_kafka import KafkaException

    while not stop.is_set():
        try:
            client.run(servers, stop)
        except (KafkaException, BufferError):
            stop.wait(1)


def _config(servers: str, name: str, **more: Any) -> dict[str, Any]:
    options = {key.replace("_", "."): value for key, value in more.items()}
    return {"bootstrap.servers": servers, "client.id": name, "log_level": 0, **options}


def _producing(name: str, topic: str, codec: str, size: int, pause: float) -> Client:
    """A client that produces batches of text with the given compression."""

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import Producer

        dice = random.Random(name)  # noqa: S311 (a demo's data)
        producer = Producer(_config(servers, name, compression_codec=codec, linger_ms=20))
        words = ("ordered", "paid", "shipped", "returned", "viewed", "cart", "wish list", "grüße", "注文")
        while not stop.wait(pause * dice.uniform(0.5, 1.5)):
            for _ in range(dice.randint(1, 12)):
                key = f"customer-{dice.randint(1, 40)}"
                value = {
                    "event": dice.choice(words),
                    "amount": dice.randint(1, 900),
                    "note": "x" * dice.randint(0, size),
                }
                producer.produce(topic, json.dumps(value), key, headers={"source": name})
            producer.poll(0)
        producer.flush(1)

    return Client(name, run)


def _transacting(name: str, topics: tuple[str, str]) -> Client:
    """A client that produces in transactions and aborts every fourth one."""

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import Producer

        producer = Producer(_config(servers, name, transactional_id="pay-7", compression_codec="zstd"))
        producer.init_transactions(START_SECONDS)
        number = 0
        while not stop.wait(0.7):
            number += 1
            producer.begin_transaction()
            for topic in topics:
                producer.produce(topic, json.dumps({"payment": number}), f"payment-{number}")
            if number % 4:
                producer.commit_transaction(10)
            else:
                producer.flush(5)
                producer.abort_transaction(10)

    return Client(name, run)


def _consuming(name: str, group: str, topics: list[str], strategy: str, stay: float | None = None) -> Client:
    """A member of a consumer group.

    With `stay` it leaves every `stay` seconds and rejoins, so that the group rebalances.
    """

    def consume(consumer: Consumer, seconds: float | None, stop: threading.Event) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        while not stop.is_set() and (until is None or time.monotonic() < until):
            consumer.poll(0.1)

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import Consumer

        settings = _config(
            servers, name, group_id=group, auto_offset_reset="earliest", auto_commit_interval_ms=2000,
            partition_assignment_strategy=strategy, session_timeout_ms=6000, heartbeat_interval_ms=1500,
        )  # fmt: skip
        while not stop.is_set():
            consumer = Consumer(settings)
            consumer.subscribe(topics)
            try:
                consume(consumer, stay, stop)
            finally:
                consumer.close()
            if stay is not None:
                stop.wait(stay / 2)

    return Client(name, run)


def _reading(name: str, topic: str) -> Client:
    """A client that reads partition 0 of a topic, without a group."""

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            _config(servers, name, group_id=name, enable_auto_commit=False, allow_auto_create_topics=True)
        )
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        try:
            while not stop.is_set():
                consumer.poll(0.1)
        finally:
            consumer.close()

    return Client(name, run)


def _dawdling(name: str, group: str, topics: list[str]) -> Client:
    """A member of a consumer group that works too long: MAX_POLL_SECONDS pass before it polls again."""

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import Consumer

        most = int(MAX_POLL_SECONDS * 1000)
        settings = _config(
            servers, name, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            session_timeout_ms=most, heartbeat_interval_ms=1000, max_poll_interval_ms=most,
        )  # fmt: skip
        consumer = Consumer(settings)
        consumer.subscribe(topics)
        try:
            while not stop.is_set():
                until = time.monotonic() + POLLING_SECONDS
                while time.monotonic() < until and not stop.is_set():
                    consumer.poll(0.1)
                stop.wait(WORKING_SECONDS)
        finally:
            consumer.close()

    return Client(name, run)


def _looking(name: str) -> Client:
    """A client that lists topics and groups, like an operator's tool."""

    def run(servers: str, stop: threading.Event) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(_config(servers, name))
        while not stop.wait(3):
            with suppress(KafkaException):
                admin.list_topics(timeout=5)
                admin.list_groups(timeout=5)

    return Client(name, run)


CLIENTS = (
    _producing("orders-svc", "orders", "lz4", 200, 0.25),
    _producing("web-clicks", "clicks", "snappy", 40, 0.15),
    _producing("audit-log", "audit", "gzip", 800, 1.0),
    _transacting("payments", ("payments", "ledger")),
    _consuming("billing-1", "billing", ["orders", "payments"], "cooperative-sticky"),
    _consuming("billing-2", "billing", ["orders", "payments"], "cooperative-sticky"),
    _consuming("billing-3", "billing", ["orders", "payments"], "cooperative-sticky", stay=9.0),
    _consuming("analytics-1", "analytics", ["clicks", "audit"], "range,roundrobin"),
    _consuming("analytics-2", "analytics", ["clicks", "audit"], "range,roundrobin", stay=6.0),
    _looking("admin-ui"),
    _producing("inventory", "stock", "lz4", 100, 0.3),
    _consuming("mailer-1", "mailer", ["orders"], "range"),
    _dawdling("mailer-2", "mailer", ["orders"]),
    _reading("reports", "clicks"),
)
"""The applications of the demo; the last four have the problems of `kproxy.runs.demo_problems`."""
