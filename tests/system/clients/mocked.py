"""librdkafka's own mock cluster and a librdkafka client in one process, which know nothing of a proxy.

Prints the brokers' ports, waits for a line, produces and consumes, prints "done".
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer

RECORDS = 500


def main() -> None:
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "ignored"})
    metadata = owner.list_topics(timeout=30)
    brokers = sorted(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    print(*(broker.rpartition(":")[2] for broker in brokers), flush=True)
    sys.stdin.readline()
    bootstrap = ",".join(brokers)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("t", key=str(number % 7), value=f"value {number}")
    assert producer.flush(60) == 0
    found = sorted(f"{broker.host}:{broker.port}" for broker in producer.list_topics(timeout=30).brokers.values())
    assert found == brokers, found
    for broker in brokers:  # which may lead nothing: leaders are drawn by lot
        Producer({"bootstrap.servers": broker}).list_topics(timeout=30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: set[bytes | None] = set()
    while len(values) < RECORDS:
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None, record.error()
        values.add(record.value())
    consumer.close()
    assert values == {f"value {number}".encode() for number in range(RECORDS)}
    print("done", flush=True)


if __name__ == "__main__":
    main()
