"""Faults around newer features: levels that are not finalized, telemetry, Streams groups, racks."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.recipes.frames import ask_loaded, new_id
from tests.recipes.recipe import Recipe, Stage, idle
from tests.support.raw import RawClient


def lowered_feature(stage: Stage) -> None:
    """The level of transaction.version is lowered, as if the cluster's upgrade had not been finished."""
    change = {"feature": "transaction.version", "maxVersionLevel": 1, "upgradeType": 2}
    with RawClient(stage.bootstrap) as client:
        done = client.ask("UpdateFeatures", 1, {"timeoutMs": 10_000, "featureUpdates": [change]})
        assert done["errorCode"] == 0, done
        time.sleep(2)
        # ApiVersions responses before version 4 omit features whose lowest supported level is 0.
        client.ask("ApiVersions", 4, {"clientSoftwareName": "raw", "clientSoftwareVersion": "1"})


def pushes_too_often(stage: Stage) -> None:
    """A client that pushes metrics each second, in place of once in the five minutes that the broker asks for."""
    with RawClient(stage.bootstrap) as client:
        found = client.ask("GetTelemetrySubscriptions", 0, {})
        push = {
            "clientInstanceId": found["clientInstanceId"],
            "subscriptionId": found["subscriptionId"],
            "metrics": b"",
        }
        for _ in range(5):
            client.ask("PushTelemetry", 0, push)
            time.sleep(1)


def without_source_topics(stage: Stage) -> None:
    """For 20 s, a member of a Streams group whose topology reads a topic that does not exist."""
    member: dict[str, Any] = {"groupId": "enricher", "memberId": new_id()}
    topology = {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["orders-to-come"]}]}
    first = {
        "topology": topology,
        "activeTasks": [],
        "standbyTasks": [],
        "warmupTasks": [],
        "processId": "process",
        "rebalanceTimeoutMs": 30_000,
        "clientTags": [],
    }
    epoch = 0
    until = time.monotonic() + 20
    with RawClient(stage.bootstrap) as client:
        while time.monotonic() < until:
            beat = member | {"memberEpoch": epoch} | ({} if epoch else first)
            epoch = ask_loaded(client, "enricher", "StreamsGroupHeartbeat", 0, beat)["memberEpoch"]
            time.sleep(3)


def reads_from_both_racks(stage: Stage) -> None:
    """A consumer that names no rack, with partitions whose leaders are in two racks."""
    new = NewTopic("readings", 2, replica_assignment=[[1], [2]], config={"max.message.bytes": "2000000"})
    stage.admin().create_topics([new])["readings"].result(60)
    producer = stage.producer("writer", compression_type="none", message_max_bytes=1_500_000)
    for number in range(16):
        producer.produce("readings", bytes(1_000_000), partition=number % 2)
        producer.poll(0.05)
    producer.flush(60)
    consumer = stage.consumer("anywhere", "readers", "readings")
    idle(consumer, 8)
    consumer.close()


RECIPES = {
    "upgrade.cluster": Recipe(lowered_feature, "transaction.version is finalized at 1"),
    "telemetry.rejected": Recipe(pushes_too_often, "THROTTLING_QUOTA_EXCEEDED"),
    "streams.status": Recipe(without_source_topics, "source topics are missing"),
    "cost.cross_rack": Recipe(
        reads_from_both_racks, "it names no rack", nodes=2, settings={"broker.rack": ("zone-a", "zone-b")}
    ),
}
