"""Makes the rows of the tables from exchanges and their decoded bodies.

A row has its values in the order of `Table.given`. `Sketcher` makes drafts from one exchange alone; their rows lack the
columns of `Table.later`. `Drafter`, which sees all exchanges in order, fills these too. `Maker` learns topic names and
node ids from all exchanges and completes the drafts with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kproxy.captures.bodies import Bodies
from kproxy.captures.keys import Flow, Flows, Key, exchange_id, split_address
from kproxy.captures.tables.carried import CODEC, COUNT, KEYS, OFFSET, UNMEASURED, VALUES, as_captured, parts, total
from kproxy.captures.tables.places import Part
from kproxy.captures.tables.schema import (
    ANOMALIES,
    EXCHANGE_TOPICS,
    EXCHANGES,
    GROUP_EVENTS,
    RECORD_BATCHES,
    WITHOUT_BODIES,
)
from kproxy.decoders.exchange import Connection, Exchange, Frame, Health, Status, StreamProblem
from kproxy.decoders.exchange_json import SASL_TOKEN
from kproxy.decoders.frames import codes
from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.knowledge import RESERVED, Knowledge
from kproxy.decoders.learning import learn_both
from kproxy.decoders.problems import Code, Problem
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Side, Source

Row = Sequence[Any]
Values = Mapping[str, Any]


class Place(NamedTuple):
    """Where in the captures a byte is: the file's name, the byte's offset in it, and the file's id.

    If files were merged, the name has the names of all, and the offset is that in the merged file; the id is that of
    the file from which the byte comes.
    """

    file: str | None
    offset: int | None
    id: str | None


NOWHERE: Final = Place(None, None, None)
Where = Callable[[int], Place]
"""Maps an address of the source to its Place."""


def place(item: Exchange | StreamProblem, where: Where) -> Place:
    """The Place of an exchange's first byte, or of the last byte before a problem was found."""
    if isinstance(item, StreamProblem):
        # the end of a file is also the address of the next file's first byte
        return where(item.at - 1)
    return _first(_of_frame(item.request, where), _of_frame(item.response, where))


def _of_frame(frame: Frame | None, where: Where) -> Place:
    """The Place of a frame's first byte; NOWHERE if there is none."""
    return NOWHERE if frame is None or not frame.spans else where(frame.spans[0][0])


def _first(request: Place, response: Place) -> Place:
    return response if request.file is None else request


TopicOf = Callable[[bytes], str | None]
"""Maps a topic id to the topic's name, or to None if it is unknown."""

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
"""Event in the table group_events, by the API key of a member's request."""
_TIME, _ERROR_COUNTS, _TOPICS = (EXCHANGES.index(name) for name in ("ts_ns", "error_counts", "topics"))
_API_NAME = EXCHANGES.index("api_name")
_EXCHANGE_ID, _BROKER_ID = (EXCHANGES.index(name) for name in ("exchange_id", "broker_id"))
_IDS: Final = tuple(EXCHANGES.index(name) for name in ("capture_id", "source_id", "exchange_id"))
_TOPIC, _TOPIC_UUID, _TOPIC_ERROR = (EXCHANGE_TOPICS.index(name) for name in ("topic", "topic_uuid", "error_code"))
_NOTHING: Final[Values] = {}
_NONE: Final = ()
"""The same empty list for all rows: if a column holds no other object, it is recognised as constant."""
_DESCRIBED: Final = frozenset(
    {
        api_keys.DESCRIBE_GROUPS,
        api_keys.CONSUMER_GROUP_DESCRIBE,
        api_keys.SHARE_GROUP_DESCRIBE,
        api_keys.STREAMS_GROUP_DESCRIBE,
    }
)
"""API keys of requests that describe groups."""
_MEASURED: Final = frozenset({EXCHANGE_TOPICS.name, RECORD_BATCHES.name})
"""Tables with sizes of records."""
_OF_GROUPS: Final = _DESCRIBED | EVENTS.keys()


