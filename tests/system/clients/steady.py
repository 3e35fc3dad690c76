# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""Many librdkafka clients that produce and consume until they are asked to end. One more argument: how many of each.

Errors that librdkafka gets over by itself are no failure: brokers come and go meanwhile. Every message must be
delivered, and read exactly once. Says "open" when all have read something, and at the end how many messages there were.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.clients import Task

SECONDS = 120.0
VALUE = bytes(20_000)


class Pair:
    """A producer and a consumer of one partition."""

    def __init__(self, task: Task, number: int) -> None:
        self.sent = 0
        self.delivered = 0
        self.offsets: set[int] = set()
        self.read = 0
        self.failure: str | None = None
        self._task = task
        self._number = number
        self.ending = threading.Event()
        common: dict[str, Any] = {
            "bootstrap.servers": task.bootstrap,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
        self._producer = Producer({
            **common, "client.id": f"steady-producer-{number}", "enable.idempotence": True, "linger.ms": 5
        })  # fmt: skip
        self._consumer = Consumer({
            **common, "client.id": f"steady-consumer-{number}", "group.id": f"{task.name}-{number}"
        })  # fmt: skip
        self.thread = threading.Thread(target=self._run)

    def _told(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failure = f"not delivered: {error}"

    def _run(self) -> None:
        self._consumer.assign([TopicPartition(self._task.name, self._number, OFFSET_BEGINNING)])
        deadline = 0.0
        while not deadline or (self.read < self.sent and time.monotonic() < deadline):
            if self.ending.is_set() and not deadline:
                deadline = time.monotonic() + SECONDS
            if not deadline:
                self._producer.produce(self._task.name, VALUE, partition=self._number, on_delivery=self._told)
                self.sent += 1
            self._producer.poll(0)
            for message in self._consumer.consume(100, 0.02):
                if message.error() is None and (offset := message.offset()) is not None:
                    self.offsets.add(offset)
                    self.read += 1
        self._producer.flush(SECONDS)
        self._consumer.close()

    def check(self) -> None:
        assert self.failure is None, self.failure
        counts = {"delivered": self.delivered, "read": self.read, "offsets": len(self.offsets)}
        assert set(counts.values()) == {self.sent}, f"sent {self.sent}, {counts}"


def main() -> None:
    task = Task.from_arguments()
    count = int(sys.argv[-1])
    admin = AdminClient({"bootstrap.servers": task.bootstrap, "client.id": "steady-admin"})
    # What was acknowledged then survives each of the brokers.
    topic = NewTopic(task.name, count, task.copies, config={"min.insync.replicas": "2"})
    for future in admin.create_topics([topic]).values():
        future.result(30)
    pairs = [Pair(task, number) for number in range(count)]
    for pair in pairs:
        pair.thread.start()
    while not all(pair.read for pair in pairs):
        time.sleep(0.05)
    print("open", flush=True)
    sys.stdin.readline()
    for pair in pairs:
        pair.ending.set()
    for pair in pairs:
        pair.thread.join()
        pair.check()
    print(f"messages {sum(pair.read for pair in pairs)}", flush=True)


if __name__ == "__main__":
    main()
