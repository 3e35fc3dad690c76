"""The partitions of a Produce request, each with the broker's answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from kproxy.captures.index.labels import topic_name
from kproxy.decoders.batches.batch import sent
from kproxy.decoders.knowledge import Knowledge

Values: TypeAlias = Mapping[str, Any]
NOTHING: Values = {}


class Part(NamedTuple):
    """A partition in a Produce. `head` is the result of `batch.sent`; `answer` is {} if the response lacks it."""

    topic: str
    partition: int
    records: Any
    head: tuple[int, int, int, int, int, int, bool] | None
    answer: Values
    error: int


def parts_of(request: Values, response: Values, known: Knowledge) -> list[Part]:
    """The partitions of a Produce in the order of the request."""
    answers = {}
    for topic in response.get("responses") or ():
        name = topic.get("name") or topic_name(topic, known)
        for one in topic.get("partitionResponses") or ():
            answers[name, one.get("index", 0)] = one
    found = []
    for topic in request.get("topicData") or ():
        name = topic.get("name") or topic_name(topic, known)
        for one in topic.get("partitionData") or ():
            index, records = one.get("index", 0), one.get("records") or b""
            answer = answers.get((name, index), NOTHING)
            found.append(Part(name, index, records, sent(records), answer, answer.get("errorCode", 0)))
    return found
