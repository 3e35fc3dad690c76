"""Makes facts of the partitions and batches in Produce and Fetch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact
from kproxy.decoders.batches.batch import corrupt, first_size
from kproxy.decoders.schema import api_keys

OVERDUE_MS: Final = 100
"""A Fetch response is late if its latency exceeds the request's maxWaitMs by more than this; milliseconds."""
MILLISECOND: Final = 1_000_000
TINY_RECORDS: Final = 2
"""Maximum number of records in a tiny Produce request."""
TINY_BYTES: Final = 1024
"""A tiny Produce request has fewer bytes of records than this."""
WHOLE_RECORDS: Final = 3
"""First version of Fetch whose response has at least one whole batch, even one larger than the limits (KIP-74)."""


def _produce(decoded: DecodedExchange) -> list[Fact]:
    at, acks = decoded.at, decoded.request.get("acks")
    found: list[Fact] = []
    batches = []
    few = size = within = 0
    owner = None
    for name, index, records, head, answer, error in decoded.parts:
        length = len(records)
        size += length
        if error or not decoded.idle:
            found.append(
                facts.PartitionIO(
                    at, name, index, error, known(answer.get("baseOffset")), None, None,
                    known(answer.get("logStartOffset")), None, length, None, acks,
                )
            )  # fmt: skip
        if records:
            found += _corrupt(decoded, name, index, records)
        if head is None:
            few += TINY_RECORDS + 1 if records else 0
            continue
        first, crc, producer, epoch, sequence, count, transactional = head
        batches.append(
            facts.Append(
                at, name, index, error, known(answer.get("baseOffset")), acks, acks == 0 or bool(answer), first, count,
                crc, producer if producer >= 0 else None, epoch if epoch >= 0 else None,
                sequence if sequence >= 0 else None, transactional,
            )
        )  # fmt: skip
        if transactional:
            owner = known(producer)
            within += max(0, count)
        few += TINY_RECORDS + 1 if transactional or first != length else count
    tiny = few if 0 < few <= TINY_RECORDS and size < TINY_BYTES else 0
    found.append(facts.Produced(at, acks, size, tiny, owner, within, tuple(batches)))
    if acks == 0:
        found.append(facts.Unacknowledged(at, size))
    return found


def _fetch(decoded: DecodedExchange) -> Iterator[Fact]:
    wait = decoded.request.get("maxWaitMs", 0)
    if decoded.at.latency > (wait + OVERDUE_MS) * MILLISECOND and decoded.answered:
        yield facts.Overdue(decoded.at, wait)
    state = decoded.request.get("replicaState") or {}
    replica = known(decoded.request.get("replicaId", -1))
    replica = known(state.get("replicaId", -1)) if replica is None else replica
    asked = {
        (decoded.topic(topic), one.get("partition")): one
        for topic in listed(decoded.request, "topics")
        for one in listed(topic, "partitions")
    }
    for topic in listed(decoded.response, "responses"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index, records = one.get("partitionIndex", 0), one.get("records") or b""
            from_request = asked.get((name, index), {})
            yield facts.PartitionIO(
                decoded.at, name, index, one.get("errorCode", 0), known(from_request.get("fetchOffset")),
                known(one.get("highWatermark")), known(one.get("lastStableOffset")),
                known(one.get("logStartOffset")), known(from_request.get("currentLeaderEpoch")), len(records),
                replica, None,
            )  # fmt: skip
            if records and decoded.at.version < WHOLE_RECORDS:
                size = first_size(records)
                if size is None or size > len(records):
                    offset, most = (
                        known(from_request.get("fetchOffset")),
                        known(from_request.get("partitionMaxBytes")),
                    )
                    yield facts.CutRecord(decoded.at, name, index, offset, size, most)
            end = one.get("divergingEpoch")
            if end and end.get("endOffset", -1) >= 0:
                yield facts.EpochEnd(
                    decoded.at, name, index, known(end.get("epoch")), end["endOffset"],
                    known(from_request.get("fetchOffset")), replica, one.get("errorCode", 0),
                )  # fmt: skip
            yield from _corrupt(decoded, name, index, records)


def _corrupt(decoded: DecodedExchange, topic: str, partition: int, records: Any) -> list[Fact]:
    """Facts of the batches in a partition's records whose CRC is wrong."""
    if facts.Corrupt not in decoded.wanted:
        return []
    return [facts.Corrupt(decoded.at, topic, partition, offset, crc, size) for offset, crc, size in corrupt(records)]


_PRODUCED = frozenset({facts.PartitionIO, facts.Produced, facts.Unacknowledged, facts.Corrupt})
_FETCHED = frozenset({facts.PartitionIO, facts.EpochEnd, facts.Corrupt, facts.CutRecord, facts.Overdue})
READERS: Final = {api_keys.PRODUCE: Reading(_PRODUCED, _produce), api_keys.FETCH: Reading(_FETCHED, _fetch)}
