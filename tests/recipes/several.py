"""A cluster with three faults at once, and the same once what the findings advise is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

from tests.recipes.producers import load, quota
from tests.recipes.recipe import Stage, idle

FAULTS = ("group.poll_gap", "latency.throttled", "producer.rejected")
"""The rules that name them."""


def three_faults(stage: Stage) -> None:
    """A consumer too slow for max.poll.interval.ms, a producer over its quota, records larger than the topic takes."""
    _day(stage, poll_interval_ms=6_000, bytes_per_second=20_000, largest=10_000)


def repaired(stage: Stage) -> None:
    """The same clients with a longer max.poll.interval.ms, a larger quota, and a larger max.message.bytes."""
    _day(stage, poll_interval_ms=60_000, bytes_per_second=None, largest=100_000)


def _day(stage: Stage, *, poll_interval_ms: int, bytes_per_second: float | None, largest: int) -> None:
    stage.topic("bulk")
    stage.topic("orders", 2, records=40)
    stage.topic(f"reports-{largest}", max_message_bytes=str(largest))
    quota(stage, "loader", bytes_per_second)

    def slow() -> None:
        settings = {"max_poll_interval_ms": poll_interval_ms, "session_timeout_ms": 6_000}
        with closing(stage.consumer("shipping", "shipping", "orders", **settings)) as consumer:
            idle(consumer, 4)
            time.sleep(8)
            idle(consumer, 4)

    def large() -> None:
        producer = stage.producer("reporter", message_max_bytes=1_000_000, compression_type="none")
        for _ in range(5):
            producer.produce(f"reports-{largest}", bytes(50_000))
            producer.flush(20)
            time.sleep(1)

    def busy() -> None:
        load(stage, "loader", 25)

    _together(slow, large, busy)


def _together(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
