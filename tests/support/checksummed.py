"""Traffic whose messages are compared by digest: those sent, delivered and read."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.patience import SECONDS


class Traffic:
    """Produces and consumes in a `with` block; counts the digests of messages sent, delivered and read."""

    def __init__(self, bootstrap: str) -> None:
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"})
        self._consumer = Consumer({**common, "group.id": "keys", "fetch.wait.max.ms": 50})
        self._topic = f"checksummed-{uuid4().hex}"
        self._sizes = random.Random(1)
        self.sent: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.failures: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Wait for a limited time until all messages sent are delivered and read."""
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Assert, after the block, that every message arrived exactly once and unchanged."""
        assert not self.failures
        assert self.sent == self.delivered == self.read

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.delivered[digest(message.value())] += 1

    def _run(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        deadline = 0.0
        while not deadline or (self.read.total() < self.sent.total() and time.monotonic() < deadline):
            if self._ending.is_set() and not deadline:
                self._producer.flush(SECONDS)
                deadline = time.monotonic() + SECONDS
            for _ in range(0 if deadline else 20):
                value = self._sizes.randbytes(self._sizes.randint(1, 4000))
                self.sent[digest(value)] += 1
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._told)
            self._producer.poll(0)
            for message in self._consumer.consume(200, 0.05):
                if message.error() is None:
                    self.read[digest(message.value())] += 1
        self._consumer.close()


def digest(value: str | bytes | None) -> str:
    assert isinstance(value, bytes)
    return hashlib.sha256(value).hexdigest()
