"""What a recipe is, and the stage on which it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.brokers import Cluster


class Stage:
    """A running cluster, and the address at which a recipe's clients reach it: a broker's or a proxy's."""

    def __init__(self, cluster: Cluster, bootstrap: str) -> None:
        self.cluster = cluster
        self.bootstrap = bootstrap
        self._admins: dict[str, AdminClient] = {}

    def settings(self, client_id: str, **more: Any) -> dict[str, Any]:
        """Settings of a client of librdkafka; names of settings have "_" for "."."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": client_id,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def admin(self, client_id: str = "admin") -> AdminClient:
        """An admin client, the same one for the same client id: one that is collected gives no results."""
        if client_id not in self._admins:
            self._admins[client_id] = AdminClient(self.settings(client_id))
        return self._admins[client_id]

    def producer(self, client_id: str, **more: Any) -> Producer:
        return Producer(self.settings(client_id, **more))

    def consumer(self, client_id: str, group: str, *topics: str, **more: Any) -> Consumer:
        """A consumer from the first record on, that commits only when it is told to, subscribed to `topics`."""
        defaults = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        consumer = Consumer(self.settings(client_id, **defaults | more))
        if topics:
            consumer.subscribe(list(topics))
        return consumer

    def topic(self, name: str, partitions: int = 1, replicas: int = 1, records: int = 0, **config: str) -> None:
        """Make a topic if there is none yet, with records b"0", b"1", ... in it."""
        new = NewTopic(name, partitions, replicas, config={key.replace("_", "."): one for key, one in config.items()})
        try:
            self.admin().create_topics([new])[name].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        producer = self.producer("filler")
        for number in range(records):
            producer.produce(name, b"%d" % number)
        producer.flush(30)


class Recipe(NamedTuple):
    """How a fault is made, and what its finding says: `words` stand in its summary, cause or evidence.

    `settings` are those of the brokers; a tuple has a value for each node. `among_brokers`: the capture holds what
    brokers and controllers say to each other as well. `faults` are rules of kproxy (docs/faults.md), which then stands
    between clients and cluster; the capture holds the clients' side. `snap` is the maximum number of bytes that the
    capture holds of a packet. `live`: the system tests make it in every run, behind `kproxy run`.
    """

    make: Callable[[Stage], None]
    words: str
    release: str = "4.4.0"
    nodes: int = 1
    settings: dict[str, object] = {}  # noqa: RUF012 (a row is never changed)
    among_brokers: bool = False
    faults: tuple[str, ...] = ()
    snap: int | None = None
    live: bool = False


def polled(consumer: Consumer, seconds: float = 20) -> Any:
    """The first record that a consumer gets; None if it gets none in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            return message
    return None


def idle(consumer: Consumer, seconds: float) -> None:
    """Poll for some time, whatever comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        consumer.poll(0.5)