def status(exchange: Exchange, bodies: Bodies) -> Status:
    """The status in the exchange JSON: CUT or UNDECODABLE in place of OK if a body could not be decoded."""
    if (bodies.cut or bodies.undecoded) and exchange.status is Status.OK:
        return Status.CUT if bodies.cut else Status.UNDECODABLE
    return exchange.status


def topic_rows(key: Key, about: Row, said: Sequence[Part], topic_of: TopicOf) -> list[Row]:
    """Rows of exchange_topics: one for each topic and partition in `said`, with the values of request and response.

    `about` are the values of the columns that describe the exchange (Draft).
    """
    merged: dict[tuple[str | bytes | None, int | None], Part] = {}
    divided: set[str | bytes | None] = set()
    for one in said:
        topic: str | bytes | None = one[0] or (None if one[1] is None else topic_of(one[1])) or one[1]
        partition = one[2]
        if partition is not None:
            divided.add(topic)
        place = topic, partition
        before = merged.get(place)
        merged[place] = one if before is None else _both(before, one)
    rows: list[Row] = []
    begin, ids = key
    for (topic, partition), (_, topic_id, _, error, base, fetch, high, stable, carried) in merged.items():
        # A topic has a row without partition only if the exchange names none of its partitions.
        if partition is None and topic in divided:
            continue
        size = records = batches = codec = first = keys = values = None
        if carried is not None:
            size, found, measured = carried
            batches, records = len(found), sum([one[COUNT] or 0 for one in found])
            if measured:
                keys, values = total(found, KEYS), total(found, VALUES)
            if found:
                codec, first = found[0][CODEC], found[0][OFFSET]
        rows.append((
            begin, *about, topic if isinstance(topic, str) else None,
            None if topic_id is None else uuid_json(topic_id), partition,
            error, size, records, batches, codec, first if base is None else base, fetch, high, stable,
            keys, values, *ids,
        ))  # fmt: skip
    return rows


def _both(first: Part, second: Part) -> Part:
    """One Part for a partition in request (`first`) and response (`second`): the response's values unless they are
    None.

    The records are the request's if it has any.
    """
    topic, topic_id, partition, error, base, fetch, high, stable, carried = first
    _, _, _, error_2, base_2, fetch_2, high_2, stable_2, carried_2 = second
    return (
        topic, topic_id, partition,
        error if error_2 is None else error_2,
        base if base_2 is None else base_2,
        fetch if fetch_2 is None else fetch_2,
        high if high_2 is None else high_2,
        stable if stable_2 is None else stable_2,
        carried_2 if carried is None else carried,
    )  # fmt: skip


def batch_rows(key: Key, said: Iterable[Part], topic_of: TopicOf) -> list[Row]:
    """Rows of record_batches: all batches in `said`, in order."""
    rows: list[Row] = []
    begin, ids = key
    for topic, topic_id, partition, _, _, _, _, _, carried in said:
        if carried is not None and carried[1]:
            name = topic or (None if topic_id is None else topic_of(topic_id))
            tail = ids if carried[2] else (*UNMEASURED, *ids)
            rows += [(begin, name, partition, *batch, *tail) for batch in carried[1]]
    return rows


