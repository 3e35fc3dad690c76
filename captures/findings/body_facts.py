"""Makes facts from the decoded bodies of Produce, Fetch and group requests.

`READERS` has a function for each API, and the kinds of facts that it makes; an API whose kinds no rule wants is not
decoded at all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import At, Fact
from kproxy.captures.findings.metadata_log import MetadataLog
from kproxy.captures.findings.produced import Part
from kproxy.captures.index.labels import id_text, topic_id, topic_name
from kproxy.decoders.batches.batch import corrupt, first_size
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.schema import api_keys

Values: TypeAlias = Mapping[str, Any]
OVERDUE_MS: Final = 100
"""Milliseconds after the maximum wait of a Fetch within which its response is not late."""
MILLISECOND: Final = 1_000_000
TINY_RECORDS: Final = 2
"""Maximum number of records of a tiny Produce request."""
TINY_BYTES: Final = 1024
"""Number of bytes of records from which a Produce request is not tiny."""
LONGEST: Final = 64
"""Maximum length in characters of the text that identifies a subscription."""
WHOLE_RECORDS: Final = 3
"""From this version on Fetch returns at least one whole batch, whatever its limits (KIP-74)."""
_EPOCHS: Final = {68: "consumer", 76: "share", 88: "streams"}
_COORDINATORS: Final = {0: "group", 1: "transaction", 2: "share"}
_SUBSCRIPTION: Final = struct.Struct(">hi")
"""The version of a ConsumerProtocolSubscription and the number of its topics, which follow."""


class Said(NamedTuple):
    """The bodies of an exchange, {} for an unreadable one. `answered`: whether the response could be read."""

    at: At
    request: Values
    response: Values
    answered: bool
    known: Knowledge
    errors: list[int]
    wanted: frozenset[type[Fact]]
    """The kinds of facts that some rule wants."""
    log: MetadataLog
    idle: bool = False
    """Whether no analyzer currently takes PartitionIO facts about a Produce without error."""
    size: int = 0
    """Size in bytes of the response's frame, length field included."""
    sound: bool = True
    """Whether both frames are complete and were decoded in the layout of their version."""
    parts: Sequence[Part] = ()
    """The partitions of a Produce."""

    @property
    def error(self) -> int:
        """The response's top-level error."""
        code = self.response.get("errorCode")
        return code if isinstance(code, int) else 0 if self.answered else self.errors[0] if self.errors else 0

    def topic(self, element: Values) -> str:
        return topic_name(element, self.known)


class Reading(NamedTuple):
    makes: frozenset[type[Fact]]
    read: Callable[[Said], Iterable[Fact]]


def _known(value: Any) -> int | None:
    """A number, or None if it is negative: Kafka uses negative numbers for unknown values."""
    return value if isinstance(value, int) and value >= 0 else None


def _listed(values: Values, name: str) -> list[Any]:
    """The elements of a list; [] if it is null or missing."""
    found = values.get(name)
    return found if isinstance(found, list) else []


# --- data ---


def _produce(said: Said) -> list[Fact]:
    at, acks = said.at, said.request.get("acks")
    found: list[Fact] = []
    batches = []
    few = size = within = 0
    owner = None
    for name, index, records, head, answer, error in said.parts:
        length = len(records)
        size += length
        if error or not said.idle:
            found.append(
                facts.PartitionIO(
                    at, name, index, error, _known(answer.get("baseOffset")), None, None,
                    _known(answer.get("logStartOffset")), None, length, None, acks,
                )
            )  # fmt: skip
        if records:
            found += _corrupt(said, name, index, records)
        if head is None:
            few += TINY_RECORDS + 1 if records else 0
            continue
        first, crc, producer, epoch, sequence, count, transactional = head
        batches.append(
            facts.Append(
                at, name, index, error, _known(answer.get("baseOffset")), acks, acks == 0 or bool(answer), first, count,
                crc, producer if producer >= 0 else None, epoch if epoch >= 0 else None,
                sequence if sequence >= 0 else None, transactional,
            )
        )  # fmt: skip
        if transactional:
            owner = _known(producer)
            within += max(0, count)
        few += TINY_RECORDS + 1 if transactional or first != length else count
    tiny = few if 0 < few <= TINY_RECORDS and size < TINY_BYTES else 0
    found.append(facts.Produced(at, acks, size, tiny, owner, within, tuple(batches)))
    if acks == 0:
        found.append(facts.Unacknowledged(at, size))
    return found


