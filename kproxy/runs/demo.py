"""The demo's cluster and clients, in a process of their own: librdkafka's mock cluster and real librdkafka clients.

    python -m kproxy.runs.demo

The process prints one line of JSON, {"bootstrap": "host:port,…"}, when the cluster listens. Then it reads a line with
the bootstrap servers for the clients, which produce and consume until standard input ends.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import Consumer, Producer

BROKERS = 3
START_SECONDS = 30.0
STOP_SECONDS = 5.0
GOODBYE_SECONDS = 2.0


class DemoError(Exception):
    """The demo cannot start; the message says why. `missing` is true if a package is not installed."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


# --- in kproxy's process ---------------------------------------------------------------------------------------------


class Traffic:
    """The demo's process, which ends with the `with` block; `bootstrap` has the addresses of the mock cluster."""

    def __init__(self) -> None:
        self.bootstrap = ""

    def __enter__(self) -> Self:
        """Starts the cluster. Raises DemoError if it does not start."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kproxy.runs.demo"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101 (a pipe was asked for)
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the demo's cluster did not start"}
        if "error" in answer:
            self._end()
            raise DemoError(answer["error"], missing=answer.get("missing", False))
        self.bootstrap = answer["bootstrap"]
        return self

    def start_clients(self, bootstrap: str) -> None:
        """Starts the clients; `bootstrap` are their bootstrap servers."""
        assert self._process.stdin is not None  # noqa: S101 (a pipe was asked for)
        self._process.stdin.write(f"{bootstrap}\n")
        self._process.stdin.flush()

    def stop_clients(self) -> None:
        """Ends the clients, which first leave their groups, and then the mock cluster."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self.stop_clients()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# --- in the demo's process: cluster and clients ----------------------------------------------------------------------


def main() -> None:
    """Runs the cluster, then the clients with the bootstrap servers from standard input, until that ends."""
    try:
        cluster, bootstrap = start_cluster()
    except (ImportError, DemoError) as error:
        missing = isinstance(error, ImportError)
        reason = "the demo needs librdkafka: pip install 'kafka-kproxy[demo]'" if missing else str(error)
        print(json.dumps({"error": reason, "missing": missing}), flush=True)
        return
    print(json.dumps({"bootstrap": bootstrap}), flush=True)
    servers = sys.stdin.readline().strip()
    if servers:
        stop = threading.Event()
        threads = [
            threading.Thread(target=_kept_going, args=(client, servers, stop), daemon=True) for client in CLIENTS
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stop.set()
        deadline = time.monotonic() + GOODBYE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    del cluster
    os._exit(0)  # clients may hang in close() if the proxy has ended before them


def start_cluster() -> tuple[Producer, str]:
    """Starts the mock cluster; returns (client that keeps the cluster running while it exists, bootstrap servers).

    Raises DemoError.
    """
    from confluent_kafka import KafkaException, Producer

    cluster = Producer({"test.mock.num.brokers": BROKERS, "client.id": "mock-cluster", "log_level": 0})
    try:
        brokers = cluster.list_topics(timeout=START_SECONDS).brokers.values()
    except KafkaException as error:
        raise DemoError(f"the mock cluster does not answer: {error}") from error
    return cluster, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def _kept_going(client: Client, servers: str, stop: threading.Event) -> None:
    """Runs a client, and starts it again when librdkafka gives up, as happens while the proxy is restarted."""
    from confluent_kafka import KafkaException

    while not stop.is_set():
        try:
            client.run(servers, stop)
        except (KafkaException, BufferError):
            stop.wait(1)


@dataclass(frozen=True, slots=True)
class Client:
    """A client application; `run` works until the event passed to it is set."""

    name: str
    run: Callable[[str, threading.Event], None]


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
)

if __name__ == "__main__":
    main()
