"""Records as one line each: "kproxy.record/1"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from captures.export import Reading
from captures.export.encoding import encode
from decoders.exchange import Exchange, Health, StreamProblem
from decoders.exchange_json import exchange_json
from decoders.learning import learn
from decoders.records.places import PLACES, assigned_offsets
from decoders.view import View

RECORD: Final = "kproxy.record/1"

_OF_BATCH: Final = (
    "baseOffset", "magic", "crcValid", "compression", "timestampType", "isTransactional", "isControl", "producerId",
    "producerEpoch", "baseSequence", "recordCount", "sizeInBytes", "uncompressedSizeInBytes",
)  # fmt: skip


class RecordLines:
    """One record a line, in the order of their exchanges; `problems` counts what could not be read of records."""

    def __init__(self, reader: Reading, view: View | None = None) -> None:
        self.problems = 0
        self._reader = reader
        self._view = view or View()

    def begin(self) -> bytes:
        return b""

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        return b"".join(
            [encode(line) + b"\n" for item in items if isinstance(item, Exchange) for line in self.records(item)]
        )

    def end(self) -> bytes:
        return b""

    def records(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The objects of an exchange's records."""
        place = PLACES.get(-1 if exchange.api_key is None else exchange.api_key)
        if place is None or exchange.protocol is not None:
            learn(exchange, self._reader.source, self._reader.definitions, self._view.knowledge)
            return
        line = exchange_json(
            exchange,
            self._reader.source,
            self._reader.definitions,
            view=self._view,
            precision=self._reader.precision,
            health=self._reader.health,
        )
        side = "request" if place.in_request else "response"
        self.problems += sum(problem["where"] == side for problem in line["problems"])
        body = line[side] and line[side]["body"]
        if not body:
            return
        answer = line["response"] and line["response"]["body"]
        assigned = assigned_offsets(answer) if place.in_request else {}
        for topic in body[place.topics]:
            topic_id = topic.get("topicId")
            name = topic.get("name", topic.get("topic", line.get("topics", {}).get(topic_id)))
            for partition in topic[place.partitions]:
                records = partition[place.field]
                number = partition.get("index", partition.get("partitionIndex"))
                index = 0
                for batch in records["batches"] if records else ():
                    facts = {key: batch[key] for key in _OF_BATCH if key in batch}
                    for record in batch["records"] or ():
                        base = assigned.get((topic_id or name, number))
                        yield _line(line, name, topic_id, number, record, facts, None if base is None else base + index)
                        index += 1


def _line(
    line: dict[str, Any],
    topic: str | None,
    topic_id: str | None,
    partition: int,
    record: dict[str, Any],
    batch: dict[str, Any],
    assigned: int | None,
) -> dict[str, Any]:
    shown: dict[str, Any] = {"schema": RECORD, "exchange": line["exchange"], "api": line["api"], "topic": topic}
    if topic_id is not None:
        shown["topicId"] = topic_id
    shown["partition"] = partition
    shown["offset"] = record["offset"]
    if assigned is not None:
        shown["assignedOffset"] = assigned
    shown["timestamp"] = record.get("timestamp")
    shown["key"] = record["key"]
    shown["value"] = record["value"]
    shown["headers"] = record.get("headers", [])
    if "skipped" in record:
        shown["skipped"] = record["skipped"]
    shown["batch"] = batch
    return shown
