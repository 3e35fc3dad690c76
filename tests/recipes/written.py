"""Faults of clients that write their requests themselves: old versions, forgotten ids, damaged batches."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.decoders.batches.support import batch, record
from tests.recipes.recipe import Recipe, Stage
from tests.support.raw import RawClient

MEMBER_ID_REQUIRED = 79


def refused_version(stage: Stage) -> None:
    """Kafka 4 offers Produce from version 0 on, and closes the connection at versions 0 to 2."""
    stage.topic("orders")
    asked = {"acks": 1, "timeoutMs": 1_000, "topicData": []}
    with RawClient(stage.bootstrap) as client, contextlib.suppress(OSError):
        client.ask("Produce", 2, asked)
    time.sleep(1)


def old_fetches(stage: Stage) -> None:
    """A consumer of 0.10 and older, at a broker that answers it for the last time."""
    stage.topic("orders", records=5)
    with RawClient(stage.bootstrap) as client:
        for offset in range(5):
            client.fetch("orders", offset, version=2)


def too_large_to_fetch(stage: Stage) -> None:
    """Before version 3 of Fetch a message larger than the limit is cut, each time."""
    stage.topic("letters", message_format_version="0.10.0")
    producer = stage.producer("writer")
    producer.produce("letters", bytes(2_000))
    producer.flush(20)
    with RawClient(stage.bootstrap) as client:
        for _ in range(5):
            client.fetch("letters", 0, most=500, version=2)


def two_storages(stage: Stage) -> None:
    """Commits of version 0 go to ZooKeeper, and those are read that Kafka has."""
    stage.topic("orders")
    with RawClient(stage.bootstrap) as client:
        until = time.monotonic() + 60
        while client.ask("FindCoordinator", 1, {"key": "old", "keyType": 0})["errorCode"] and time.monotonic() < until:
            time.sleep(0.3)
        time.sleep(3)
        for offset in range(3):
            partition = {"partitionIndex": 0, "committedOffset": offset}
            asked = {"groupId": "old", "topics": [{"name": "orders", "partitions": [partition]}]}
            client.ask("OffsetCommit", 0, asked)
            client.ask("OffsetFetch", 1, {"groupId": "old", "topics": [{"name": "orders", "partitionIndexes": [0]}]})


def joining(group: str, member: str = "") -> dict[str, Any]:
    protocol = {"name": "range", "metadata": bytes.fromhex("0000 00000001 0006") + b"orders" + bytes(4)}
    return {
        "groupId": group,
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "memberId": member,
        "protocolType": "consumer",
        "protocols": [protocol],
    }


def asks_for_an_id(client: RawClient, group: str) -> str:
    """Join without a member id, until the coordinator is there and issues one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        said = client.ask("JoinGroup", 5, joining(group))
        if said["errorCode"] == MEMBER_ID_REQUIRED:
            return str(said["memberId"])
        client.ask("FindCoordinator", 2, {"key": group, "keyType": 0})  # which makes the topic of offsets
        time.sleep(0.3)
    raise AssertionError(said)


def never_uses_its_id(stage: Stage) -> None:
    stage.topic("orders")
    with RawClient(stage.bootstrap) as client:
        for _ in range(4):
            asks_for_an_id(client, "forgetful")


def uses_one_of_two_ids(stage: Stage) -> None:
    stage.topic("orders")
    with RawClient(stage.bootstrap) as client:
        asks_for_an_id(client, "twofold")
        member = asks_for_an_id(client, "twofold")
        said = client.ask("JoinGroup", 5, joining("twofold", member))
        for _ in range(8):
            time.sleep(1)
            client.ask("Heartbeat", 3, {"groupId": "twofold", "generationId": said["generationId"], "memberId": member})


def commits_as_nobody(stage: Stage) -> None:
    """A commit, then one of a member that is no longer in the group."""
    stage.topic("orders", records=5)
    with RawClient(stage.bootstrap) as client:
        until, error = time.monotonic() + 60, -1
        while error != 0 and time.monotonic() < until:
            client.ask("FindCoordinator", 2, {"key": "shop-raw", "keyType": 0})
            error = _commit(client, 10, -1, "")
            time.sleep(0.3)
        assert error == 0
        assert _commit(client, 100, 5, "gone") != 0


def _commit(client: RawClient, offset: int, generation: int, member: str) -> int:
    partition = {"partitionIndex": 0, "committedOffset": offset}
    asked = {
        "groupId": "shop-raw",
        "generationIdOrMemberEpoch": generation,
        "memberId": member,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    (topic,) = client.ask("OffsetCommit", 5, asked)["topics"]
    error: int = topic["partitions"][0]["errorCode"]
    return error


def waits_behind_fetches(stage: Stage) -> None:
    """A member whose heartbeats follow long Fetch requests on the same connection."""
    stage.topic("orders")
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10_000}
    fetch = {
        "replicaId": -1,
        "maxWaitMs": 1_500,
        "minBytes": 1,
        "maxBytes": 10_000,
        "sessionEpoch": -1,
        "topics": [{"topic": "orders", "partitions": [partition]}],
    }
    with RawClient(stage.bootstrap) as client:
        member = asks_for_an_id(client, "single")
        said = client.ask("JoinGroup", 5, joining("single", member))
        beat = {"groupId": "single", "generationId": said["generationId"], "memberId": member}
        for _ in range(5):
            requests = [client.send("Fetch", 11, fetch), client.send("Heartbeat", 3, beat)]
            for one in requests:
                client.receive(one)


