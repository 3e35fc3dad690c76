"""A producer whose answer is lost: the record is in the topic once, because the producer is idempotent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from kproxy.testing.facade import Kproxy


def test_lost_answer(kproxy: Kproxy) -> None:
    lost = kproxy.on("Produce", topic="orders").nth(1).drop_response()
    producer = Producer(
        {"bootstrap.servers": kproxy.bootstrap_servers, "enable.idempotence": True, "socket.timeout.ms": 1000}
    )
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    assert lost.hits == 1
    first, second = kproxy.exchanges("api == Produce and topic == orders")
    assert second["error_codes"] == []
    print(first["status"], second["status"])
