"""Collects the producers and consumers of each topic, with their settings as far as messages show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.captures.analysis.offsets import lag_json
from kproxy.captures.analysis.seen import Client, Seen, Values
from kproxy.captures.analysis.traffic import PRODUCER
from kproxy.captures.index.labels import id_text, topic_id
from kproxy.captures.lag import Lag, PartitionLag
from kproxy.captures.partitioner import Keys
from kproxy.decoders.batches.batch import Batch, parse
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.records.counting import record_count
from kproxy.decoders.schema import api_keys

MOST: Final = 100_000
"""Maximum number of topics."""
MOST_USERS: Final = 400_000
"""Maximum number of the producers and consumers of all topics together."""
TRIED: Final = 1 << 20
"""Maximum decompressed size in bytes of a batch whose keys are used to infer the partitioner; larger ones are slow."""
FOLLOWER, CONSUMER, DEBUGGING, SHARE = "follower", "consumer", "debugging", "share consumer"


@dataclass(slots=True, eq=False)
class User:
    """The fields shared by producers and consumers of a topic; `first` and `last` are exchange numbers."""

    client: Client
    first: int
    last: int = 0
    requests: int = 0
    records: int = 0
    bytes: int = 0
    versions: set[int] = field(default_factory=set)
    errors: Counter[int] = field(default_factory=Counter)
    error_exchanges: dict[int, int] = field(default_factory=dict)
    """By error code, the number of the first exchange with it."""

    def failed(self, code: int, exchange: int) -> None:
        """Count an error code in an exchange."""
        self.errors[code] += 1
        self.error_exchanges.setdefault(code, exchange)

    def line(self) -> dict[str, Any]:
        return {
            "client_id": self.client.client_id,
            "host": self.client.host,
            "software": self.client.software or None,
            "requests": self.requests,
            "records": self.records,
            "bytes": self.bytes,
            "versions": sorted(self.versions),
            "errors": dict(sorted(self.errors.items())),
            "error_exchanges": dict(sorted(self.error_exchanges.items())),
            "first_exchange": self.first,
            "last_exchange": self.last,
        }


@dataclass(slots=True, eq=False)
class Producer(User):
    """A client that produces to a topic; `bytes` and `records` count its batches as they were sent, compressed."""

    batches: int = 0
    acks: set[int] = field(default_factory=set)
    compression: Counter[str] = field(default_factory=Counter)
    magic: set[int] = field(default_factory=set)
    idempotent: bool = False
    transactional_ids: set[str] = field(default_factory=set)
    keys: Keys = field(default_factory=Keys)
    partitioner: str | None = None

    def line(self) -> dict[str, Any]:
        return User.line(self) | {
            "batches": self.batches,
            "records_per_batch": round(self.records / self.batches, 1) if self.batches else None,
            "acks": sorted(self.acks),
            "compression": dict(self.compression.most_common()),
            "magic": sorted(self.magic),
            "idempotent": self.idempotent,
            "transactional_ids": sorted(self.transactional_ids),
            "partitioner": self.partitioner,
        }


@dataclass(slots=True, eq=False)
class Consumer(User):
    """A client that fetches from a topic: a consumer, a follower (with its broker id), or a debugging tool (replica id
    -2).
    """

    role: str = CONSUMER
    replica: int = -1
    isolation: set[int] = field(default_factory=set)

    def line(self) -> dict[str, Any]:
        return User.line(self) | {
            "role": self.role,
            "replica_id": self.replica if self.role == FOLLOWER else None,
            "groups": sorted(self.client.groups),
            "isolation": ["read_committed" if level else "read_uncommitted" for level in sorted(self.isolation)],
        }


@dataclass(slots=True, eq=False)
class Topic:
    """One topic; `partitions` are those that Metadata lists or that exchanges use."""

    name: str
    topic_id: str | None = None
    partitions: set[int] = field(default_factory=set)
    producers: dict[Client, Producer] = field(default_factory=dict)
    consumers: dict[tuple[Client, int], Consumer] = field(default_factory=dict)

    def line(self, found: Mapping[str, list[PartitionLag]], lag: Lag) -> dict[str, Any]:
        """The JSON object of the topic; `found` has the lag of each group that committed offsets of the topic."""
        return {
            "topic": self.name,
            "topic_id": self.topic_id,
            "partitions": len(self.partitions),
            "records_in": sum(one.records for one in self.producers.values()),
            "bytes_in": sum(one.bytes for one in self.producers.values()),
            "records_out": sum(one.records for one in self.consumers.values()),
            "bytes_out": sum(one.bytes for one in self.consumers.values()),
            "producers": [one.line() for one in self.producers.values()],
            "consumers": [one.line() for one in self.consumers.values()],
            "groups": [{"group": group, "lag": lag_json(lags, group, lag)} for group, lags in sorted(found.items())],
        }


class Topics:
    """Collects topics from exchanges; memory grows only with the number of topics and users."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._users = 0
        self._lag = Lag()

    def add(self, seen: Seen) -> None:
        self._lag = seen.lag
        match seen.key:
            case 0:
                self._produce(seen)
            case 1 | 78:
                self._fetch(seen)
            case 3:
                self._metadata(seen)

    def result(self) -> list[Topic]:
        """The topics that were used, those with the most bytes first, with the partitioners inferred for their
        producers.
        """
        used = [one for one in self._topics.values() if one.producers or one.consumers]
        for topic in used:
            for producer in topic.producers.values():
                producer.partitioner = producer.keys.fits(len(topic.partitions))
        return sorted(used, key=lambda one: (-_bytes(one), one.name))

    def lines(self) -> Iterator[dict[str, Any]]:
        lag = self._lag.by_topic()
        for topic in self.result():
            yield {"schema": "kproxy.topic/1", **topic.line(lag.get(topic.name, {}), self._lag)}

    # --- one function for each message ---

    def _metadata(self, seen: Seen) -> None:
        for element in seen.response.get("topics") or ():
            if name := element.get("name"):
                topic = self._topic(name)
                raw = topic_id(element.get("topicId"))
                topic.topic_id = topic.topic_id if raw is None else id_text(raw)
                topic.partitions.update(one["partitionIndex"] for one in element.get("partitions") or ())

    def _produce(self, seen: Seen) -> None:
        codes = _codes(seen, "partitionResponses", "index")
        for element in seen.request.get("topicData") or ():
            topic = self._topic(seen.topic(element))
            producer = self._user(topic.producers, seen.client, Producer, seen)
            producer.acks.add(seen.request["acks"])
            if transactional_id := seen.request.get("transactionalId"):
                producer.transactional_ids.add(transactional_id)
            for partition in element["partitionData"]:
                index, records = partition["index"], partition.get("records")
                topic.partitions.add(index)
                if code := codes.get((topic.name, index)):
                    producer.failed(code, seen.number)
                if records is not None:
                    before = producer.records, producer.bytes
                    _produced(producer, records, index)
                    _moved(seen, PRODUCER, producer, before, (topic.name, index))

    def _fetch(self, seen: Seen) -> None:
        role, replica = fetch_role(seen)
        answered: dict[str, list[Values]] = {}
        for element in seen.response.get("responses") or ():
            answered.setdefault(seen.topic(element), []).extend(element.get("partitions") or ())
        names = {seen.topic(element): None for element in seen.request.get("topics") or ()} | dict.fromkeys(answered)
        for name in names:
            topic = self._topic(name)
            consumer = self._user(topic.consumers, (seen.client, replica), Consumer, seen)
            consumer.role, consumer.replica = role, replica
            if "isolationLevel" in seen.request:
                consumer.isolation.add(seen.request["isolationLevel"])
            if seen.key == api_keys.SHARE_FETCH and seen.request.get("groupId"):
                seen.client.groups.add(seen.request["groupId"])
            for partition in answered.get(name, ()):
                if code := partition.get("errorCode"):
                    consumer.failed(code, seen.number)
                if records := partition.get("records"):
                    before = consumer.records, consumer.bytes
                    for batch in parse(records, check=False).batches:
                        consumer.bytes += batch.end - batch.start
                        consumer.records += 0 if batch.header.get("isControl") else _count(records, batch)
                    _moved(seen, role, consumer, before, (topic.name, partition["partitionIndex"]))

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = Topic(name)
            if len(self._topics) < MOST:
                self._topics[name] = topic
        return topic

    def _user(self, users: dict[Any, Any], key: Any, make: Any, seen: Seen) -> Any:
        user = users.get(key)
        if user is None:
            user = make(seen.client, seen.number)
            if self._users < MOST_USERS:
                users[key] = user
                self._users += 1
        user.requests += 1
        user.last = seen.number
        if seen.exchange.api_version is not None:
            user.versions.add(seen.exchange.api_version)
        return user