def group_rows(key: Key, exchange: Exchange, bodies: Bodies) -> Iterator[Row]:
    """Rows of group_events: one for each member of a LeaveGroup, one for each described group, otherwise one."""
    about = exchange.client_id, *_ends(exchange.connection.client, exchange.connection.broker)
    if exchange.api_key in _DESCRIBED:
        for group in (bodies.answered or {}).get("groups") or ():
            assignor = group.get("assignorName") or group.get("protocolData") or None
            yield (
                key.time, *about, "describe", group["groupId"], None, None, group.get("groupEpoch"),
                group.get("groupState") or None, assignor, group.get("errorCode"), *key.ids,
            )  # fmt: skip
        return
    event = EVENTS.get(-1 if exchange.api_key is None else exchange.api_key)
    asked, answered = bodies.asked, bodies.answered or {}
    if event is None or asked is None or "groupId" not in asked:
        return
    error = answered.get("errorCode")
    if bodies.response is not None and bodies.response.codes_read:
        error = bodies.response.codes_read[0]
    elif event == "commit" and answered:
        listed = (part["errorCode"] for topic in answered["topics"] for part in topic["partitions"])
        error = next((code for code in listed if code), 0)
    both = (asked, answered)
    epoch = next((body[name] for body in reversed(both) for name in _MEMBER_EPOCHS if name in body), None)
    assignor = next((body[name] for body in reversed(both) for name in _ASSIGNORS if body.get(name)), None)
    for member in asked.get("members") or (asked,):
        name = answered.get("memberId") or member.get("memberId")
        instance = member.get("groupInstanceId", member.get("instanceId"))
        yield (key.time, *about, event, asked["groupId"], name, instance, epoch, None, assignor, error, *key.ids)


@lru_cache(1 << 12)
def _ends(client: str, broker: str) -> tuple[str, str, int]:
    """The client's host, the broker's host and port."""
    return split_address(client)[0], *split_address(broker)


def problem_rows(key: Key, flow: Flow, problems: Sequence[Problem]) -> Iterator[Row]:
    """Rows of the table anomalies for problems of an exchange."""
    capture, source, exchange = key.ids or (None, None, None)
    for one in problems:
        yield (
            capture, source, key.time, one.code.value, flow.id, flow.epoch, exchange, one.where, one.offset, None,
            one.path, one.message,
        )  # fmt: skip


def flags(exchange: Exchange, problems: Sequence[Problem], *, found: bool) -> list[str]:
    """The column `flags` of an exchange: what is odd about its packets.

    `found`: whether one of its frames was found by resynchronisation.
    """
    found_flags = []
    if _disordered(exchange.request) or _disordered(exchange.response):
        found_flags.append("out_of_order")
    if found:
        found_flags.append("gap_before")
    if exchange.connection.opened is False:
        found_flags.append("midstream")
    if problems and any(problem.code is Code.CUT_BY_SNAPLEN for problem in problems):
        found_flags.append("snaplen_cut")
    return found_flags


def _disordered(frame: Frame | None) -> bool:
    return frame is not None and len(frame.spans) > 1 and sorted(frame.spans) != frame.spans


DRAFTED: Final = ("exchanges", "exchange_topics", "record_batches", "group_events", "anomalies")
"""Tables whose rows are made from exchanges."""


@dataclass(slots=True)
class Draft:
    """The rows of one exchange, still without values from other exchanges: topic names and the broker's node id."""

    key: Key
    about: Row
    """API key, API's name, client id, client's host, broker's host and port, as in the table exchange_topics."""
    exchange: list[Any]
    """The exchange's row of the table exchanges; the columns that `close` fills are null."""
    codes: list[int] | None
    """Error codes in the response, as far as it could be read; None without a readable response."""
    parts: list[Part]
    groups: list[Row]
    problems: list[Row]

    @property
    def open(self) -> bool:
        """Whether the exchange names a topic by its id alone, so that the rows still lack the topic's name."""
        nameless = [one[1] for one in self.parts if one[0] is None and one[1] is not None]
        return bool(nameless) and not RESERVED.keys() >= set(nameless)

    def close(self, topic_of: TopicOf, node: int | None) -> dict[str, list[Row]]:
        """The complete rows by table; `node` is the broker's node id, None if unknown.

        Call it once, when topic names and node ids of all exchanges are known.
        """
        topics = topic_rows(self.key, self.about, self.parts, topic_of) if self.parts else []
        errors: Sequence[tuple[int, int]] | None = None if self.codes is None else _NONE
        if self.codes:
            partitions = Counter(row[_TOPIC_ERROR] for row in topics)
            errors = [(code, partitions[code] or 1) for code in self.codes]
        exchange = self.exchange
        if node is not None:
            exchange[_BROKER_ID] = node
        exchange[_ERROR_COUNTS] = errors
        exchange[_TOPICS] = list(dict.fromkeys([row[_TOPIC] or row[_TOPIC_UUID] for row in topics]))
        return {
            "exchanges": [exchange],
            "exchange_topics": topics,
            "record_batches": batch_rows(self.key, self.parts, topic_of),
            "group_events": self.groups,
            "anomalies": self.problems,
        }


