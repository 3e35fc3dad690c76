"""Makes facts about the offsets of logs, from ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, known, listed
from kproxy.captures.findings.facts import Fact


def _list_offsets(decoded: DecodedExchange) -> Iterator[Fact]:
    asked = {
        (decoded.topic(topic), one.get("partitionIndex")): one.get("timestamp")
        for topic in listed(decoded.request, "topics")
        for one in listed(topic, "partitions")
    }
    for topic in listed(decoded.response, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index = one.get("partitionIndex", 0)
            yield facts.OffsetLookup(
                decoded.at, name, index, asked.get((name, index)), known(one.get("offset")), one.get("errorCode", 0)
            )


def _epoch_ends(decoded: DecodedExchange) -> Iterator[Fact]:
    asked = {
        (decoded.topic(topic), one.get("partition")): one.get("leaderEpoch")
        for topic in listed(decoded.request, "topics")
        for one in listed(topic, "partitions")
    }
    replica = known(decoded.request.get("replicaId", -1))
    for topic in listed(decoded.response, "topics"):
        name = decoded.topic(topic)
        for one in listed(topic, "partitions"):
            index = one.get("partition", 0)
            yield facts.EpochEnd(
                decoded.at, name, index, known(asked.get((name, index))), known(one.get("endOffset")), None, replica,
                one.get("errorCode", 0),
            )  # fmt: skip


READERS: Final = {
    2: Reading(frozenset({facts.OffsetLookup}), _list_offsets),
    23: Reading(frozenset({facts.EpochEnd}), _epoch_ends),
}
