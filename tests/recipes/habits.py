"""Faults of how clients are configured and used: protocols, logins, pools, tiny requests, commits, assignors."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.recipes.groups import polling
from tests.recipes.recipe import Recipe, Stage, idle


def tls_to_plaintext(stage: Stage) -> None:
    stage.topic("orders")
    producer = stage.producer("secure", security_protocol="ssl")
    producer.poll(3)


def login_to_plaintext(stage: Stage) -> None:
    stage.topic("orders")
    more = {"security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN"}
    producer = stage.producer("login", sasl_username="alice", sasl_password="wonderland", **more)
    producer.poll(5)


def a_producer_for_each_record(stage: Stage) -> None:
    stage.topic("orders")
    for number in range(45):
        producer = stage.producer(f"job-{number}")
        producer.produce("orders", b"x")
        producer.flush(10)
        del producer
        time.sleep(0.5)


def a_pool(stage: Stage) -> None:
    stage.topic("orders")
    pool = [stage.producer("pool") for _ in range(6)]
    for _ in range(5):
        for producer in pool:
            producer.produce("orders", b"x")
            producer.flush(10)
        time.sleep(1)


def no_acknowledgements(stage: Stage) -> None:
    stage.topic("orders")
    producer = stage.producer("careless", acks=0, linger_ms=0)
    for _ in range(120):
        producer.produce("orders", b"x")
        producer.flush(10)


def a_request_for_each_record(stage: Stage) -> None:
    stage.topic("orders")
    producer = stage.producer("eager", linger_ms=0)
    until = time.monotonic() + 14
    while time.monotonic() < until:
        producer.produce("orders", b"x")
        producer.flush(10)
        time.sleep(0.004)


def a_commit_for_each_record(stage: Stage) -> None:
    stage.topic("orders", records=800)
    with closing(stage.consumer("careful", "careful", "orders")) as consumer:
        until = time.monotonic() + 75
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)
                time.sleep(0.1)


def metadata_in_a_loop(stage: Stage) -> None:
    stage.topic("orders")
    admin = stage.admin("watcher")
    for _ in range(75):
        admin.list_topics(timeout=10)
        time.sleep(0.8)


def assignors_without_overlap(stage: Stage) -> None:
    stage.topic("orders", 2)
    with closing(stage.consumer("first", "mixed", "orders", partition_assignment_strategy="range")) as first:
        stop = polling(first)
        time.sleep(5)
        other = stage.consumer("second", "mixed", "orders", partition_assignment_strategy="roundrobin")
        with closing(other):
            idle(other, 8)
        stop.set()
        time.sleep(0.5)


def more_members_than_partitions(stage: Stage) -> None:
    """A group grows, and one of its members gets nothing."""
    stage.topic("orders-2", 2)
    with ExitStack() as stack:
        stops: list[threading.Event] = []
        for name in ("one", "two", "three"):
            member = stack.enter_context(closing(stage.consumer(name, "wide", "orders-2", fetch_wait_max_ms=5_000)))
            stops.append(polling(member))
            time.sleep(5)
        time.sleep(70)
        for stop in stops:
            stop.set()
        time.sleep(0.5)


def grows(stage: Stage) -> None:
    stage.topic("orders", 2)
    with ExitStack() as stack:
        stops: list[threading.Event] = []
        for name in ("one", "two"):
            member = stack.enter_context(closing(stage.consumer(name, "growing", "orders")))
            stops.append(polling(member))
            time.sleep(6)
        for stop in stops:
            stop.set()
        time.sleep(0.5)


def deletes(stage: Stage) -> None:
    stage.topic("bills")
    stage.admin("operator").delete_topics(["bills"])["bills"].result(30)


def new_password(stage: Stage) -> None:
    """A password is set over a connection without TLS."""
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", how, b"wonderland")
    for future in stage.admin("operator").alter_user_scram_credentials([change]).values():
        future.result(30)


def without_rights(stage: Stage) -> None:
    stage.topic("secret")
    nobody = AclBinding(
        ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL,
        AclPermissionType.DENY,
    )  # fmt: skip
    for future in stage.admin().create_acls([nobody]).values():
        future.result(30)
    time.sleep(2)
    for _ in range(4):
        stage.admin("curious").list_topics("secret", timeout=10)
        time.sleep(1)


def paused(stage: Stage, seconds: float, **settings: object) -> None:
    """A producer has written a record, and writes another one while the broker stands still."""
    stage.topic("orders")
    producer = stage.producer("writer", **settings)
    for _ in range(3):
        producer.produce("orders", b"before")
        producer.flush(10)
    stage.cluster.pause_node(1)
    producer.produce("orders", b"meanwhile")
    producer.poll(seconds)
    time.sleep(max(0.0, seconds - 1))
    stage.cluster.resume_node(1)
    producer.flush(30)


def slow_broker(stage: Stage) -> None:
    paused(stage, 7)


def given_up(stage: Stage) -> None:
    """The client closes its connection after 6 s, and sends the record again."""
    paused(stage, 10, socket_timeout_ms=6_000, acks=1, enable_idempotence=False, linger_ms=0)


def one_broker_less(stage: Stage) -> None:
    stage.topic("orders", 3, 3)
    admin = stage.admin("watcher")
    admin.list_topics(timeout=10)
    time.sleep(5)
    stage.cluster.stop_node(3)
    for _ in range(10):
        time.sleep(8)
        admin.list_topics(timeout=10)


RIGHTS: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
RECIPES = {
    "conn.wrong_protocol": Recipe(tls_to_plaintext, "127.0.0.1 sent TLS to 127.0.0.1"),
    "auth.sasl": Recipe(login_to_plaintext, "login@127.0.0.1"),
    "client.leak": Recipe(a_producer_for_each_record, "job-#@127.0.0.1 began and ended"),
    "client.conn_pool": Recipe(a_pool, "pool@127.0.0.1 uses"),
    "producer.weak_acks": Recipe(no_acknowledgements, "careless@127.0.0.1 asks for no acknowledgement (acks=0)"),
    "producer.tiny_batches": Recipe(a_request_for_each_record, "eager@127.0.0.1"),
    "consumer.commit_storm": Recipe(a_commit_for_each_record, "careful@127.0.0.1 commits"),
    "meta.heavy": Recipe(metadata_in_a_loop, "times within a minute on one connection"),
    "group.assignor_clash": Recipe(assignors_without_overlap, "INCONSISTENT_GROUP_PROTOCOL"),
    "group.idle_members": Recipe(more_members_than_partitions, "1 of 3 members have no partition"),
    "group.rebalance_cause": Recipe(grows, "two@127.0.0.1 joined"),
    "group.protocol_upgrade": Recipe(grows, "offers that of KIP-848"),
    "admin.destructive": Recipe(deletes, "operator@127.0.0.1 deleted topics: bills"),
    "sec.cleartext": Recipe(new_password, "passed a salted SCRAM password without TLS"),
    "auth.denied": Recipe(without_rights, "denied topic secret", settings=RIGHTS),
    "latency.broker_slow": Recipe(slow_broker, "Produce took the broker"),
    "conn.abandoned": Recipe(given_up, "1 Produce"),
    "producer.retry_dup": Recipe(given_up, "were written twice"),
    "isr.shrunk": Recipe(one_broker_less, "node 3 is missing in ISRs", nodes=3),
}