class Sketcher:
    """Makes a draft from each exchange alone; the rows lack the columns of `Table.later`.

    `tables` are the names of the wanted tables. `health`, if given, counts undecodable frames. `batch_limit` is as for
    captures.tables.carried.parts.
    """

    def __init__(
        self,
        source: Source,
        definitions: Definitions,
        tables: Sequence[str],
        health: Health | None = None,
        batch_limit: int | None = None,
    ) -> None:
        self.source = source
        self._batch_limit = batch_limit if _MEASURED.intersection(tables) else None
        self._definitions = definitions
        self._groups = GROUP_EVENTS.name in tables
        self._health = health or Health()

    def draft(self, item: Exchange, captured: Exchange | None = None) -> tuple[Draft, Bodies]:
        """The draft of an exchange, and its bodies; `captured` is the exchange before it was redacted, if it was."""
        bodies = Bodies(item, self.source, self._definitions)
        self._health.undecoded += bodies.undecoded
        found = None
        if bodies.response is not None:
            found = codes(bodies.response, item, self._definitions)
            if bodies.response.body is None and not found:
                found = None  # the part of a response that cannot be decoded may have error codes
        row = self._exchange(item, bodies, found)
        of = _key(row)
        known = item.protocol is None
        draft = Draft(
            of,
            (item.api_key, row[_API_NAME], item.client_id, *_ends(item.connection.client, item.connection.broker)),
            row,
            found,
            self._parts(bodies, captured) if known else [],
            list(group_rows(of, item, bodies)) if known and self._groups and item.api_key in _OF_GROUPS else [],
            [],
        )
        return draft, bodies

    def _parts(self, bodies: Bodies, captured: Exchange | None) -> list[Part]:
        if captured is None or self._batch_limit is None:
            return parts(bodies, self._batch_limit)
        before = Bodies(captured, self.source, self._definitions)
        return as_captured(parts(bodies), parts(before, self._batch_limit))

    def _exchange(self, item: Exchange, bodies: Bodies | None, found: list[int] | None) -> list[Any]:
        """The exchange's row of the table exchanges; the columns that `Draft.close` fills are null.

        `found` are the response's error codes, None if unknown.
        """
        request, response = item.request, item.response
        asked_first = asked_last = asked_bytes = asked_held = first = last = size = held = None
        begin = item.connection.first_time
        if response is not None:
            begin = first = response.first_time
            last, size = response.time, response.length
            held = size - response.missing
        if request is not None:
            begin = asked_first = request.first_time
            asked_last, asked_bytes = request.time, request.length
            asked_held = asked_bytes - request.missing
        if bodies is None:
            said, problems, state = _NO_BODIES, item.problems, item.status
        else:
            # What the fields of a dialect mean is unknown.
            asked, answered = (bodies.asked, bodies.answered) if item.protocol is None else (None, None)
            said = _said(asked or _NOTHING, answered or _NOTHING, found)
            problems, state = bodies.problems, status(item, bodies)
        key = item.api_key
        return [
            item.client_id,
            item.protocol,
            key,
            SASL_TOKEN if item.token else None if key is None else self._definitions.api_name(key, item.protocol),
            item.api_version,
            item.correlation_id,
            begin,
            asked_first,
            asked_last,
            first,
            last,
            asked_bytes,
            size,
            asked_held,
            held,
            *said,
            state._value_,
            item.reason,
            [problem.code.value for problem in problems] if problems else _NONE,
            problems[0].message if problems else None,
        ]


