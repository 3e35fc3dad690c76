"""kafka-python: codecs, a group, topics that come and go."""

from __future__ import annotations

import logging
import time
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import (
        CommitFailedError,
        IllegalGenerationError,
        KafkaError,
        RebalanceInProgressError,
        UnknownMemberIdError,
    )

from tests.system.clients.workload import CODECS, COPIES, PARTITIONS, Record, Run, stage, until, until_committed

LOG = logging.getLogger(__name__)

# What a member gets that commits while its group moves.
MOVING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


class Program:
    def __init__(self, run: Run) -> None:
        self.run = run
        access = run.access
        self.common: dict[str, Any] = {
            "bootstrap_servers": access.bootstrap.split(","),
            "security_protocol": access.protocol,
        }
        if access.encrypted:
            self.common["ssl_context"] = access.ssl_context()
        if access.authenticated:
            self.common |= {
                "sasl_mechanism": access.mechanism,
                "sasl_plain_username": access.user,
                "sasl_plain_password": access.password,
            }
        self.admin = KafkaAdminClient(**self.common, client_id="py-admin")
        self.assigned = self.member(None)
        self.keep: list[Any] = [self.admin, self.assigned]
        self.producers = {
            codec: self.producer(codec, compression_type=None if codec == "none" else codec) for codec in CODECS
        }

    def create(self, topic: str) -> None:
        full = self.run.full(topic)
        self.admin.create_topics([NewTopic(full, num_partitions=PARTITIONS, replication_factor=COPIES)])

        def led() -> bool:
            (found,) = self.admin.describe_topics([full])
            partitions = found["partitions"]
            return len(partitions) == PARTITIONS and all(one["leader_id"] > 0 for one in partitions)

        until(led, f"{topic} has leaders")

    def producer(self, name: str, **more: Any) -> Any:
        producer = KafkaProducer(**self.common, client_id=f"py-{name}", enable_idempotence=True, linger_ms=5, **more)
        self.keep.append(producer)
        return producer

    def member(self, group: str | None, **more: Any) -> Any:
        return KafkaConsumer(
            **self.common,
            client_id=f"py-{group}",
            group_id=group and self.run.full(group),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **more,
        )

    def send(self, producer: Any, record: Record) -> Any:
        headers = [(name, content) for name, content in record.headers]
        return producer.send(self.run.full(record.topic), record.value, record.key, headers, record.partition)

    def send_all(self, producer: Any, topic: str, kind: str, numbers: range) -> None:
        # It takes no header without a value.
        records = self.run.records(topic, kind, numbers, null_headers=False)
        for future in [self.send(producer, record) for record in records]:
            future.get(90)

    def poll(self, reader: str, *members: Any) -> None:
        for member in members:
            try:
                found = member.poll(timeout_ms=50)
            except KafkaError as error:
                # It raises what it got over when it looked for a coordinator.
                if not error.retriable:
                    raise
                LOG.warning("%r", error)
                continue
            for records in found.values():
                for one in records:
                    self.run.take(reader, one.topic, one.partition, one.offset, one.key, one.value, one.headers)

    def commit(self, reader: str, *members: Any) -> None:
        """Where each of them is."""
        until_committed(
            members,
            lambda member: member.commit(),
            lambda error: isinstance(error, MOVING),
            lambda: self.poll(reader, *members),
        )

    def until_all(self, reader: str, topic: str, *members: Any) -> None:
        def found() -> bool:
            self.poll(reader, *members)
            return self.run.all(reader, topic)

        until(found, f"{reader} reads all of {topic}")

    def join(self, topic: str, *members: Any) -> None:
        """The last of these joins the others."""
        full = self.run.full(topic)
        members[-1].subscribe([full])
        again = time.monotonic() + 5

        def shared() -> bool:
            nonlocal again
            self.poll(topic, *members)
            sizes = [len(member.assignment()) for member in members]
            # A group's leader that hears of a topic before its partitions assigns none, and leaves it at that.
            if not any(sizes) and time.monotonic() > again:
                members[0].unsubscribe()
                members[0].subscribe([full])
                again = time.monotonic() + 5
            return all(sizes) and sum(sizes) == PARTITIONS

        until(shared, f"each of {topic} has a share")

    def to_the_end(self, topic: str) -> None:
        """Without a group; what is there twice is found here."""
        partitions = [TopicPartition(self.run.full(topic), number) for number in range(PARTITIONS)]
        ends = self.assigned.end_offsets(partitions)
        self.assigned.assign(partitions)
        self.assigned.seek_to_beginning(*partitions)

        def ended() -> bool:
            self.poll("assigned", self.assigned)
            return all(self.assigned.position(one) >= ends[one] for one in partitions)

        until(ended, f"{topic} is read to its end")

    def codecs(self) -> None:
        self.create("codecs")
        for codec, producer in self.producers.items():
            self.send_all(producer, "codecs", codec, range(60))
        self.to_the_end("codecs")

    def group(self) -> None:
        """A member joins, and another one leaves."""
        self.create("classic")
        producer = self.producers["gzip"]
        first, second = (self.member("classic", heartbeat_interval_ms=500) for _ in range(2))
        self.keep.append(second)
        for kind, members in (("alone", (first,)), ("together", (first, second)), ("left", (second,))):
            if kind == "left":
                first.close()
            self.join("classic", *members)
            self.send_all(producer, "classic", kind, range(30))
            self.until_all("classic", "classic", *members)
            self.commit("classic", *members)
        self.to_the_end("classic")

    def deletion(self) -> None:
        self.create("short-lived")
        full = self.run.full("short-lived")
        self.admin.delete_topics([full])
        until(lambda: full not in self.admin.list_topics(), "the topic goes")

    def outage(self) -> None:
        self.create("outage")
        # A batch that comes after one whose leader was killed can be refused for ever.
        producer = self.producer("outage", compression_type="lz4", max_in_flight_requests_per_connection=1)
        member = self.member("outage", heartbeat_interval_ms=500)
        self.keep.append(member)
        self.join("outage", member)
        for word, numbers in (("steady", range(60)), ("survived", range(60, 120))):
            stage(word)
            futures = []
            for record in self.run.records("outage", "paced", numbers, null_headers=False):
                futures.append(self.send(producer, record))
                self.poll("outage", member)
            for future in futures:
                future.get(180)
            self.until_all("outage", "outage", member)
        self.to_the_end("outage")


def main() -> None:
    run = Run()
    program = Program(run)
    program.codecs()
    program.group()
    program.deletion()
    program.outage()
    run.tell()
    stage("done")
    for one in reversed(program.keep):
        one.close()


if __name__ == "__main__":
    main()
