"""Finds the records fields of an exchange, with their partitions and facts about them from request and response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kproxy.decoders.embedded import envelope
from kproxy.decoders.embedded.scope import DEEPEST
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.records import skipped
from kproxy.decoders.schema import api_keys
from kproxy.decoders.schema.lookup import Definitions

Values = Mapping[str, Any]


class Lists(NamedTuple):
    """Where a message has its records: the names of the list of topics, the list of partitions and the records field.

    `in_request` is False if the records are in the response.
    """

    in_request: bool
    topics: str
    partitions: str
    field: str


PLACES: Final[Mapping[int, Lists]] = {
    0: Lists(True, "topicData", "partitionData", "records"),
    1: Lists(False, "responses", "partitions", "records"),
    59: Lists(False, "topics", "partitions", "unalignedRecords"),
    78: Lists(False, "responses", "partitions", "records"),
}
"""Where messages have their records, by API key (Produce, Fetch, FetchSnapshot, ShareFetch)."""

UNALIGNED: Final = "unalignedRecords"
"""Name of the field whose bytes may begin within a batch."""


@dataclass(frozen=True, slots=True)
class Place:
    """A records field, its partition, and facts about its records from the rest of the exchange.

    `path` is the field's path in its message. `topic` is None if only the topic id is known, `topic_id` (16 bytes) is
    None if the message has none. Fetch: `fetch_offset` is the requested offset, `aborted` are the aborted transactions
    that the response lists. Produce: `assigned` is the offset that the broker gave to the first record.
    """

    path: str
    topic: str | None
    topic_id: bytes | None
    partition: int
    records: Buffer
    fetch_offset: int | None = None
    aborted: Sequence[Mapping[str, Any]] = ()
    assigned: int | None = None

    @property
    def aligned(self) -> bool:
        return not self.path.endswith(UNALIGNED)


def places(
    api_key: int | None,
    request: Values | None,
    response: Values | None,
    knowledge: Knowledge,
    definitions: Definitions,
) -> list[Place]:
    """The records fields of an exchange that are not null; request or response may be missing.

    For an Envelope, these are the records fields of the enclosed message.
    """
    depth = 0
    while api_key == api_keys.ENVELOPE and depth < DEEPEST:
        api_key, request, response = envelope.inside(request, response, definitions)
        depth += 1
    lists = None if api_key is None else PLACES.get(api_key)
    if lists is None:
        return []
    body = request if lists.in_request else response
    if body is None:
        return []
    assigned = assigned_offsets(response) if lists.in_request else {}
    asked = skipped.fetch_offsets(request) if api_key == api_keys.FETCH else {}
    found = _places(lists, body, asked, assigned, knowledge)
    above = ("requestData.body." if lists.in_request else "responseData.body.") * depth
    return [replace(place, path=above + place.path) for place in found] if above else list(found)


def _places(
    lists: Lists,
    body: Values,
    asked: Mapping[tuple[Any, int], int],
    assigned: Mapping[tuple[Any, int], int],
    knowledge: Knowledge,
) -> Iterator[Place]:
    for at, topic in enumerate(body.get(lists.topics) or ()):
        name, topic_id = topic.get("name", topic.get("topic")), topic.get("topicId")
        if name is None and topic_id is not None:
            name = knowledge.topic(topic_id)
        for index, partition in enumerate(topic[lists.partitions] or ()):
            records = partition.get(lists.field)
            if records is None:
                continue
            number = partition.get("index", partition.get("partitionIndex"))
            yield Place(
                f"{lists.topics}[{at}].{lists.partitions}[{index}].{lists.field}",
                name,
                None if topic_id is None else bytes(topic_id),
                number,
                records,
                asked.get((skipped.topic_key(topic), number)),
                partition.get("abortedTransactions") or (),
                assigned.get((topic_id or name, number)),
            )


def assigned_offsets(response: Any) -> dict[tuple[Any, int], int]:
    """Base offsets in a Produce response by (topic id or name, partition); `response` is decoded values or JSON."""
    if not response:
        return {}
    return {
        (topic.get("topicId") or topic["name"], partition["index"]): partition["baseOffset"]
        for topic in response["responses"]
        for partition in topic["partitionResponses"]
        if partition["errorCode"] == 0 and partition["baseOffset"] >= 0
    }
