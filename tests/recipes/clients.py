"""Faults of a client's configuration."""

from __future__ import annotations

import time

from tests.recipes.recipe import Recipe, Stage, idle


def missing_topic(stage: Stage) -> None:
    stage.topic("orders", 2)
    # only a client that has seen the right name is told of it
    admin = stage.admin("misspelt")
    while "orders" not in admin.list_topics(timeout=30).topics:
        time.sleep(0.2)
    producer = stage.producer("misspelt", message_timeout_ms=12_000)
    producer.produce("order", b"x")
    producer.flush(15)


def session_too_short(stage: Stage) -> None:
    stage.topic("orders", 2)
    consumer = stage.consumer("hasty", "hasty-group", "orders", session_timeout_ms=10, heartbeat_interval_ms=3)
    idle(consumer, 5)
    consumer.close()


def cut_packets(stage: Stage) -> None:
    """Clients whose packets are captured with a snap length of 200 bytes."""
    stage.topic("orders")
    for number in range(4):
        producer = stage.producer(f"writer-{number}")
        producer.produce("orders", bytes(500))
        producer.flush(10)


RECIPES = {
    "capture.health": Recipe(cut_packets, "cut_by_snaplen", snap=200),
    "meta.topic_missing": Recipe(
        missing_topic, "there is a topic orders", settings={"auto.create.topics.enable": "false"}, live=True
    ),
    "group.config_rejected": Recipe(session_too_short, "INVALID_SESSION_TIMEOUT", live=True),
}