def _fetch(said: Said) -> Iterator[Fact]:
    wait = said.request.get("maxWaitMs", 0)
    if said.at.latency > (wait + OVERDUE_MS) * MILLISECOND and said.answered:
        yield facts.Overdue(said.at, wait)
    state = said.request.get("replicaState") or {}
    replica = _known(said.request.get("replicaId", -1))
    replica = _known(state.get("replicaId", -1)) if replica is None else replica
    asked = {
        (said.topic(topic), one.get("partition")): one
        for topic in _listed(said.request, "topics")
        for one in _listed(topic, "partitions")
    }
    for topic in _listed(said.response, "responses"):
        name = said.topic(topic)
        for one in _listed(topic, "partitions"):
            index, records = one.get("partitionIndex", 0), one.get("records") or b""
            from_request = asked.get((name, index), {})
            yield facts.PartitionIO(
                said.at, name, index, one.get("errorCode", 0), _known(from_request.get("fetchOffset")),
                _known(one.get("highWatermark")), _known(one.get("lastStableOffset")),
                _known(one.get("logStartOffset")), _known(from_request.get("currentLeaderEpoch")), len(records),
                replica, None,
            )  # fmt: skip
            if records and said.at.version < WHOLE_RECORDS:
                size = first_size(records)
                if size is None or size > len(records):
                    offset, most = (
                        _known(from_request.get("fetchOffset")),
                        _known(from_request.get("partitionMaxBytes")),
                    )
                    yield facts.CutRecord(said.at, name, index, offset, size, most)
            end = one.get("divergingEpoch")
            if end and end.get("endOffset", -1) >= 0:
                yield facts.EpochEnd(
                    said.at, name, index, _known(end.get("epoch")), end["endOffset"],
                    _known(from_request.get("fetchOffset")), replica, one.get("errorCode", 0),
                )  # fmt: skip
            yield from _corrupt(said, name, index, records)


def _corrupt(said: Said, topic: str, partition: int, records: Any) -> list[Fact]:
    """The batches of a partition whose CRC is wrong."""
    if facts.Corrupt not in said.wanted:
        return []
    return [facts.Corrupt(said.at, topic, partition, offset, crc, size) for offset, crc, size in corrupt(records)]


def _list_offsets(said: Said) -> Iterator[Fact]:
    asked = {
        (said.topic(topic), one.get("partitionIndex")): one.get("timestamp")
        for topic in _listed(said.request, "topics")
        for one in _listed(topic, "partitions")
    }
    for topic in _listed(said.response, "topics"):
        name = said.topic(topic)
        for one in _listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            yield facts.OffsetLookup(
                said.at, name, index, asked.get((name, index)), _known(one.get("offset")), one.get("errorCode", 0)
            )


def _epoch_ends(said: Said) -> Iterator[Fact]:
    asked = {
        (said.topic(topic), one.get("partition")): one.get("leaderEpoch")
        for topic in _listed(said.request, "topics")
        for one in _listed(topic, "partitions")
    }
    replica = _known(said.request.get("replicaId", -1))
    for topic in _listed(said.response, "topics"):
        name = said.topic(topic)
        for one in _listed(topic, "partitions"):
            index = one.get("partition", 0)
            yield facts.EpochEnd(
                said.at, name, index, _known(asked.get((name, index))), _known(one.get("endOffset")), None, replica,
                one.get("errorCode", 0),
            )  # fmt: skip


# --- cluster ---


def _api_versions(said: Said) -> Iterator[Fact]:
    software = f"{said.request.get('clientSoftwareName') or ''} {said.request.get('clientSoftwareVersion') or ''}"
    ranges = tuple(
        (one.get("apiKey", -1), one.get("minVersion", 0), one.get("maxVersion", -1))
        for one in _listed(said.response, "apiKeys")
    )
    yield facts.Offered(said.at, said.error, software.strip(), ranges)


def _metadata(said: Said) -> Iterator[Fact]:
    automatic = bool(said.request.get("allowAutoTopicCreation", True)) and said.request.get("topics") is not None
    brokers, topics = _listed(said.response, "brokers"), _listed(said.response, "topics")
    if said.answered:
        controller = _known(said.response.get("controllerId"))
        yield facts.ClusterView(said.at, said.response.get("clusterId"), len(brokers), len(topics), controller)
    for one in brokers:
        yield facts.Broker(said.at, one.get("nodeId", -1), one.get("host") or "", one.get("port", 0), one.get("rack"))
    for topic in topics:
        name, partitions = said.topic(topic), _listed(topic, "partitions")
        raw = topic_id(topic.get("topicId"))
        known = None if raw is None else id_text(raw)
        yield facts.TopicView(said.at, name, topic.get("errorCode", 0), len(partitions), automatic, known)
        for one in partitions:
            yield facts.PartitionView(
                said.at, name, one.get("partitionIndex", 0), one.get("errorCode", 0), _known(one.get("leaderId")),
                _known(one.get("leaderEpoch")), tuple(_listed(one, "replicaNodes")), tuple(_listed(one, "isrNodes")),
                tuple(_listed(one, "offlineReplicas")),
            )  # fmt: skip


