"""Makes facts about whole responses: partitions that are missing or repeated, and the rack that records come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from kproxy.captures.findings import facts
from kproxy.captures.findings.facts import Fact
from kproxy.captures.findings.said import Reading, Said, listed
from kproxy.decoders.schema import api_keys

FULL: Final = frozenset({0, -1})
"""Epochs of fetch sessions with which a response has all partitions of the request (KIP-227)."""
POSSIBLE: Final = 1 << 20
"""Partition numbers from this one on are invalid and ignored: topics have fewer partitions."""
PARTS: Final = 1_000
"""Maximum number of partitions in a fact."""


class Lists(NamedTuple):
    """Names of the fields in which request and response of an API list topics and partitions."""

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
"""APIs whose response lists each partition of the request."""


def _pairs(said: Said, values: Any, names: tuple[str, str, str]) -> list[tuple[str, Any]]:
    """(topic, partition) of all entries of a body."""
    topics, partitions, number = names
    return [
        (said.topic(topic), one.get(number)) for topic in listed(values, topics) for one in listed(topic, partitions)
    ]


def _number(values: Any, names: tuple[str, str, str]) -> int:
    number = 0
    for topic in values.get(names[0]) or ():
        number += len(topic.get(names[1]) or ())
    return number


def _partitions(said: Said) -> Iterator[Fact]:
    """A fact if partitions of the request are missing in the response, or are in it twice.

    Only the numbers of partitions are compared at first, because that is cheap: a response that lacks one partition and
    repeats another gives no fact.
    """
    lists = PARTITIONS[said.at.key]
    if not said.sound or not said.answered or said.error:
        return
    if _number(said.request, lists.asked) == _number(said.response, lists.answered):
        return
    asked, answered = _pairs(said, said.request, lists.asked), _pairs(said, said.response, lists.answered)
    if all(name and isinstance(number, int) and 0 <= number < POSSIBLE for name, number in asked):
        yield from _compared(said, asked, answered, lambda one: f"{one[0]}-{one[1]}")


def _compared(
    said: Said, asked: Iterable[Any], answered: Iterable[Any], name: Callable[[Any], str] = str
) -> Iterator[Fact]:
    wanted, counts = dict.fromkeys(asked), Counter(answered)
    if counts and not wanted.keys() & counts.keys():
        # nothing in common: the bodies are of different exchanges, or one has names of topics and the other ids
        return
    for twice, found in (
        (False, [one for one in wanted if one not in counts]),
        (True, [one for one, count in counts.items() if count > 1]),
    ):
        if found:
            yield facts.Incomplete(said.at, name(found[0]), len(found), len(wanted), counts.total(), twice)


def _produce(said: Said) -> Iterable[Fact]:
    if not said.request.get("acks") or len(said.parts) == _number(said.response, PARTITIONS[api_keys.PRODUCE].answered):
        return ()
    return _partitions(said)


def _fetch(said: Said) -> Iterator[Fact]:
    throttled = said.response.get("throttleTimeMs", 0) > 0 and not listed(said.response, "responses")
    if said.request.get("sessionEpoch", -1) in FULL and not throttled and facts.Incomplete in said.wanted:
        yield from _partitions(said)
    if facts.FetchedFrom in said.wanted and said.answered:
        yield from _fetched_from(said)


def _fetched_from(said: Said) -> Iterator[Fact]:
    if (said.request.get("replicaState") or {}).get("replicaId", -1) >= 0 or said.request.get("replicaId", -1) >= 0:
        return
    sizes: list[tuple[str, int, int]] = []
    preferred = False
    for topic in listed(said.response, "responses"):
        name = ""
        for one in listed(topic, "partitions"):
            preferred |= one.get("preferredReadReplica", -1) >= 0
            records = one.get("records")
            if records and len(sizes) < PARTS:
                name = name or said.topic(topic)
                sizes.append((name, one.get("partitionIndex", 0), len(records)))
    if sizes or preferred:
        yield facts.FetchedFrom(said.at, said.request.get("rackId") or "", preferred, tuple(sizes))


def _metadata(said: Said) -> Iterator[Fact]:
    topics = said.request.get("topics")
    if said.sound and said.answered and not said.error and topics and all(one.get("name") for one in topics):
        found: list[Hashable] = [one.get("name") for one in listed(said.response, "topics")]
        yield from _compared(said, (one["name"] for one in topics), found)


_INCOMPLETE: Final = frozenset({facts.Incomplete})
READERS: Final = {key: Reading(_INCOMPLETE, _partitions) for key in PARTITIONS} | {
    api_keys.PRODUCE: Reading(_INCOMPLETE, _produce),
    api_keys.FETCH: Reading(_INCOMPLETE | {facts.FetchedFrom}, _fetch),
    api_keys.METADATA: Reading(_INCOMPLETE, _metadata),
}
