"""Rows of the tables from exchanges: pure functions of an exchange and its decoded bodies.

A row is a tuple in the order of `Table.given`. What needs more than one exchange (names of topics, node ids, versions
of clients) is learnt from those before by `Maker`, which puts everything together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from captures.bodies import Bodies
from captures.tables.keys import Flow, Flows, Key, key
from captures.tables.places import Named, named
from decoders.conversation.stream import Side, Source
from decoders.exchange import Connection, Exchange, Frame, Health, Status, StreamProblem
from decoders.exchange_json import SASL_TOKEN
from decoders.frames import codes
from decoders.jsonform import uuid_json
from decoders.knowledge import Knowledge
from decoders.learning import learn_both
from decoders.problems import Code, Problem
from decoders.records.batches import Batch, parse
from decoders.records.places import PLACES
from decoders.schema import Definitions

Row = tuple[Any, ...]
Values = Mapping[str, Any]
Where = Callable[[int], tuple[str, int]]
"""An address of the source as file and offset."""

_FETCH, _METADATA, _API_VERSIONS = 1, 3, 18
_OFFSETS: Final = ("fetchOffset", "committedOffset", "offset")
_ERRORS: Final = ("errorCode", "partitionErrorCode")
_ASSIGNORS: Final = ("protocolName", "serverAssignor")
_MEMBER_EPOCHS: Final = ("memberEpoch", "generationId", "generationIdOrMemberEpoch", "shareSessionEpoch")
EVENTS: Final[Mapping[int, str]] = {
    8: "commit",
    11: "join",
    12: "heartbeat",
    13: "leave",
    14: "sync",
    68: "consumer_heartbeat",
    76: "share_heartbeat",
    88: "streams_heartbeat",
}
"""API keys of what members of groups do."""
_DESCRIBED: Final = frozenset({15, 69, 77, 89})
"""API keys by which groups are described."""


def status(exchange: Exchange, bodies: Bodies) -> str:
    """The status as the exchange JSON has it."""
    if exchange.status is Status.OK and bodies.cut:
        return Status.CUT.value
    if exchange.status is Status.OK and bodies.undecoded:
        return Status.UNDECODABLE.value
    return exchange.status.value


def topic_rows(key: Key, exchange: Exchange, bodies: Bodies, knowledge: Knowledge) -> list[Row]:
    """Rows of exchange_topics: each partition once, what the request and the response say of it side by side."""
    pairs: dict[tuple[Any, int | None], tuple[Named, list[Values]]] = {}
    for decoded in (bodies.request, bodies.response):
        if decoded is None or decoded.body is None or decoded.message is None:
            continue
        for one in named(decoded.body, decoded.message, decoded.version):
            topic = one.topic or (None if one.topic_id is None else knowledge.topic(one.topic_id)) or one.topic_id
            pairs.setdefault((topic, one.partition), (one, []))[1].append(one.values)
    # A topic whose partitions are named is not a row of its own.
    parts = {topic for topic, partition in pairs if partition is not None}
    rows = []
    for (topic, partition), (one, told) in pairs.items():
        if partition is None and topic in parts:
            continue
        name = topic if isinstance(topic, str) else None
        topic_uuid = None if one.topic_id is None else uuid_json(one.topic_id)
        rows.append((*key.head, exchange.api_key, name, topic_uuid, partition, *_told(told, exchange.api_key)))
    return rows


def _told(told: Sequence[Values], api_key: int | None) -> Row:
    """What the values of one partition, of request and response, come to."""
    base = _first(told, ("baseOffset",))
    size, records, batches, codec = None, None, None, None
    lists = PLACES.get(-1 if api_key is None else api_key)
    held = None if lists is None else next((one[lists.field] for one in told if one.get(lists.field) is not None), None)
    if held is not None:
        found = parse(held, check=False).batches
        size, batches, records = len(held), len(found), sum(one.header.get("recordCount", 0) for one in found)
        if found:
            codec = found[0].header["compression"]
            base = found[0].header.get("baseOffset") if base is None else base
    return (
        _first(told, _ERRORS), size, records, batches, codec, base,
        _first(told, _OFFSETS), _first(told, ("highWatermark",), least=0), _first(told, ("lastStableOffset",)),
    )  # fmt: skip


def _first(told: Sequence[Values], names: Sequence[str], *, least: int | None = None) -> Any:
    """What the last of these says that has one of the fields: the response, where it says something."""
    for values in reversed(told):
        for name in names:
            value = values.get(name)
            if isinstance(value, int) and (least is None or value >= least):
                return value
    return None


def batch_rows(key: Key, exchange: Exchange, bodies: Bodies, knowledge: Knowledge) -> Iterator[Row]:
    """Rows of record_batches."""
    lists = PLACES.get(-1 if exchange.api_key is None else exchange.api_key)
    decoded = None if lists is None else bodies.request if lists.in_request else bodies.response
    if lists is None or decoded is None or decoded.body is None or decoded.message is None:
        return
    for one in named(decoded.body, decoded.message, decoded.version):
        held = one.values.get(lists.field)
        if held is None:
            continue
        topic = one.topic or (None if one.topic_id is None else knowledge.topic(one.topic_id))
        for batch in parse(held, check=False).batches:
            yield (*key.head, topic, one.partition, *_batch(batch))


def _batch(batch: Batch) -> Row:
    header = batch.header
    return (
        header.get("baseOffset"), header["sizeInBytes"], header.get("recordCount"), header["magic"],
        header["compression"], header.get("producerId"), header.get("producerEpoch"), header.get("baseSequence"),
        header.get("isTransactional"), header.get("isControl"),
    )  # fmt: skip


def group_rows(key: Key, exchange: Exchange, bodies: Bodies) -> Iterator[Row]:
    """Rows of group_events; a LeaveGroup has one a member, a description one a group."""
    if exchange.api_key in _DESCRIBED:
        for group in (bodies.answered or {}).get("groups") or ():
            assignor = group.get("assignorName") or group.get("protocolData") or None
            yield (
                *key.head, "describe", group["groupId"], None, None, group.get("groupEpoch"),
                group.get("groupState") or None, assignor, group.get("errorCode"),
            )  # fmt: skip
        return
    event = EVENTS.get(-1 if exchange.api_key is None else exchange.api_key)
    asked, answered = bodies.asked, bodies.answered or {}
    if event is None or asked is None or "groupId" not in asked:
        return
    error = answered.get("errorCode")
    if event == "commit" and answered:
        listed = (part["errorCode"] for topic in answered["topics"] for part in topic["partitions"])
        error = next((code for code in listed if code), 0)
    both = (asked, answered)
    epoch = next((told[name] for told in reversed(both) for name in _MEMBER_EPOCHS if name in told), None)
    assignor = next((told[name] for told in reversed(both) for name in _ASSIGNORS if told.get(name)), None)
    for member in asked.get("members") or (asked,):
        name = answered.get("memberId") or member.get("memberId")
        instance = member.get("groupInstanceId", member.get("instanceId"))
        yield (*key.head, event, asked["groupId"], name, instance, epoch, None, assignor, error)


def problem_rows(key: Key, problems: Sequence[Problem]) -> Iterator[Row]:
    """Rows of anomalies that belong to an exchange."""
    for one in problems:
        yield (
            key.capture, key.time, one.code.value, key.flow.id, key.flow.epoch, key.exchange, one.where, one.offset,
            None, one.path, one.message,
        )  # fmt: skip


def flags(exchange: Exchange, problems: Sequence[Problem], *, found: bool) -> list[str]:
    """What was odd about the packets of an exchange; `found` says that a frame was found by a search."""
    frames = [frame for frame in (exchange.request, exchange.response) if frame is not None]
    told = {
        "out_of_order": any(first > second for frame in frames for (first, _), (second, _) in pairwise(frame.spans)),
        "gap_before": found,
        "midstream": exchange.connection.opened is False,
        "snaplen_cut": any(problem.code is Code.CUT_BY_SNAPLEN for problem in problems),
    }
    return [name for name, holds in told.items() if holds]


class Maker:
    """The rows of a reading's items, by table, in the order of the items.

    `rows` is what has been made since it was taken (`take`). `where` says which file an address lies in; `tables` are
    the names of those wanted. `health`, where given, counts frames that could not be decoded.
    """

    def __init__(
        self,
        capture: str,
        source: Source,
        definitions: Definitions,
        where: Where,
        tables: Sequence[str],
        knowledge: Knowledge | None = None,
        health: Health | None = None,
    ) -> None:
        self._health = health or Health()
        self.rows: dict[str, list[Row]] = {name: [] for name in tables}
        self.flows = Flows()
        self.knowledge = knowledge or Knowledge()
        self._capture = capture
        self._source = source
        self._definitions = definitions
        self._where = where
        self._nodes: dict[tuple[str, int], int] = {}
        self._software: dict[int, str] = {}
        self._resumed: dict[tuple[int, Side, int], Connection] = {}
        """Where frames begin that were found by a search, and whose exchange has yet to come."""

    def take(self) -> dict[str, list[Row]]:
        """The rows made so far, which are then forgotten here."""
        taken, self.rows = self.rows, {name: [] for name in self.rows}
        return taken

    def add(self, item: Exchange | StreamProblem) -> Key | None:
        """Make the rows of one item; an exchange's key."""
        flow = self.flows.of(item.connection)
        if isinstance(item, StreamProblem):
            if item.code is Code.RESYNC:
                self._resumed[id(item.connection), item.side, item.offset + item.size] = item.connection
            self._put("anomalies", [self._anomaly(item, flow)])
            return None
        of = key(self._capture, flow, item)
        bodies = Bodies(item, self._source, self._definitions)
        self._health.undecoded += bodies.undecoded
        if item.protocol is None:
            learn_both(bodies.request, bodies.response, self.knowledge)
            self._learn(item, bodies)
        topics: list[Row] = []
        if item.protocol is None:
            topics = topic_rows(of, item, bodies, self.knowledge)
            self._put("exchange_topics", topics)
            if "record_batches" in self.rows:
                self.rows["record_batches"] += batch_rows(of, item, bodies, self.knowledge)
            if "group_events" in self.rows:
                self.rows["group_events"] += group_rows(of, item, bodies)
        self._put("anomalies", problem_rows(of, bodies.problems))
        if "exchanges" in self.rows:
            self.rows["exchanges"].append(self._exchange(of, item, bodies, topics))
        return of

    def _put(self, table: str, rows: Any) -> None:
        if table in self.rows:
            self.rows[table] += rows

    def _anomaly(self, item: StreamProblem, flow: Flow) -> Row:
        side = "client" if not item.side else "broker"
        return (
            self._capture, item.time, item.code.value, flow.id, flow.epoch, None, side, item.offset, item.size, "",
            item.message,
        )  # fmt: skip

    def _learn(self, exchange: Exchange, bodies: Bodies) -> None:
        asked, answered = bodies.asked, bodies.answered
        if exchange.api_key == _METADATA and answered is not None:
            for broker in answered["brokers"]:
                self._nodes[broker["host"], broker["port"]] = broker["nodeId"]
        elif exchange.api_key == _API_VERSIONS and asked and asked.get("clientSoftwareName"):
            number = exchange.connection.number
            self._software[number] = f"{asked['clientSoftwareName']} {asked['clientSoftwareVersion']}"

    def _exchange(self, of: Key, exchange: Exchange, bodies: Bodies, topics: Sequence[Row]) -> Row:
        request, response = exchange.request, exchange.response
        # What the fields of a dialect mean is the dialect's to say.
        known = exchange.protocol is None
        asked, answered = (bodies.asked or {}, bodies.answered or {}) if known else ({}, {})
        error, counts = self._errors(exchange, bodies, topics)
        return (
            of.capture,
            of.flow.id,
            of.flow.epoch,
            of.exchange,
            exchange.number,
            *of.flow.client,
            *of.flow.broker,
            self._nodes.get(of.flow.broker),
            exchange.client_id,
            self._software.get(exchange.connection.number),
            exchange.protocol,
            exchange.api_key,
            self._api(exchange),
            exchange.api_version,
            exchange.correlation_id,
            of.time,
            *_times(request),
            *_times(response),
            *_durations(request, response),
            None if request is None else request.size + 4,
            None if response is None else response.size + 4,
            error,
            counts,
            answered.get("throttleTimeMs"),
            asked.get("acks"),
            _group(asked),
            asked.get("transactionalId", asked.get("v3AndBelowTransactionalId")) or None,
            list(dict.fromkeys(row[4] or row[5] for row in topics)),
            status(exchange, bodies),
            exchange.reason,
            flags(exchange, bodies.problems, found=self._was_found(exchange)),
            [problem.code.value for problem in bodies.problems],
            bodies.problems[0].message if bodies.problems else None,
            *self._place(request),
            *self._place(response),
        )

    def _was_found(self, exchange: Exchange) -> bool:
        """Whether one of its frames was found by a search."""
        if not self._resumed:
            return False
        frames = (frame for frame in (exchange.request, exchange.response) if frame is not None)
        found = self._resumed.keys() & {(id(exchange.connection), one.side, one.stream_offset) for one in frames}
        for place in found:
            del self._resumed[place]
        return bool(found)

    def _api(self, exchange: Exchange) -> str | None:
        if exchange.token:
            return SASL_TOKEN
        key = exchange.api_key
        return None if key is None else self._definitions.api_name(key, exchange.protocol)

    def _errors(
        self, exchange: Exchange, bodies: Bodies, topics: Sequence[Row]
    ) -> tuple[int | None, list[tuple[int, int]] | None]:
        if bodies.response is None or bodies.response.body is None:
            return None, None
        found = codes(bodies.response, exchange, self._definitions)
        partitions = Counter(row[7] for row in topics)
        return (found[0] if found else 0), [(code, partitions[code] or 1) for code in found]

    def _place(self, frame: Frame | None) -> tuple[str | None, int | None]:
        return (None, None) if frame is None or not frame.spans else self._where(frame.spans[0][0])


def _times(frame: Frame | None) -> tuple[int | None, int | None]:
    return (None, None) if frame is None else (frame.first_time, frame.time)


def _durations(request: Frame | None, response: Frame | None) -> tuple[int | None, int | None, int | None]:
    """latency_us, first_byte_us, total_us."""
    if request is None or response is None:
        return None, None, None
    ends = ((response.time, request.time), (response.first_time, request.time), (response.time, request.first_time))
    latency, first_byte, total = ((end - start) // 1000 for end, start in ends)
    return latency, first_byte, total


def _group(asked: Values) -> str | None:
    group = asked.get("groupId")
    if group is None and len(asked.get("groups") or ()) == 1 and isinstance(asked["groups"][0], dict):
        group = asked["groups"][0].get("groupId")
    return group if isinstance(group, str) and group else None