class Drafter(Sketcher):
    """Makes drafts of a reading's exchanges, which are given in the order in which they complete.

    `reading` is the id of the reading. For the other arguments see Sketcher.
    """

    def __init__(
        self,
        reading: str,
        source: Source,
        definitions: Definitions,
        where: Where,
        tables: Sequence[str],
        health: Health | None = None,
        batch_limit: int | None = None,
    ) -> None:
        super().__init__(source, definitions, tables, health, batch_limit)
        self.flows = Flows()
        self._reading = reading
        self._where = where
        self._software: dict[int, str] = {}
        self._resumed: set[tuple[Connection, Side, int]] = set()
        """Frames found by resynchronisation whose exchange is not complete yet, by sender and stream offset."""

    def anomaly(self, item: StreamProblem) -> Row:
        """The row of the table anomalies for a problem that belongs to no exchange."""
        flow = self.flows.of(item.connection)
        if item.code is Code.RESYNC:
            self._resumed.add((item.connection, item.side, item.offset + item.size))
        side = "client" if not item.side else "broker"
        return (
            place(item, self._where).id, self._reading, item.time, item.code.value, flow.id, flow.epoch, None, side,
            item.offset, item.size, "", item.message,
        )  # fmt: skip

    def headers(self, item: Exchange) -> dict[str, list[Row]]:
        """All rows of an exchange, by table, without decoding its bodies."""
        row = self._exchange(item, None, None)
        made: dict[str, list[Row]] = {EXCHANGES.name: [row]}
        if item.problems:
            made[ANOMALIES.name] = self._problems(row, item, item.problems)
        return made

    def draft(self, item: Exchange, captured: Exchange | None = None) -> tuple[Draft, Bodies]:
        draft, bodies = super().draft(item, captured)
        if bodies.problems:
            draft.problems = self._problems(draft.exchange, item, bodies.problems)
        return draft, bodies

    def _exchange(self, item: Exchange, bodies: Bodies | None, found: list[int] | None) -> list[Any]:
        if bodies is not None and item.protocol is None and item.api_key == api_keys.API_VERSIONS:
            self._learn(item, bodies)
        flow = self.flows.of(item.connection)
        row = super()._exchange(item, bodies, found)
        problems = item.problems if bodies is None else bodies.problems
        asked, answered = _of_frame(item.request, self._where), _of_frame(item.response, self._where)
        row += (
            _first(asked, answered).id,
            self._reading,
            flow.id,
            flow.epoch,
            exchange_id(flow, item),
            item.number,
            *flow.client,
            *flow.broker,
            None,
            self.software(item.connection),
            flags(item, problems, found=self.was_found(item)),
            *asked[:2],
            *answered[:2],
        )
        return row

    def _problems(self, row: Row, item: Exchange, problems: Sequence[Problem]) -> list[Row]:
        return list(problem_rows(_key(row), self.flows.of(item.connection), problems))

    def _learn(self, exchange: Exchange, bodies: Bodies) -> None:
        asked = bodies.asked
        if asked and asked.get("clientSoftwareName"):
            number = exchange.connection.number
            self._software[number] = f"{asked['clientSoftwareName']} {asked['clientSoftwareVersion']}"

    def software(self, connection: Connection) -> str | None:
        """The client's software name and version, if ApiVersions on the connection had them."""
        return self._software.get(connection.number)

    def was_found(self, exchange: Exchange) -> bool:
        """Whether a frame of the exchange was found by resynchronisation; a second call for the same exchange returns
        False.
        """
        if not self._resumed:
            return False
        frames = (frame for frame in (exchange.request, exchange.response) if frame is not None)
        found = self._resumed & {(exchange.connection, one.side, one.stream_offset) for one in frames}
        self._resumed -= found
        return bool(found)