def names_an_old_library(stage: Stage) -> None:
    stage.topic("orders")
    software = {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "2.4.1"}
    with RawClient(stage.bootstrap) as client:
        client.ask("ApiVersions", 3, software)
        client.ask("Metadata", 5, {"topics": [{"name": "orders"}]})


def damaged(stage: Stage) -> None:
    """Batches that have changed since their CRC was computed."""
    stage.topic("orders")
    data = batch(record(0, b"key", b"value"), 1)
    partition = {"index": 0, "records": data[:-1] + bytes([data[-1] ^ 1])}
    asked = {"acks": 1, "timeoutMs": 1_000, "topicData": [{"name": "orders", "partitionData": [partition]}]}
    with RawClient(stage.bootstrap) as client:
        for _ in range(2):
            client.ask("Produce", 8, asked)


def replaced_request(stage: Stage) -> None:
    stage.topic("orders")
    configs = [{"name": "retention.ms", "value": "60000"}]
    resource = {"resourceType": 2, "resourceName": "orders", "configs": configs}
    with RawClient(stage.bootstrap) as client:
        client.ask("AlterConfigs", 1, {"resources": [resource], "validateOnly": True})


def created_anew(stage: Stage) -> None:
    """A topic is deleted, and another one has its name."""
    stage.topic("letters")
    admin = stage.admin()
    admin.list_topics(timeout=10)
    admin.delete_topics(["letters"])["letters"].result(30)
    time.sleep(2)
    stage.topic("letters")
    time.sleep(1)
    admin.list_topics(timeout=10)


def asks_a_follower(stage: Stage) -> None:
    """A producer that goes on sending to a broker that does not lead the partition."""
    new = NewTopic("orders", 1, replica_assignment=[[2]])
    stage.admin().create_topics([new])["orders"].result(60)
    time.sleep(2)
    follower = stage.bootstrap.partition(",")[0]
    partition = {"index": 0, "records": batch(record(0, b"key", b"value"), 1)}
    asked = {"acks": 1, "timeoutMs": 1_000, "topicData": [{"name": "orders", "partitionData": [partition]}]}
    with RawClient(follower) as client:
        client.ask("Metadata", 5, {"topics": [{"name": "orders"}]})
        for _ in range(8):
            client.ask("Produce", 8, asked)
            time.sleep(1)


def keeps_an_old_id(stage: Stage) -> None:
    """A consumer fetches by the id of a topic that was deleted and recreated."""
    stage.topic("orders", records=3)
    with RawClient(stage.bootstrap) as client:
        (told,) = client.ask("Metadata", 12, {"topics": [{"name": "orders"}]})["topics"]
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10_000}
        asked = {
            "maxWaitMs": 100,
            "minBytes": 1,
            "maxBytes": 10_000,
            "sessionEpoch": -1,
            "topics": [{"topicId": told["topicId"], "partitions": [partition]}],
        }
        client.ask("Fetch", 13, asked)
        stage.admin().delete_topics(["orders"])["orders"].result(30)
        time.sleep(2)
        stage.topic("orders")
        for _ in range(8):
            client.ask("Fetch", 13, asked)
            time.sleep(1)


RECIPES = {
    "upgrade.refused": Recipe(refused_version, "raw@127.0.0.1 sent Produce v2"),
    "upgrade.cutoff": Recipe(old_fetches, "uses Fetch v2 at most", "3.9.2"),
    "fetch.oversize_stuck": Recipe(too_large_to_fetch, "a part of the message at offset 0 of letters-0", "1.1.1"),
    "offsets.storage_split": Recipe(two_storages, "commits offsets to ZooKeeper and reads them from Kafka", "1.1.1"),
    "join.id_retry": Recipe(never_uses_its_id, "4 times in a row without the member id"),
    "group.abandoned_member_id": Recipe(uses_one_of_two_ids, "was given the member id raw-"),
    "commit.rejected": Recipe(commits_as_nobody, "of group shop-raw refused"),
    "leader.stale": Recipe(asks_a_follower, "NOT_LEADER_OR_FOLLOWER for orders-0", nodes=2),
    "topic.recreated_commit": Recipe(keeps_an_old_id, "raw@127.0.0.1 got UNKNOWN_TOPIC_ID for topic"),
    "record.corrupt": Recipe(damaged, "whose CRC does not match"),
    "deprecated.use": Recipe(replaced_request, "uses AlterConfigs v1"),
    "latency.hol": Recipe(waits_behind_fetches, "Heartbeat"),
    "client.outdated": Recipe(names_an_old_library, "uses apache-kafka-java 2.4.1"),
    "log.truncated": Recipe(created_anew, "deleted and recreated"),
}
