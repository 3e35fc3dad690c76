"""Faults of brokers and of clients that read nothing, or that write their requests themselves."""

from __future__ import annotations

import os
import signal
import time
from base64 import urlsafe_b64encode
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer

from tests.recipes.recipe import Recipe, Stage, idle
from tests.support.raw import RawClient

LOADING = frozenset({14, 15, 16})
"""Errors of a coordinator that is about to start."""


def no_offsets_topic(stage: Stage) -> None:
    """A consumer, while the cluster has too few brokers for the replicas of __consumer_offsets."""
    stage.topic("orders", 1)
    consumer = stage.consumer("waiting", "shop", "orders")
    idle(consumer, 40)
    consumer.close()


def stopped_broker(stage: Stage) -> None:
    """A producer writes while the broker's process stands still."""
    stage.topic("orders", 1)
    producer = stage.producer("writer", batch_size=900_000, linger_ms=50, compression_type="none")
    write(producer, 1)
    pid = stage.cluster.processes[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        write(producer, 8)
        time.sleep(4)
    finally:
        os.kill(pid, signal.SIGCONT)
    producer.flush(30)


def write(producer: Producer, megabytes: int) -> None:
    for _ in range(megabytes * 10):
        producer.produce("orders", bytes(100_000))
    producer.poll(0.5)


def new_id() -> str:
    """A member id as clients make it: a UUID in Kafka's form."""
    return urlsafe_b64encode(uuid4().bytes)[:22].decode()


def ask_loaded(client: RawClient, group: str, api: str, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """The response of a group's coordinator once it is there, within a minute; it must have no error."""
    until = time.monotonic() + 60
    while (said := client.ask(api, version, values))["errorCode"] in LOADING and time.monotonic() < until:
        # FindCoordinator makes the broker create the topic of offsets.
        client.ask("FindCoordinator", 2, {"key": group, "keyType": 0})
        time.sleep(0.2)
    assert said["errorCode"] == 0, said
    return said


class Sharing:
    """A member of a share group, with one share session at the only broker."""

    def __init__(self, client: RawClient, group: str, topic: str) -> None:
        self._client = client
        self._group = group
        self._member = {"groupId": group, "memberId": new_id()}
        self._topics = [topic]
        self._epoch = 0
        self._session = -1
        (told,) = client.ask("Metadata", 12, {"topics": [{"name": topic}]})["topics"]
        self._topic = told["topicId"]

    def beat(self) -> None:
        names = {"subscribedTopicNames": self._topics if self._epoch == 0 else None}
        beat = self._member | names | {"memberEpoch": self._epoch}
        self._epoch = ask_loaded(self._client, self._group, "ShareGroupHeartbeat", 1, beat)["memberEpoch"]

    def _asks(self, more: dict[str, Any]) -> dict[str, Any]:
        self._session += 1
        topics = [{"topicId": self._topic, "partitions": [{"partitionIndex": 0} | more]}]
        return self._member | {"shareSessionEpoch": self._session, "topics": topics}

    def fetch(self) -> list[dict[str, Any]]:
        """The runs of records that the member gets."""
        limits = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1 << 20, "maxRecords": 500, "batchSize": 500}
        said = self._client.ask("ShareFetch", 1, self._asks({}) | limits)
        assert said["errorCode"] == 0, said
        return [run for topic in said["responses"] for one in topic["partitions"] for run in one["acquiredRecords"]]

    def acknowledge(self, run: dict[str, Any], kind: int) -> None:
        """Accept (1) or release (2) a run of records."""
        batch = {"firstOffset": run["firstOffset"], "lastOffset": run["lastOffset"], "acknowledgeTypes": [kind]}
        said = self._client.ask("ShareAcknowledge", 1, self._asks({"acknowledgementBatches": [batch]}))
        assert said["errorCode"] == 0, said


def released(stage: Stage) -> None:
    """A member of a share group that releases each record, and goes on polling."""
    stage.topic("orders", 1)
    with RawClient(stage.bootstrap) as client:
        member = Sharing(client, "shop", "orders")
        member.beat()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            member.beat()
            member.fetch()
        stage.topic("orders", records=3)
        until = time.monotonic() + 18
        while time.monotonic() < until:
            member.beat()
            for run in member.fetch():
                member.acknowledge(run, 2)


RECIPES = {
    "client.stuck_start": Recipe(
        no_offsets_topic, "COORDINATOR_NOT_AVAILABLE", settings={"offsets.topic.replication.factor": 3}
    ),
    "share.poison": Recipe(
        released,
        "nobody gets them again",
        settings={
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
        },
    ),
    "tcp.pressure": Recipe(stopped_broker, "the broker's receive window was closed"),
}