def _find_coordinator(said: Said) -> Iterator[Fact]:
    kind = _COORDINATORS.get(said.request.get("keyType", 0), "")
    found = _listed(said.response, "coordinators") or [{**said.response, "key": said.request.get("key")}]
    for one in found:
        address = f"{one.get('host') or ''}:{one.get('port', 0)}"
        yield facts.Coordinator(
            said.at, kind, one.get("key") or "", _known(one.get("nodeId")), address, one.get("errorCode") or 0
        )


# --- groups ---


def _member(said: Said, what: str, **more: Any) -> facts.Member:
    asked, answered = said.request, said.response
    member = asked.get("memberId") or ""
    return facts.Member(
        said.at,
        asked.get("groupId") or "",
        more.get("kind", "classic"),
        what,
        member or answered.get("memberId") or "",
        not member,
        more.get("instance", asked.get("groupInstanceId")),
        _known(more.get("generation", asked.get("generationId"))),
        more.get("error", said.error),
        _known(asked.get("sessionTimeoutMs")),
        _known(asked.get("rebalanceTimeoutMs")),
        more.get("reason", asked.get("reason")),
        answered.get("protocolName") or asked.get("protocolName") or None,
        answered.get("leader") or None,
        more.get("subscription"),
        said.answered,
    )


def _join(said: Said) -> Iterator[Fact]:
    protocols = _listed(said.request, "protocols")
    names = ",".join(str(one.get("name")) for one in protocols)
    topics = _subscribed(protocols[0].get("metadata") or b"") if protocols else b""
    yield _member(
        said,
        "join",
        generation=said.response.get("generationId"),
        subscription=None if topics is None else f"{names} {blake2b(topics, digest_size=8).hexdigest()}",
    )


def _subscribed(metadata: Any) -> bytes | None:
    """The topics in a ConsumerProtocolSubscription as bytes, without owned partitions; None for other bytes."""
    data = bytes(metadata)
    if len(data) < _SUBSCRIPTION.size:
        return None
    version, count = _SUBSCRIPTION.unpack_from(data)
    at, names = _SUBSCRIPTION.size, []
    if not 0 <= version <= 9:
        return None
    while count > 0 and at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        names.append(data[at : at + 2 + size])
        at += 2 + size
        count -= 1
    return None if count else b"".join(sorted(names))


def _sync(said: Said) -> Iterator[Fact]:
    yield _member(said, "sync")


def _heartbeat(said: Said) -> Iterator[Fact]:
    yield _member(said, "heartbeat")


def _leave(said: Said) -> Iterator[Fact]:
    answers = _listed(said.response, "members")
    for place, one in enumerate(_listed(said.request, "members") or [said.request]):
        error = said.error or (answers[place].get("errorCode", 0) if place < len(answers) else 0)
        fact = _member(said, "leave", instance=one.get("groupInstanceId"), reason=one.get("reason"), error=error)
        yield fact._replace(member=one.get("memberId") or fact.member)


def _epoch_heartbeat(said: Said) -> Iterator[Fact]:
    epoch = said.request.get("memberEpoch", 0)
    what = "leave" if epoch < 0 else "join" if epoch == 0 else "heartbeat"
    names = said.request.get("subscribedTopicNames")
    yield _member(
        said,
        what,
        kind=_EPOCHS[said.at.key],
        generation=epoch if epoch < 0 else said.response.get("memberEpoch", epoch),
        instance=said.request.get("instanceId"),
        reason="static" if epoch == -2 else None,
        subscription=None if names is None else ",".join(sorted(map(str, names)))[:LONGEST],
    )


