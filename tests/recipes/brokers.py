"""Faults of brokers and controllers: they stand still, fail, lose records; topics that move and vanish."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.recipes.recipe import Recipe, Stage, idle
from tests.support.raw import RawClient

NODES = {1, 2, 3}
CALM: dict[str, object] = {"replica.fetch.wait.max.ms": 2_000}
"""Followers of topics without traffic fetch seldom, so that captures are small."""


@contextlib.contextmanager
def paused(stage: Stage, node: int) -> Iterator[None]:
    """Within the block a broker stands still."""
    stage.cluster.pause_node(node)
    try:
        yield
    finally:
        stage.cluster.resume_node(node)


def active(stage: Stage, *, without: int = 0) -> int:
    """The active controller, as a node other than `without` names it."""
    asked = {"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}
    node = next(one for one in sorted(NODES) if one != without)
    with RawClient(f"{stage.cluster.host}:{stage.cluster.ports[node - 1]}") as client:
        (topic,) = client.ask("DescribeQuorum", 0, asked)["topics"]
    leader: int = topic["partitions"][0]["leaderId"]
    return leader


def assigned(stage: Stage, name: str, *replicas: int, **config: str) -> None:
    """Make a topic of one partition on these nodes."""
    new = NewTopic(name, 1, replica_assignment=[list(replicas)], config=config)
    admin = stage.admin()
    admin.create_topics([new])[name].result(60)
    time.sleep(3)
    admin.list_topics(timeout=10)  # so that the capture has the topic's name


def broker_stands_still(stage: Stage) -> None:
    """A broker that is not the active controller, for longer than its session."""
    assigned(stage, "orders", 1, 2, 3)
    with paused(stage, min(NODES - {active(stage)})):
        time.sleep(13)
    time.sleep(4)


def follower_stands_still(stage: Stage) -> None:
    """For longer than replica.lag.time.max.ms; the other follower goes on."""
    leader = active(stage)
    still, other = sorted(NODES - {leader})
    assigned(stage, "orders", leader, other, still)
    with paused(stage, still):
        time.sleep(36)
    time.sleep(4)


def controllers_stand_still(stage: Stage) -> None:
    """The active controller, three times, each for longer than its followers wait."""
    assigned(stage, "orders", 1, 2, 3)
    for _ in range(3):
        with paused(stage, active(stage)):
            time.sleep(5)
        time.sleep(5)


def unclean(stage: Stage) -> None:
    """Node 3 fails, then node 2, the last replica in sync; node 3 comes back and may lead."""
    assigned(stage, "orders", 2, 3, **{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    stage.cluster.stop_node(3)
    time.sleep(12)
    stage.cluster.stop_node(2)
    stage.cluster.start_node(3)
    time.sleep(25)


def moved(stage: Stage) -> None:
    """A partition moves from nodes 1 and 2 to nodes 1 and 3."""
    assigned(stage, "orders", 1, 2)
    partition = {"partitionIndex": 0, "replicas": [1, 3]}
    with RawClient(stage.cluster.bootstrap.partition(",")[0]) as client:
        client.ask("AlterPartitionReassignments", 0, {"topics": [{"name": "orders", "partitions": [partition]}]})
    time.sleep(5)


def controller_fails(stage: Stage) -> None:
    """ZooKeeper mode: the controller is killed, and its session ends."""
    stage.topic("orders", 2, 2)
    controller = controller_id(stage.admin())
    time.sleep(2)
    stage.cluster.stop_node(controller)
    time.sleep(15)


def controller_id(admin: AdminClient) -> int:
    found: int = admin.list_topics(timeout=10).controller_id
    return found


def deletion_waits(stage: Stage) -> None:
    """ZooKeeper mode: a topic is deleted while a broker with a replica of it is down."""
    stage.topic("orders", 1, 2)
    admin = stage.admin()
    controller = controller_id(admin)
    stage.cluster.stop_node(3 - controller)
    time.sleep(10)
    admin.delete_topics(["orders"])["orders"].result(30)
    for number in range(4):
        time.sleep(20)
        stage.topic(f"other-{number}")


def controllers_lose_sessions(stage: Stage) -> None:
    """ZooKeeper mode: the controller stands still for longer than its session, five times."""
    stage.topic("orders", 1, 2)
    admin = stage.admin()
    for _ in range(5):
        with paused(stage, controller_id(admin)):
            time.sleep(10)
        time.sleep(8)


def coordinator_stops(stage: Stage) -> None:
    """The coordinator of a group is killed, and another broker coordinates it."""
    stage.topic("orders", 1, 3)
    consumer = stage.consumer("reader", "shop", "orders", fetch_wait_max_ms=5_000)
    idle(consumer, 20)
    node = stage.admin().describe_consumer_groups(["shop"])["shop"].result(30).coordinator.id
    stage.cluster.stop_node(node)
    idle(consumer, 25)
    consumer.close()


RECIPES = {
    "kraft.broker_fenced": Recipe(
        broker_stands_still, "sent no heartbeat for", nodes=3, settings=CALM, among_brokers=True
    ),
    "replica.lag": Recipe(follower_stands_still, "sent no Fetch to", nodes=3, settings=CALM, among_brokers=True),
    "kraft.elections": Recipe(controllers_stand_still, "3 elections in", nodes=3, settings=CALM, among_brokers=True),
    "leader.unclean": Recipe(unclean, "node 3 became leader", nodes=3, settings=CALM, among_brokers=True),
    "partition.reassign": Recipe(moved, "orders-0 is moved", nodes=3, settings=CALM, among_brokers=True),
    "controller.churn": Recipe(
        controllers_lose_sessions,
        "changes of the controller",
        "1.1.1",
        2,
        {"zookeeper.session.timeout.ms": 4_000},
        among_brokers=True,
    ),
    "coord.moved": Recipe(coordinator_stops, "shop", nodes=3, settings={"offsets.topic.replication.factor": 3}),
    "controller.failover": Recipe(
        controller_fails, "failed, or lost its session with ZooKeeper", "1.1.1", 2, among_brokers=True
    ),
    "topic.lifecycle": Recipe(deletion_waits, "orders was marked for deletion", "1.1.1", 2, among_brokers=True),
}