class Maker:
    """Makes the rows of a reading's items, by table, in the order of the items.

    `rows` holds the rows made since the last `take`. Without `bodies` only the tables
    captures.tables.schema.WITHOUT_BODIES have rows. For the other arguments see Drafter and Sketcher.
    """

    def __init__(
        self,
        reading: str,
        source: Source,
        definitions: Definitions,
        where: Where,
        tables: Sequence[str],
        knowledge: Knowledge | None = None,
        health: Health | None = None,
        *,
        bodies: bool = True,
        batch_limit: int | None = None,
    ) -> None:
        self._bodies = bodies
        self.rows: dict[str, list[Row]] = {name: [] for name in tables}
        drafted = DRAFTED if bodies else [name for name in DRAFTED if name in WITHOUT_BODIES]
        self._made = [name for name in tables if name in drafted]
        self.knowledge = knowledge or Knowledge()
        self._drafter = Drafter(reading, source, definitions, where, tables, health, batch_limit)
        self._nodes: dict[tuple[str, int], int] = {}

    @property
    def flows(self) -> Flows:
        return self._drafter.flows

    def take(self) -> dict[str, list[Row]]:
        """The rows made since the last call, by table; `rows` is empty afterwards."""
        taken, self.rows = self.rows, {name: [] for name in self.rows}
        return taken

    def add(self, item: Exchange | StreamProblem, captured: Exchange | StreamProblem | None = None) -> Key | None:
        """Make the rows of one item; returns the key of an exchange, None for a problem or without `bodies`.

        `captured` is the item before it was redacted, if it was.
        """
        if isinstance(item, StreamProblem):
            row = self._drafter.anomaly(item)
            if "anomalies" in self.rows:
                self.rows["anomalies"].append(row)
            return None
        if not self._bodies:
            self._add(self._drafter.headers(item))
            return None
        draft, bodies = self._drafter.draft(item, captured if isinstance(captured, Exchange) else None)
        if item.protocol is None:
            learn_both(bodies.request, bodies.response, self.knowledge)
            if item.api_key == api_keys.METADATA:
                self._nodes.update(nodes(item, bodies))
        node = None
        if self._nodes:
            node = self._nodes.get(self._drafter.flows.of(item.connection).broker)
        self._add(draft.close(self.knowledge.topic, node))
        return draft.key

    def _add(self, made: Mapping[str, list[Row]]) -> None:
        for name in self._made:
            self.rows[name] += made.get(name, ())


def nodes(exchange: Exchange, bodies: Bodies) -> Iterator[tuple[tuple[str, int], int]]:
    """((host, port), node id) of each broker in a Metadata response."""
    if exchange.api_key == api_keys.METADATA and bodies.answered is not None:
        for broker in bodies.answered["brokers"]:
            yield (broker["host"], broker["port"]), broker["nodeId"]


def _key(row: Row) -> Key:
    """The key of an exchange, from its row; without ids if the row lacks them."""
    capture, source, exchange = _IDS
    return Key(row[_TIME], (row[capture], row[source], row[exchange]) if len(row) > exchange else ())


def _said(asked: Values, answered: Values, found: list[int] | None) -> tuple[Any, ...]:
    """The values of the columns of exchanges that come from bodies, made of request, response and error codes."""
    throttled = answered.get("throttleTimeMs")
    return (
        None if found is None else found[0] if found else 0,
        None,
        throttled if throttled is None or throttled >= 0 else None,
        asked.get("acks"),
        _group(asked),
        asked.get("transactionalId", asked.get("v3AndBelowTransactionalId")) or None,
        None,
    )


def _group(asked: Values) -> str | None:
    group = asked.get("groupId")
    if group is None:
        groups: Sequence[Any] = asked.get("groups") or ()
        group = groups[0].get("groupId") if len(groups) == 1 and isinstance(groups[0], dict) else None
    return group if isinstance(group, str) and group else None


_NO_BODIES: Final = _said(_NOTHING, _NOTHING, None)
