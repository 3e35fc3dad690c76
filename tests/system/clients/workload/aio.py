"""aiokafka: codecs, transactions, a group, topics that come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError

from tests.system.clients.workload import CODECS, COPIES, PARTITIONS, PATIENCE, Record, Run, stage

LOG = logging.getLogger(__name__)

# What a member gets that commits while its group moves.
MOVING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await condition():
                pass
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE} s: {what}") from None


class Program:
    def __init__(self, run: Run) -> None:
        self.run = run
        access = run.access
        self.common: dict[str, Any] = {
            "bootstrap_servers": access.bootstrap,
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
        self.admin = AIOKafkaAdminClient(**self.common, client_id="aio-admin")
        self.keep: list[Callable[[], Awaitable[None]]] = [self.admin.close]
        self.producers: dict[str, AIOKafkaProducer] = {}

    async def start(self) -> None:
        await self.admin.start()
        self.assigned = await self.member([], None)
        self.keep.append(self.assigned.stop)
        for codec in CODECS:
            self.producers[codec] = await self.producer(codec, compression_type=None if codec == "none" else codec)

    async def create(self, topic: str) -> None:
        full = self.run.full(topic)
        await self.admin.create_topics([NewTopic(full, PARTITIONS, COPIES)])

        async def led() -> bool:
            (found,) = await self.admin.describe_topics([full])
            partitions = found["partitions"]
            return len(partitions) == PARTITIONS and all(one["leader"] > 0 for one in partitions)

        await until(led, f"{topic} has leaders")

    async def producer(self, name: str, **more: Any) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self.common, client_id=f"aio-{name}", enable_idempotence=True, linger_ms=5, **more
        )
        await producer.start()
        self.keep.append(producer.stop)
        return producer

    async def member(self, topics: list[str], group: str | None, **more: Any) -> AIOKafkaConsumer:
        member = AIOKafkaConsumer(
            *map(self.run.full, topics),
            **self.common,
            client_id=f"aio-{group}",
            group_id=group and self.run.full(group),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            # A leader of a group that hears of a topic before its partitions assigns none until it asks again.
            metadata_max_age_ms=1000,
            **more,
        )
        await member.start()
        return member

    async def send(self, producer: AIOKafkaProducer, record: Record) -> asyncio.Future[Any]:
        sent: asyncio.Future[Any] = await producer.send(
            self.run.full(record.topic), record.value, record.key, record.partition, headers=list(record.headers)
        )
        return sent

    async def send_all(
        self, producer: AIOKafkaProducer, topic: str, kind: str, numbers: range, *, aborted: bool = False
    ) -> None:
        records = self.run.records(topic, kind, numbers, aborted=aborted)
        for sent in [await self.send(producer, record) for record in records]:
            await sent

    async def poll(self, reader: str, *members: AIOKafkaConsumer) -> None:
        for member in members:
            for records in (await member.getmany(timeout_ms=50)).values():
                for one in records:
                    self.run.take(reader, one.topic, one.partition, one.offset, one.key, one.value, one.headers)

    async def commit(self, reader: str, *members: AIOKafkaConsumer) -> None:
        """Where each of them is; polling ends what moves the group."""

        async def committed(member: AIOKafkaConsumer) -> bool:
            try:
                await member.commit()
            except MOVING as error:
                LOG.warning("rebalance: %r", error)
                await self.poll(reader, *members)
                return False
            return True

        for member in members:
            await until(partial(committed, member), "positions are committed")

    async def until_all(self, reader: str, topic: str, *members: AIOKafkaConsumer) -> None:
        async def found() -> bool:
            await self.poll(reader, *members)
            return self.run.all(reader, topic)

        await until(found, f"{reader} reads all of {topic}")

    async def until_assigned(self, reader: str, *members: AIOKafkaConsumer) -> None:
        async def shared() -> bool:
            await self.poll(reader, *members)
            sizes = [len(member.assignment()) for member in members]
            return all(sizes) and sum(sizes) == PARTITIONS

        await until(shared, f"each of {reader} has a share")

    async def to_the_end(self, topic: str) -> None:
        """Without a group; what is there twice is found here."""
        partitions = [TopicPartition(self.run.full(topic), number) for number in range(PARTITIONS)]
        self.assigned.assign(partitions)
        ends = await self.assigned.end_offsets(partitions)
        await self.assigned.seek_to_beginning(*partitions)

        async def ended() -> bool:
            await self.poll("assigned", self.assigned)
            # The end that it was told lies before a transaction whose markers are still on their way.
            read = self.run.all("assigned", topic)
            return read and all([await self.assigned.position(one) >= ends[one] for one in partitions])

        await until(ended, f"{topic} is read to its end")

    async def codecs(self) -> None:
        await self.create("codecs")
        for codec, producer in self.producers.items():
            await self.send_all(producer, "codecs", codec, range(60))
        await self.to_the_end("codecs")

    async def transactions(self) -> None:
        await self.create("transactions")
        producer = await self.producer("transactions", transactional_id=self.run.full("transactions"))
        for kind in ("first", "aborted", "second"):
            await producer.begin_transaction()
            await self.send_all(producer, "transactions", kind, range(6), aborted=kind == "aborted")
            if kind == "aborted":
                await producer.abort_transaction()
                continue
            nothing = {TopicPartition(self.run.full("transactions"), 0): 0}
            await producer.send_offsets_to_transaction(nothing, self.run.full("committing"))
            await producer.commit_transaction()
        await self.to_the_end("transactions")

    async def group(self) -> None:
        """A member joins, and another one leaves."""
        await self.create("classic")
        producer = self.producers["gzip"]
        members: list[AIOKafkaConsumer] = []
        for kind in ("alone", "together", "left"):
            if kind == "left":
                await members.pop(0).stop()
            else:
                members.append(await self.member(["classic"], "classic", heartbeat_interval_ms=500))
            await self.until_assigned("classic", *members)
            await self.send_all(producer, "classic", kind, range(30))
            await self.until_all("classic", "classic", *members)
            await self.commit("classic", *members)
        self.keep.append(members[0].stop)
        await self.to_the_end("classic")

    async def deletion(self) -> None:
        await self.create("short-lived")
        full = self.run.full("short-lived")
        await self.admin.delete_topics([full])

        async def gone() -> bool:
            return full not in await self.admin.list_topics()

        await until(gone, "the topic goes")

    async def outage(self) -> None:
        await self.create("outage")
        producer = self.producers["lz4"]
        member = await self.member(["outage"], "outage", heartbeat_interval_ms=500)
        self.keep.append(member.stop)
        await self.until_assigned("outage", member)
        for word, numbers in (("steady", range(60)), ("survived", range(60, 120))):
            await asyncio.to_thread(stage, word)
            sent = []
            for record in self.run.records("outage", "paced", numbers):
                sent.append(await self.send(producer, record))
                await self.poll("outage", member)
            for one in sent:
                await one
            await self.until_all("outage", "outage", member)
        await self.to_the_end("outage")


async def main() -> None:
    run = Run()
    program = Program(run)
    await program.start()
    await program.codecs()
    await program.transactions()
    await program.group()
    await program.deletion()
    await program.outage()
    run.tell()
    await asyncio.to_thread(stage, "done")
    for close in reversed(program.keep):
        await close()


if __name__ == "__main__":
    asyncio.run(main())