def fetch_role(seen: Seen) -> tuple[str, int]:
    """(role, replica id) of the sender of a Fetch request: a follower's id is its broker's, a debugging tool's is -2.

    KIP-903 moved the replica id to another field.
    """
    if seen.key == api_keys.SHARE_FETCH:
        return SHARE, -1
    state = seen.request.get("replicaState") or {}
    replica = seen.request.get("replicaId", -1)
    replica = state.get("replicaId", -1) if replica == -1 else replica
    return (FOLLOWER if replica >= 0 else DEBUGGING if replica == -2 else CONSUMER), replica


def _produced(producer: Producer, records: Any, partition: int) -> None:
    for batch in parse(records, check=False).batches:
        producer.batches += 1
        producer.bytes += batch.end - batch.start
        producer.compression[batch.header["compression"]] += 1
        producer.magic.add(batch.header["magic"])
        producer.idempotent = producer.idempotent or batch.header.get("producerId", -1) >= 0
        if not producer.keys.full:
            for _, _, key, _, _ in open_batch(records, batch, limit=TRIED).records:
                if key is not None:
                    producer.keys.add(key, partition)
        producer.records += _count(records, batch)


def _moved(seen: Seen, role: str, user: User, before: tuple[int, int], place: tuple[str, int]) -> None:
    """Add to a partition's traffic the records and bytes by which `user` has grown since `before`."""
    moved = user.records - before[0], user.bytes - before[1]
    seen.traffic.add(*place, (role, seen.client.client_id, seen.client.host), moved, seen.time, seen.number)


def _count(records: Any, batch: Batch) -> int:
    """Number of records in a batch: from its header, or counted in a compressed message set."""
    declared = batch.header.get("recordCount")
    return record_count(records[batch.start : batch.end])[0] if declared is None else max(0, int(declared))


def _codes(seen: Seen, partitions: str, index: str) -> dict[tuple[str, int], int]:
    """Error codes in a response by (topic, partition); `partitions` and `index` name the fields."""
    return {
        (seen.topic(element), one[index]): one["errorCode"]
        for element in seen.response.get("responses") or ()
        for one in element.get(partitions) or ()
        if one.get("errorCode")
    }


def _bytes(topic: Topic) -> int:
    return sum(one.bytes for one in (*topic.producers.values(), *topic.consumers.values()))