def _commit(said: Said) -> Iterator[Fact]:
    codes = {
        (said.topic(topic), one.get("partitionIndex")): one.get("errorCode", 0)
        for topic in _listed(said.response, "topics")
        for one in _listed(topic, "partitions")
    }
    generation = said.request.get("generationIdOrMemberEpoch")
    group, member = said.request.get("groupId") or "", said.request.get("memberId") or ""
    if member:
        error = next((code for code in codes.values() if code), 0)
        yield _member(said, "commit", generation=generation, error=error)
    for topic in _listed(said.request, "topics"):
        name = said.topic(topic)
        for one in _listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            offset = _known(one.get("committedOffset"))
            yield facts.Commit(said.at, group, member, name, index, offset, codes.get((name, index), 0))


def _offset_fetch(said: Said) -> Iterator[Fact]:
    groups = _listed(said.response, "groups") or [{**said.response, "groupId": said.request.get("groupId")}]
    for group in groups:
        for topic in _listed(group, "topics"):
            name = said.topic(topic)
            for one in _listed(topic, "partitions"):
                yield facts.Committed(
                    said.at, group.get("groupId") or "", name, one.get("partitionIndex", 0),
                    _known(one.get("committedOffset")), group.get("errorCode") or one.get("errorCode") or 0,
                )  # fmt: skip


# --- transactions ---


def _txn(said: Said, what: str, **more: Any) -> Iterator[Fact]:
    asked = said.request
    name = asked.get("transactionalId") or asked.get("v3AndBelowTransactionalId")
    if not name:
        return
    producer = said.response.get("producerId", asked.get("producerId", asked.get("v3AndBelowProducerId")))
    epoch = said.response.get("producerEpoch", asked.get("producerEpoch", asked.get("v3AndBelowProducerEpoch")))
    error = said.error or (said.errors[0] if said.errors else 0)
    yield facts.Txn(
        said.at, name, what, _known(producer), _known(epoch), error, _known(asked.get("transactionTimeoutMs")),
        more.get("committed"),
    )  # fmt: skip


def _init(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "init")


def _add_partitions(said: Said) -> Iterator[Fact]:
    for one in _listed(said.request, "transactions"):
        yield from _txn(said._replace(request=one), "partitions")
    yield from _txn(said, "partitions")


def _add_offsets(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "offsets")


def _end(said: Said) -> Iterator[Fact]:
    yield from _txn(said, "end", committed=bool(said.request.get("committed")))


# --- secrets ---


def _token_made(said: Said) -> Iterator[Fact]:
    if said.response.get("hmac"):
        yield facts.Secret(said.at, "the HMAC of a delegation token")


def _scram_changed(said: Said) -> Iterator[Fact]:
    if _listed(said.request, "upsertions"):
        yield facts.Secret(said.at, "a salted SCRAM password")


_MEMBER = frozenset({facts.Member})
_SECRET = frozenset({facts.Secret})
_PRODUCED = frozenset({facts.PartitionIO, facts.Produced, facts.Unacknowledged, facts.Corrupt})
_FETCHED = frozenset({facts.PartitionIO, facts.EpochEnd, facts.Corrupt, facts.CutRecord, facts.Overdue})
_TXN = frozenset({facts.Txn})
READERS: Final[dict[int, Reading]] = {
    api_keys.PRODUCE: Reading(_PRODUCED, _produce),
    api_keys.FETCH: Reading(_FETCHED, _fetch),
    2: Reading(frozenset({facts.OffsetLookup}), _list_offsets),
    api_keys.METADATA: Reading(
        frozenset({facts.Broker, facts.ClusterView, facts.TopicView, facts.PartitionView}), _metadata
    ),
    api_keys.OFFSET_COMMIT: Reading(frozenset({facts.Member, facts.Commit}), _commit),
    9: Reading(frozenset({facts.Committed}), _offset_fetch),
    10: Reading(frozenset({facts.Coordinator}), _find_coordinator),
    api_keys.JOIN_GROUP: Reading(_MEMBER, _join),
    api_keys.HEARTBEAT: Reading(_MEMBER, _heartbeat),
    api_keys.LEAVE_GROUP: Reading(_MEMBER, _leave),
    api_keys.SYNC_GROUP: Reading(_MEMBER, _sync),
    api_keys.API_VERSIONS: Reading(frozenset({facts.Offered}), _api_versions),
    23: Reading(frozenset({facts.EpochEnd}), _epoch_ends),
    22: Reading(_TXN, _init),
    24: Reading(_TXN, _add_partitions),
    25: Reading(_TXN, _add_offsets),
    26: Reading(_TXN, _end),
    38: Reading(_SECRET, _token_made),
    51: Reading(_SECRET, _scram_changed),
    **dict.fromkeys(_EPOCHS, Reading(_MEMBER, _epoch_heartbeat)),
}
