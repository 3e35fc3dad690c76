"""Writes a line of JSON for each record: "kproxy.record/1"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kproxy.captures.export import Reading
from kproxy.captures.export.encoding import encode
from kproxy.decoders.exchange import Exchange, Health, StreamProblem
from kproxy.decoders.exchange_json import exchange_json
from kproxy.decoders.jsonform import body_json, uuid_bytes
from kproxy.decoders.learning import learn
from kproxy.decoders.records import skipped
from kproxy.decoders.records.form import Allowance, RecordsForm
from kproxy.decoders.records.places import PLACES, Lists, assigned_offsets
from kproxy.decoders.schema import api_keys
from kproxy.decoders.view import View

RECORD: Final = "kproxy.record/1"
PIECE: Final = 1 << 20
"""Bytes of text that are buffered before they are returned."""

_OF_BATCH: Final = (
    "baseOffset", "magic", "crcValid", "compression", "timestampType", "isTransactional", "isControl", "producerId",
    "producerEpoch", "baseSequence", "recordCount", "sizeInBytes", "uncompressedSizeInBytes",
)  # fmt: skip

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Carrier:
    """An exchange that carries records: both bodies as JSON, with batches that are not opened."""

    api: str | None
    api_key: int
    request: Body | None
    response: Body | None

    @property
    def lists(self) -> Lists | None:
        return PLACES.get(self.api_key)


class RecordLines:
    """Writes a line for each record, in the order of the exchanges; `problems` counts problems of the records."""

    def __init__(self, reader: Reading, view: View | None = None) -> None:
        self.problems = 0
        self._reader = reader
        self._view = view or View()
        self._unopened = replace(self._view, open_batches=False)

    def begin(self) -> bytes:
        return b""

    def lines(self, items: Sequence[Exchange | StreamProblem | Health]) -> bytes:
        return b"".join(self.pieces(items))

    def pieces(self, items: Sequence[Exchange | StreamProblem | Health]) -> Iterator[bytes]:
        """The text in pieces, because that of a single batch may exceed memory."""
        held: list[bytes] = []
        size = 0
        for item in items:
            for record in self.records(item) if isinstance(item, Exchange) else ():
                text = encode(record) + b"\n"
                held.append(text)
                size += len(text)
                if size >= PIECE:
                    yield b"".join(held)
                    held, size = [], 0
        yield b"".join(held)

    def end(self) -> bytes:
        return b""

    def records(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        """The JSON objects of an exchange's records, made one after the other."""
        key = exchange.api_key
        if exchange.protocol is not None or key is None or (key not in PLACES and key != api_keys.ENVELOPE):
            learn(exchange, self._reader.source, self._reader.definitions, self._view.knowledge)
            return
        line = exchange_json(
            exchange,
            self._reader.source,
            self._reader.definitions,
            view=self._unopened,
            precision=self._reader.precision,
            health=self._reader.health,
        )
        bodies = [None if line[side] is None else line[side]["body"] for side in ("request", "response")]
        carrier = _carrier(_Carrier(line["api"], key, *bodies))
        lists = carrier.lists
        if lists is None:
            return
        side = "request" if lists.in_request else "response"
        self.problems += sum(problem["where"] == side for problem in line["problems"])
        yield from self._message(line["exchange"], carrier, lists, counted=key != api_keys.ENVELOPE)

    def _message(self, number: int, carrier: _Carrier, lists: Lists, *, counted: bool) -> Iterator[dict[str, Any]]:
        """The JSON objects of the records in exchange `number`.

        `counted`: whether `problems` already counts the problems of batch headers.
        """
        body = carrier.request if lists.in_request else carrier.response
        if not body:
            return
        assigned = assigned_offsets(carrier.response) if lists.in_request else {}
        fetch = carrier.api_key == api_keys.FETCH and carrier.request is not None
        asked = skipped.fetch_offsets(carrier.request) if fetch else {}
        fields = [
            (topic, partition, form)
            for topic in body[lists.topics]
            for partition in topic[lists.partitions]
            if isinstance(form := partition[lists.field], RecordsForm)
        ]
        allowance = Allowance(self._view, sum(form["sizeInBytes"] for _, _, form in fields))
        for topic, partition, form in fields:
            index = partition.get("index", partition.get("partitionIndex"))
            topic_id = topic.get("topicId")
            name = topic.get("name", topic.get("topic"))
            if name is None and topic_id is not None:
                name = self._view.knowledge.topic(uuid_bytes(topic_id))
            facts: dict[str, Any] = {"exchange": number, "api": carrier.api, "topic": name}
            if topic_id is not None:
                facts["topicId"] = topic_id
            facts["partition"] = index
            transactions = (partition.get("abortedTransactions") or ()) if fetch else ()
            aborted = skipped.aborted(form["batches"], transactions, form.is_abort) if transactions else ()
            below = asked.get((skipped.topic_key(topic), index))
            base = assigned.get((topic_id or name, index))
            yield from self._field(form, allowance, facts, frozenset(aborted), below, base, counted=counted)

    def _field(
        self,
        form: RecordsForm,
        allowance: Allowance,
        facts: dict[str, Any],
        aborted: frozenset[int],
        below: int | None,
        base: int | None,
        *,
        counted: bool,
    ) -> Iterator[dict[str, Any]]:
        """The JSON objects of the records in one records field.

        `facts` describe the partition. `aborted` are indexes of aborted batches, `below` is the offset that the Fetch
        asked for, `base` the offset assigned to the first produced record. For `counted` see `_message`.
        """
        before = len(form.troubles) if counted else 0
        count, last, batch = 0, -1, {}
        for index, records in form.pieces(body_json, self._view, facts["topic"], allowance):
            if index != last:
                last, header = index, form["batches"][index]
                batch = batch_facts(header)
            for record in records:
                why = skipped.ABORTED if index in aborted else None
                if below is not None and record["offset"] < below:
                    why = skipped.BELOW
                yield record_line(facts, record, batch, why, None if base is None else base + count)
                count += 1
        self.problems += len(form.troubles) - before + form.left_out


def _carrier(outer: _Carrier) -> _Carrier:
    """The same exchange; for an Envelope that can be decoded, the exchange inside it."""
    found = outer
    while found.api_key == api_keys.ENVELOPE:
        asked, answered = _inside(found.request, "requestData"), _inside(found.response, "responseData")
        if asked is None:
            return found
        body = None if answered is None else answered["body"]
        found = _Carrier(asked["api"], asked["header"]["requestApiKey"], asked["body"], body)
    return found


def _inside(body: Body | None, field: str) -> Body | None:
    shown = None if body is None else body[field]
    found: Body | None = shown.get("decoded") if isinstance(shown, dict) else None
    return found


def batch_facts(header: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a batch's header that each of its records repeats."""
    return {name: header[name] for name in _OF_BATCH if name in header}


def record_line(
    facts: Mapping[str, Any],
    record: Mapping[str, Any],
    batch: Mapping[str, Any],
    why: str | None = None,
    assigned: int | None = None,
) -> dict[str, Any]:
    """The JSON object of a record.

    `facts` say where the record is, `why` is the reason why consumers skip it, `assigned` the offset that a broker gave
    it.
    """
    shown: dict[str, Any] = {"schema": RECORD, **facts, "offset": record["offset"]}
    if assigned is not None:
        shown["assignedOffset"] = assigned
    shown["timestamp"] = record.get("timestamp")
    shown["key"] = record["key"]
    shown["value"] = record["value"]
    shown["headers"] = record.get("headers", [])
    if why is not None:
        shown["skipped"] = why
    shown["batch"] = batch
    return shown
