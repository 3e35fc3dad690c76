# The package marks none of its admin names as exported.
# mypy: disable-error-code="attr-defined"
"""librdkafka: codecs, transactions, groups of both protocols, topics that come and go."""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.clients.workload import CODECS, COPIES, PARTITIONS, Header, Record, Run, stage, until, until_committed

LOG = logging.getLogger(__name__)

# What a member gets that commits while its group moves.
MOVING = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
)


REJOIN_SECONDS = 30
"""Seconds without an assigned partition after which a member leaves its group and joins again."""


def heard(error: KafkaError) -> None:
    """Of a client at large; what it gets over it also logs, and at once."""
    if error.fatal():
        raise KafkaException(error)


class Program:
    def __init__(self, run: Run) -> None:
        self.run = run
        access = run.access
        self.common: dict[str, Any] = {
            "bootstrap.servers": access.bootstrap,
            "security.protocol": access.protocol,
            "error_cb": heard,
        }
        if access.encrypted:
            self.common["ssl.ca.location"] = access.ca
        if access.certificate:
            self.common |= {"ssl.certificate.location": access.certificate, "ssl.key.location": access.key}
        if access.authenticated:
            self.common |= {
                "sasl.mechanism": access.mechanism,
                "sasl.username": access.user,
                "sasl.password": access.password,
            }
        self.admin = AdminClient({**self.common, "client.id": "rd-admin"})
        self.keep: list[object] = []
        self.assigned = self.member("assigned")
        self.producers = {codec: self.producer(codec, **{"compression.type": codec}) for codec in CODECS}

    def create(self, topic: str) -> None:
        full = self.run.full(topic)
        for future in self.admin.create_topics([NewTopic(full, PARTITIONS, COPIES)]).values():
            future.result(60)

        def led() -> bool:
            found = self.admin.list_topics(timeout=30).topics.get(full)
            return (
                found is not None
                and len(found.partitions) == PARTITIONS
                and all(one.leader > 0 for one in found.partitions.values())
            )

        until(led, f"{topic} has leaders")

    def producer(self, name: str, **more: Any) -> Producer:
        settings = {"client.id": f"rd-{name}", "enable.idempotence": True, "linger.ms": 5, **more}
        producer = Producer({**self.common, **settings})
        self.keep.append(producer)
        return producer

    def member(self, group: str, **more: Any) -> Consumer:
        member = Consumer({
            **self.common,
            "client.id": f"rd-{group}",
            "group.id": self.run.full(group),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # A leader of a group that hears of a topic before its partitions assigns none until it asks again.
            "topic.metadata.refresh.interval.ms": 1000,
            **more,
        })  # fmt: skip
        self.keep.append(member)
        return member

    def send(self, producer: Producer, record: Record) -> None:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise KafkaException(error)

        producer.produce(
            self.run.full(record.topic),
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        producer.poll(0)

    def poll(self, reader: str, *members: Consumer, seconds: float = 0.05) -> None:
        for member in members:
            for message in member.consume(100, seconds):
                if (error := message.error()) is not None:
                    # A broker may hear of a new topic after this; it is asked again.
                    if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise KafkaException(error)
                    LOG.warning("%s: %s", error.name(), error.str())
                    continue
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                headers = cast("list[Header] | None", message.headers())
                self.run.take(reader, topic, partition, offset, message.key(), message.value(), headers)

    def join(self, reader: str, topic: str, member: Consumer) -> None:
        """Until the member, alone in its group, has all partitions of `topic`."""
        began = -math.inf

        def assigned() -> bool:
            nonlocal began
            # The leader may learn of a new topic from one broker, ask another that does not know it yet, assign no
            # partitions, and notice no change later.
            if not member.assignment() and time.monotonic() > began + REJOIN_SECONDS:
                if began > 0:
                    LOG.warning("%s: nothing assigned in %d s, joins again", reader, REJOIN_SECONDS)
                    member.unsubscribe()
                member.subscribe([self.run.full(topic)])
                began = time.monotonic()
            self.poll(reader, member)
            return len(member.assignment()) == PARTITIONS

        until(assigned, "partitions are assigned")

    def commit(self, reader: str, *members: Consumer) -> None:
        """Where each of them is."""

        def moving(error: Exception) -> bool:
            return isinstance(error, KafkaException) and error.args[0].code() in MOVING

        until_committed(
            members, lambda member: member.commit(asynchronous=False), moving, lambda: self.poll(reader, *members)
        )

    def until_all(self, reader: str, topic: str, *members: Consumer) -> None:
        def found() -> bool:
            self.poll(reader, *members)
            return self.run.all(reader, topic)

        until(found, f"{reader} reads all of {topic}")

    def to_the_end(self, topic: str) -> None:
        """Without a group; what is there twice is found here."""
        full = self.run.full(topic)
        ends = [
            self.assigned.get_watermark_offsets(TopicPartition(full, one), timeout=60)[1] for one in range(PARTITIONS)
        ]
        partitions = [TopicPartition(full, one, OFFSET_BEGINNING) for one in range(PARTITIONS)]
        self.assigned.assign(partitions)

        def ended() -> bool:
            self.poll("assigned", self.assigned)
            return all(one.offset >= ends[one.partition] for one in self.assigned.position(partitions))

        until(ended, f"{topic} is read to its end")

    def codecs(self) -> None:
        self.create("codecs")
        for codec, producer in self.producers.items():
            for record in self.run.records("codecs", codec, range(60)):
                self.send(producer, record)
            assert producer.flush(60) == 0
        self.to_the_end("codecs")

    def transactions(self) -> None:
        self.create("transactions")
        member = self.member("committing")
        self.join("committing", "transactions", member)
        producer = self.producer("transactions", **{"transactional.id": self.run.full("transactions")})
        producer.init_transactions(60)
        for kind in ("first", "aborted", "second"):
            producer.begin_transaction()
            for record in self.run.records("transactions", kind, range(6), aborted=kind == "aborted"):
                self.send(producer, record)
            assert producer.flush(60) == 0
            if kind == "aborted":
                producer.abort_transaction(60)
                continue
            position = [TopicPartition(self.run.full("transactions"), 0, 0)]
            producer.send_offsets_to_transaction(position, member.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
        self.until_all("committing", "transactions", member)
        self.to_the_end("transactions")

    def group(self, protocol: str) -> None:
        """A member joins, and another one leaves."""
        self.create(protocol)
        producer = self.producers["gzip"]
        settings: dict[str, Any] = {"group.protocol": protocol}
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 500
        first, second = (self.member(protocol, **settings) for _ in range(2))

        def shared(*members: Consumer) -> bool:
            self.poll(protocol, *members)
            sizes = [len(member.assignment()) for member in members]
            return all(sizes) and sum(sizes) == PARTITIONS

        for kind, members in (("alone", (first,)), ("together", (first, second)), ("left", (second,))):
            if kind == "left":
                first.close()
            else:
                members[-1].subscribe([self.run.full(protocol)])
            until(partial(shared, *members), "each has a share")
            for record in self.run.records(protocol, kind, range(30)):
                self.send(producer, record)
            assert producer.flush(60) == 0
            self.until_all(protocol, protocol, *members)
            self.commit(protocol, *members)
        self.to_the_end(protocol)

    def deletion(self) -> None:
        self.create("short-lived")
        full = self.run.full("short-lived")
        for future in self.admin.delete_topics([full]).values():
            future.result(60)
        until(lambda: full not in self.admin.list_topics(timeout=30).topics, "the topic goes")

    def outage(self) -> None:
        self.create("outage")
        # A batch that comes after one whose leader was killed can be refused for ever.
        producer = self.producer("outage", **{"compression.type": "lz4", "max.in.flight": 1})
        member = self.member("outage", **{"heartbeat.interval.ms": 500})
        self.join("outage", "outage", member)
        for word, numbers in (("steady", range(60)), ("survived", range(60, 120))):
            stage(word)
            for record in self.run.records("outage", "paced", numbers):
                self.send(producer, record)
                self.poll("outage", member)
            assert producer.flush(180) == 0
            self.until_all("outage", "outage", member)
        self.to_the_end("outage")


def main() -> None:
    run = Run()
    program = Program(run)
    program.codecs()
    program.transactions()
    program.group("classic")
    program.group("consumer")
    program.deletion()
    program.outage()
    run.tell()
    stage("done")
    for one in program.keep:
        if isinstance(one, Consumer):
            one.close()


if __name__ == "__main__":
    main()
