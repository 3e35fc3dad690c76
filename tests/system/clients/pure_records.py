"""kafka-python sends records of every shape: bootstrap servers, topic, codec, and the brokers' release if it is old."""

from __future__ import annotations

import sys
from typing import Any

from kafka import KafkaProducer

from tests.system.clients.shapes import shapes


def main() -> None:
    bootstrap, topic, codec, release = sys.argv[1:]
    settings: dict[str, Any] = {}
    if release:
        settings["api_version"] = tuple(map(int, release.split(".")))
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=f"pure-{codec}",
        compression_type=None if codec == "none" else codec,
        linger_ms=100,
        batch_size=2000,
        acks="all",
        **settings,
    )
    futures = []
    for one in shapes(codec, headers=not release):
        # It takes no header without a value.
        headers = [(name, content) for name, content in one.headers if content is not None]
        futures.append(producer.send(topic, one.value, one.key, headers, 0, one.time))
    for future in futures:
        future.get(60)
    producer.close()


if __name__ == "__main__":
    main()
