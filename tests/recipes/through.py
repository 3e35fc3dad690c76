"""Faults that kproxy's rules make between clients and a healthy broker, where no broker makes them by itself."""

from __future__ import annotations

import time

from tests.recipes.recipe import Recipe, Stage, idle


def answered_twice(stage: Stage) -> None:
    """A producer that gets a second response to its third request, and goes on."""
    stage.topic("orders")
    producer = stage.producer("writer", linger_ms=0)
    for _ in range(8):
        producer.produce("orders", b"x")
        producer.flush(10)
        time.sleep(0.2)
    del producer  # which closes its connections: only then the rule is sure
    time.sleep(1)


def far_away(stage: Stage) -> None:
    """A consumer with a limit of 1,000 bytes that reads a backlog from a broker that is 400 ms away."""
    stage.topic("backlog")
    producer = stage.producer("writer", batch_num_messages=10, compression_type="none")
    for _ in range(4_000):
        producer.produce("backlog", bytes(80), partition=0)
        producer.poll(0)
    producer.flush(60)
    limits = {"max_partition_fetch_bytes": 1_000, "fetch_max_bytes": 1_000, "message_max_bytes": 1_000}
    consumer = stage.consumer("narrow", "readers", "backlog", **limits)
    idle(consumer, 45)
    consumer.close()


TWICE = "api == Produce and client.id == writer => duplicate, nth 3"
LATE = "api == Fetch and client.id == narrow => delay 400ms"
RECIPES = {
    "proto.desync": Recipe(answered_twice, "a response that matches no request of this connection", faults=(TWICE,)),
    "fetch.size_bound": Recipe(far_away, "responses of", faults=(LATE,)),
}
