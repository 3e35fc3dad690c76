"""Makes facts of share groups (repeated deliveries, records not accepted) and of Streams groups (status)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, listed
from kproxy.captures.findings.facts import Fact

AGAIN: Final = 2
"""A record with at least this delivery count was delivered before."""
POSSIBLE: Final = 100
"""Higher delivery counts are ignored as broken: brokers allow limits of 10 or a little more."""
LONGEST: Final = 1 << 20
"""Longer runs of offsets in one delivery are ignored as broken."""
NOT_ACCEPTED: Final = {2: "release", 3: "reject"}
"""The acknowledgement types (KIP-932) that mean that a member did not accept a record, with their names."""
STREAMS_ERRORS: Final = frozenset({130, 131, 132})
"""Error codes about the topology of a Streams member (KIP-1071)."""
MOST: Final = 1_000
"""Maximum number of facts of each type that one exchange gives."""


def _share_fetch(decoded: DecodedExchange) -> Iterator[Fact]:
    yield from _released(decoded)
    group, lock, made = decoded.request.get("groupId") or "", decoded.response.get("acquisitionLockTimeoutMs"), 0
    for topic in listed(decoded.response, "responses"):
        for one in listed(topic, "partitions"):
            for run in listed(one, "acquiredRecords"):
                length = run.get("lastOffset", -1) - run.get("firstOffset", 0)
                if AGAIN <= run.get("deliveryCount", 0) <= POSSIBLE and 0 <= length < LONGEST and made < MOST:
                    made += 1
                    yield facts.Redelivered(
                        decoded.at, group, decoded.topic(topic), one.get("partitionIndex", 0),
                        run.get("firstOffset", 0),
                        run.get("lastOffset", 0), run["deliveryCount"], lock,
                    )  # fmt: skip


def _released(decoded: DecodedExchange) -> Iterator[Fact]:
    """Yields a fact for each run of records that a ShareFetch or ShareAcknowledge request does not accept."""
    group, made = decoded.request.get("groupId") or "", 0
    errors = {
        (decoded.topic(topic), one.get("partitionIndex")): one.get("acknowledgeErrorCode", one.get("errorCode", 0))
        for topic in listed(decoded.response, "responses")
        for one in listed(topic, "partitions")
    }
    for topic in listed(decoded.request, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            for batch in listed(one, "acknowledgementBatches"):
                for first, last, how in _runs(batch):
                    if made < MOST:
                        made += 1
                        error = decoded.error or errors.get((name, index), 0)
                        yield facts.Released(decoded.at, group, name, index, first, last, how, error)


def _runs(batch: Any) -> Iterator[tuple[int, int, str]]:
    """Yields (first offset, last offset, "release" or "reject") of each run of records in a batch that is not accepted.

    A batch has one acknowledgement type for all records, or one for each record.
    """
    first, types = batch.get("firstOffset", 0), listed(batch, "acknowledgeTypes")
    if len(types) == 1:
        if types[0] in NOT_ACCEPTED:
            yield first, batch.get("lastOffset", first), NOT_ACCEPTED[types[0]]
        return
    for kind, run in groupby(types):
        end = first + len(list(run))
        if kind in NOT_ACCEPTED:
            yield first, end - 1, NOT_ACCEPTED[kind]
        first = end


def _streams(decoded: DecodedExchange) -> Iterator[Fact]:
    group = decoded.request.get("groupId") or ""
    if decoded.error in STREAMS_ERRORS:
        yield facts.StreamsStatus(decoded.at, group, None, decoded.error, decoded.response.get("errorMessage") or "")
    for one in listed(decoded.response, "status")[:MOST]:
        yield facts.StreamsStatus(decoded.at, group, one.get("statusCode", 0), 0, one.get("statusDetail") or "")


_RELEASED: Final = frozenset({facts.Released})
READERS: Final = {
    78: Reading(_RELEASED | {facts.Redelivered}, _share_fetch),
    79: Reading(_RELEASED, _released),
    88: Reading(frozenset({facts.StreamsStatus}), _streams),
}
