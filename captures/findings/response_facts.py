"""Makes facts of whole responses: missing or repeated partitions, and bytes that consumers fetched by rack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.decoded_exchange import DecodedExchange, Reading, listed
from kproxy.captures.findings.facts import Fact
from kproxy.decoders.schema import api_keys

FULL: Final = frozenset({0, -1})
"""Session epochs of full Fetch requests, whose response must have all partitions of the request (KIP-227)."""
POSSIBLE: Final = 1 << 20
"""Upper bound of plausible partition numbers; a request that reaches it is ignored as broken."""
PARTS: Final = 1_000
"""Maximum number of partitions that a FetchedFrom fact lists."""


class Lists(NamedTuple):
    """The names of the fields (topics, partitions, partition number) in request and response of an API."""

    asked: tuple[str, str, str]
    answered: tuple[str, str, str]


PARTITIONS: Final = {
    api_keys.PRODUCE: Lists(("topicData", "partitionData", "index"), ("responses", "partitionResponses", "index")),
    api_keys.FETCH: Lists(("topics", "partitions", "partition"), ("responses", "partitions", "partitionIndex")),
    2: Lists(("topics", "partitions", "partitionIndex"), ("topics", "partitions", "partitionIndex")),
    api_keys.OFFSET_COMMIT: Lists(
        ("topics", "partitions", "partitionIndex"), ("topics", "partitions", "partitionIndex")
    ),
    23: Lists(("topics", "partitions", "partition"), ("topics", "partitions", "partition")),
}
"""The APIs whose response must list each partition of the request, with the names of the fields."""


def _pairs(decoded: DecodedExchange, values: Any, names: tuple[str, str, str]) -> list[tuple[str, Any]]:
    """(topic, partition number) of each partition in a body."""
    topics, partitions, number = names
    return [
        (decoded.topic(topic), one.get(number)) for topic in listed(values, topics) for one in listed(topic, partitions)
    ]


def _number(values: Any, names: tuple[str, str, str]) -> int:
    number = 0
    for topic in values.get(names[0]) or ():
        number += len(topic.get(names[1]) or ())
    return number


def _partitions(decoded: DecodedExchange) -> Iterator[Fact]:
    """Yields a fact if the response lacks partitions of the request, and one if it repeats some.

    Compares only the numbers of partitions at first, which is cheap. So a response that lacks one partition and repeats
    another gives no fact.
    """
    lists = PARTITIONS[decoded.at.key]
    if not decoded.sound or not decoded.answered or decoded.error:
        return
    if _number(decoded.request, lists.asked) == _number(decoded.response, lists.answered):
        return
    asked, answered = _pairs(decoded, decoded.request, lists.asked), _pairs(decoded, decoded.response, lists.answered)
    if all(name and isinstance(number, int) and 0 <= number < POSSIBLE for name, number in asked):
        yield from _compared(decoded, asked, answered, lambda one: f"{one[0]}-{one[1]}")


def _compared(
    decoded: DecodedExchange, asked: Iterable[Any], answered: Iterable[Any], name: Callable[[Any], str] = str
) -> Iterator[Fact]:
    wanted, counts = dict.fromkeys(asked), Counter(answered)
    if counts and not wanted.keys() & counts.keys():
        # nothing in common: the bodies belong to different exchanges, or one has names of topics and the other has ids
        return
    for twice, found in (
        (False, [one for one in wanted if one not in counts]),
        (True, [one for one, count in counts.items() if count > 1]),
    ):
        if found:
            yield facts.Incomplete(decoded.at, name(found[0]), len(found), len(wanted), counts.total(), twice)


def _produce(decoded: DecodedExchange) -> Iterable[Fact]:
    if not decoded.request.get("acks") or len(decoded.parts) == _number(
        decoded.response, PARTITIONS[api_keys.PRODUCE].answered
    ):
        return ()
    return _partitions(decoded)


def _fetch(decoded: DecodedExchange) -> Iterator[Fact]:
    throttled = decoded.response.get("throttleTimeMs", 0) > 0 and not listed(decoded.response, "responses")
    if decoded.request.get("sessionEpoch", -1) in FULL and not throttled and facts.Incomplete in decoded.wanted:
        yield from _partitions(decoded)
    if facts.FetchedFrom in decoded.wanted and decoded.answered:
        yield from _fetched_from(decoded)


def _fetched_from(decoded: DecodedExchange) -> Iterator[Fact]:
    if (decoded.request.get("replicaState") or {}).get("replicaId", -1) >= 0 or decoded.request.get(
        "replicaId", -1
    ) >= 0:
        return
    sizes: list[tuple[str, int, int]] = []
    preferred = False
    for topic in listed(decoded.response, "responses"):
        name = ""
        for one in listed(topic, "partitions"):
            preferred |= one.get("preferredReadReplica", -1) >= 0
            records = one.get("records")
            if records and len(sizes) < PARTS:
                name = name or decoded.topic(topic)
                sizes.append((name, one.get("partitionIndex", 0), len(records)))
    if sizes or preferred:
        yield facts.FetchedFrom(decoded.at, decoded.request.get("rackId") or "", preferred, tuple(sizes))


def _metadata(decoded: DecodedExchange) -> Iterator[Fact]:
    topics = decoded.request.get("topics")
    if decoded.sound and decoded.answered and not decoded.error and topics and all(one.get("name") for one in topics):
        found: list[Hashable] = [one.get("name") for one in listed(decoded.response, "topics")]
        yield from _compared(decoded, (one["name"] for one in topics), found)


_INCOMPLETE: Final = frozenset({facts.Incomplete})
READERS: Final = {key: Reading(_INCOMPLETE, _partitions) for key in PARTITIONS} | {
    api_keys.PRODUCE: Reading(_INCOMPLETE, _produce),
    api_keys.FETCH: Reading(_INCOMPLETE | {facts.FetchedFrom}, _fetch),
    api_keys.METADATA: Reading(_INCOMPLETE, _metadata),
}
