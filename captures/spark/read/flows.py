"""Stage 2: turns the segments of flows into items: drafts of rows for exchanges, stream problems and flows, as Arrow
batches.

The segments of a flow pass through the parts that read any capture: reassembly, orientation and conversations of
captures.reader, and the drafts of captures.tables. Stage 3 (captures.spark.read.closing) adds the values that depend on
other flows: numbers, names of topic ids and node ids.
"""

from __future__ import annotations

import pickle
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from kproxy.captures.announced import AnnouncedKnowledge, AnnouncedNodes
from kproxy.captures.definitions import definitions
from kproxy.captures.export.records import RecordLines
from kproxy.captures.keys import Key
from kproxy.captures.ports import Ports
from kproxy.captures.reader import BATCH, Done, Reader
from kproxy.captures.source import FileSource
from kproxy.captures.spark.plan.order import Order
from kproxy.captures.spark.read import events
from kproxy.captures.spark.read.addressed import Addressed, ByAddress
from kproxy.captures.spark.read.asking import NUMBERS, Asked, asks_for_numbers, asks_others, number_of
from kproxy.captures.spark.read.digest import DIGEST, Digest
from kproxy.captures.spark.read.facts import NODE, Facts
from kproxy.captures.spark.read.opening import pack
from kproxy.captures.spark.read.packing import STATE, Parcel, unpack
from kproxy.captures.tables.flows import FlowCounter
from kproxy.captures.tables.records import record_rows
from kproxy.captures.tables.rows import Draft, Drafter, Place, Row, nodes
from kproxy.captures.tables.schema import CAPTURES, FINDINGS, FLOWS, RECORDS, TABLES
from kproxy.captures.tcp.direction import Direction
from kproxy.captures.tcp.packets import Ints, nothing
from kproxy.captures.tcp.shares import Share
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.exchange import Connection, Exchange, StreamProblem
from kproxy.decoders.filters import Expression, Matcher
from kproxy.decoders.knowledge import RESERVED, TEACHING, Knowledge
from kproxy.decoders.learning import learn, learn_both
from kproxy.decoders.schema import Definitions, api_keys
from kproxy.decoders.stream import Source
from kproxy.decoders.view import View

GRANULE: Final = 22
"""Number of low bits of an address: addresses that differ only in them form a range, by which items are counted."""
MADE: Final = tuple(name for name in TABLES if name not in {CAPTURES.name, FINDINGS.name})
"""The tables whose rows come from items."""
ROWS: Final = 1024
"""Maximum number of items in a batch."""
BYTES: Final = 16 << 20
"""Number of bytes of exchanges in a batch (the columns `event` and `open`) that end it."""

_LEARNED: Final = pa.list_(pa.struct([("fact", pa.string()), ("about", pa.string()), ("known", pa.string())]))

ITEMS: Final = pa.schema([
    ("kind", pa.string()),
    ("range", pa.int64()),
    ("started", pa.int64()),
    ("done", pa.int64()),
    ("born", pa.int64()),
    ("nth", pa.int64()),
    ("rank", pa.int64()),
    ("number", pa.int64()),
    ("standing", pa.string()),
    ("learned", _LEARNED),
    ("open", pa.binary()),
    ("packed", pa.binary()),
    ("flow_id", pa.int64()),
    ("state", pa.binary()),
    ("ended", pa.int64()),
    ("event", pa.binary()),
    ("rows", pa.binary()),
])  # fmt: skip
"""One row for each item, with the item's rows.

`kind` is "exchange", "problem", "flow" ("silent" if it has no exchanges), or "begun" for an exchange that the filter
left out and that is only counted. `started` and `done` are the addresses at which an exchange's header was readable and
at which the item was complete; `born` is the address of its connection's first packet. `rank` is the item's place
within its flow by beginning, `nth` by completion. Numbers are given in the order (started, born, rank), facts are known
in the order (done, born, nth). `range` is started >> GRANULE. The `started` of a flow is that of its first exchange.

`rows` is a pickled mapping of tables' names to lists of rows, or null: where bodies are decoded, most items have no
rows before stage 3. Rows of exchanges and flows are lists, because stage 3 sets their numbers. `learned` holds the
facts in the item for other flows. If `packed` (captures.spark.read.opening.pack) or `open` (a pickled Open) is present,
the item is an exchange that has no rows yet. `number` is present if an earlier batch of a stream numbered the item.
`standing` is FINAL, or the item's state until the next batch of a stream (OPEN, PRESUMED). Two kinds have a `state` and
no rows: "state", that of a flow for the next batch (captures.spark.follow.flow_states), and DIGEST. Rows with `event`
are event rows, not items (captures.spark.read.events).
"""
Beginning = tuple[str, int, int, int]
"""Where an item that is counted began: (counter, started, born, rank); the counter is "exchange" or "flow"."""
FINAL: Final = "final"
OPEN: Final = "open"
"""Standing of an item that has begun; its rows are those for the case that the capture ends here."""
PRESUMED: Final = "presumed"
"""Standing of an item that exists only if the capture ends here."""
_NO_EVENT: Final = (None, None)
"""Values of the columns `ended` and `event` for items that have no event."""
_EVENT, _OPEN = (ITEMS.get_field_index(name) for name in ("event", "open"))
COUNTED: Final = {"exchange": "exchange", "begun": "exchange", "flow": "flow"}
"""By kind of an item, the name of its counter."""
NUMBERED: Final = [kind for kind, counts_as in COUNTED.items() if counts_as == "exchange"]
"""Kinds of items that are counted as exchanges."""
SORTED: Final = ("range", "started", "born", "rank")
"""Columns by which items are sorted before they are numbered."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a capture is read, with the options of `kproxy export`; without `bodies` only headers are decoded.

    Only connections with one of `ports` are read, and they count as Kafka even if the capture has only the broker's
    side. `facts` holds the facts of all flows if the filter needs them. `record_sizes` decompresses batches and fills
    the columns with sizes of records. If `ranges` is given, only items whose `range` (ITEMS) is in it get rows; all
    others yield only facts, and are counted.
    """

    tables: tuple[str, ...]
    release: str | None = None
    user_definitions: tuple[str, ...] = ()
    filter: Expression | None = None
    bodies: bool = True
    ports: Ports | None = None
    facts: Facts | None = None
    record_sizes: bool = False
    ranges: range | None = None

    @property
    def batch_limit(self) -> int | None:
        """The limit for batches that are measured (captures.tables.carried.parts); None if none are."""
        return DEFAULT_LIMIT if self.record_sizes else None

    @property
    def definitions(self) -> Definitions:
        return definitions(self.release, self.user_definitions)

    @property
    def undecided(self) -> bool:
        """Whether the filter needs facts that are not collected yet; this reading then only collects facts."""
        return self.filter is not None and self.facts is None and asks_others(self.filter)

    @property
    def findings(self) -> bool:
        """Whether this reading collects the event rows for the table findings."""
        return FINDINGS.name in self.tables and not self.undecided

    @property
    def numbered(self) -> bool:
        """Whether the filter needs the numbers of exchanges or connections."""
        return self.filter is not None and asks_for_numbers(self.filter)


@dataclass(slots=True)
class Open:
    """An exchange whose rows depend on facts of other flows; `records` has its bytes if the table records is wanted."""

    draft: Draft
    records: OpenRecords | None = None


@dataclass(slots=True)
class OpenRecords:
    exchange: Exchange
    spans: list[tuple[int, bytes]]
    precision: int


class Held(FileSource):
    """A source that holds the bytes of a flow's segments, at their addresses."""

    def __init__(
        self, spans: Iterable[tuple[int, Any]] = (), beyond: ByAddress | None = None, order: Order | None = None
    ) -> None:
        """`beyond` has the bytes of segments that are not held; `order` tells where they are."""
        super().__init__(())
        self.beyond = beyond
        self._order = order
        self._reached, self._moves = array("q"), array("q")
        """Two parallel arrays: the highest address up to each segment, in order, and the distance to the address that
        stands for the segment in its own file (captures.spark.read.reading.Segments). Empty until the first segments of
        merged files.
        """
        self._starts: list[int] = []
        self._payloads: list[Any] = []
        for at, payload in spans:
            self.add(at, payload)

    def add(self, at: int, payload: Any) -> None:
        """Add bytes at an address; addresses may come in any order."""
        if not self._starts or at > self._starts[-1]:
            self._starts.append(at)
            self._payloads.append(payload)
        else:
            i = bisect_right(self._starts, at)
            self._starts.insert(i, at)
            self._payloads.insert(i, payload)

    def extend(self, spans: Iterable[tuple[int, Any]]) -> None:
        """Add the bytes of several segments, as (address, bytes)."""
        for at, payload in spans:
            if payload:
                self.add(at, payload)

    def place(self, reached: Ints, moves: Ints) -> None:
        """Note in which files further segments are; for each of them, `reached` is the highest address up to it, and
        `moves` the distance to its address in its own file.
        """
        if self._reached or moves.any():
            self._reached.frombytes(reached.tobytes())
            self._moves.frombytes(moves.tobytes())

    @property
    def moved(self) -> Callable[[int], int] | None:
        """Maps an address to that in its own file, at which `beyond` has the byte; None if these are the same."""
        return self._moved if self._reached else None

    def _moved(self, at: int) -> int:
        i = bisect_right(self._reached, at) - 1
        return at if i < 0 else at + self._moves[i]

    def where(self, address: int) -> Place:
        """The Place of an address; in merged files, that in the file of the flow's last packet up to there, as
        captures.tables.origins.Origins gives it.
        """
        assert self._order is not None  # noqa: S101  # only sources without rows have none
        place = self._order.where(address)
        if place.id is not None or not self._reached:
            return place
        i = bisect_right(self._reached, address + 1) - 1
        if i < 0 or self._reached[i] < address - (place.offset or 0):
            return place
        return place._replace(id=self._order.merged_id(self._reached[i] + self._moves[i]))

    def moves(self, addresses: Iterable[int]) -> list[tuple[int, int]]:
        """What `place` noted of the segments that are the last up to one of these addresses."""
        chosen = {bisect_right(self._reached, at) - 1 for at in addresses}
        return [(self._reached[i], self._moves[i]) for i in sorted(chosen) if i >= 0]

    def kept(self, spans: Iterable[tuple[int, int]]) -> list[tuple[int, bytes]]:
        """(address, bytes) of the parts of segments that `spans` (address, length) need, in order.

        For each segment it is one stretch, from its first span to its last.
        """
        ranges: dict[int, tuple[int, int]] = {}
        for at, length in spans:
            i = bisect_right(self._starts, at) - 1
            if length > 0 and i >= 0:
                first, last = ranges.get(i, (at, at))
                ranges[i] = min(first, at), max(last, at + length)
        return [(first, bytes(self.read(first, last))) for _, (first, last) in sorted(ranges.items())]

    def read(self, start: int, end: int) -> bytes | memoryview:
        i = bisect_right(self._starts, start) - 1
        found: bytes | memoryview = b""
        if i >= 0:
            offset = start - self._starts[i]
            found = self._payloads[i][offset : offset + end - start]
        if self.beyond is None or len(found) == end - start:
            return found
        real = self._moved(start) if self._reached else start
        more = self.beyond.read(real, real + end - start)
        return more if len(more) > len(found) else found


Progress: TypeAlias = "tuple[list[tuple[int, Exchange]], Done]"


class FlowReader(Reader):
    """A Reader of the segments of one flow, which the caller supplies."""

    def __init__(self, source: FileSource, options: Options, order: Order, counter: FlowCounter) -> None:
        super().__init__(source, options.definitions, ports=options.ports, began=counter.began)
        self._order = order
        self._silences = order.silences
        self._ends = order.end
        self._born: dict[Connection, int] = {}

    def _orient(self, talk: Any, events: list[Any]) -> list[Any]:
        taken = super()._orient(talk, events)
        if talk.conversation is not None:
            self._born[talk.conversation.connection] = talk.connection.first_at
        return taken

    def resume(self, order: Order) -> None:
        """Continue with the segments of another batch, all of which follow the earlier ones."""
        self._silences = [*self._silences, *(each for each in order.silences if each[0] > self._ends)]
        self._ends = order.end

    @property
    def directions(self) -> Iterator[Direction]:
        """Both directions of each open connection."""
        for talk in self._talks:
            yield from talk.sides

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **{name: [] for name in ("started", "began", "done", "ranks", "ended")}}

    @property
    def over(self) -> bool:
        return self._reassembler.forgets_all(self._order.clock)

    def born(self, connection: Connection) -> int:
        """The address of a connection's first packet; 0 if nobody accepted the connection."""
        return self._born.get(connection, 0)

    def of(self, share: Share) -> Iterator[Progress]:
        """(exchanges that began, items that became complete) in some segments, both with addresses.

        At most BATCH segments are handled at a time; each time gives one result.
        """
        at = share.packets.at
        if self._silences and int(at[-1]) >= self._silences[0][0]:
            border, before, after = self._silences[0]
            count = int(np.searchsorted(at, border))
            yield from self._pieces(share.of(slice(count)))
            self._silences = self._silences[1:]
            yield from self.of(replace(share.of(slice(count, None)), missing=(before, after)))
        else:
            yield from self._pieces(share)

    def _pieces(self, share: Share) -> Iterator[Progress]:
        for start in range(0, len(share.packets), BATCH):
            piece = share.of(slice(start, start + BATCH))
            yield self._some(replace(piece, missing=None) if start else piece)

    def _some(self, share: Share) -> Progress:
        share.now, share.time = int(share.reached[-1]), int(share.clock[-1])
        self.take(share)
        return self.began, self.done

    def at_end(self) -> Iterator[Progress]:
        """(exchanges that began, items that became complete) by the end of the capture."""
        # one more, to include a last packet without payload, whose address is the end
        at, none = self._order.end + 1, np.empty(0, np.int64)
        for border, before, after in self._silences:
            self.take(Share(nothing(), none, none, none, border, after, (before, after)))
            yield self.began, self.done
        self._silences = []
        self.take(Share(nothing(), none, none, none, at, self._order.clock))
        yield self.began, self.done
        self.end(at)
        yield self.began, self.done


class Flow:
    """Turns one flow into items; `numbers` are the numbers that earlier batches gave to items."""

    def __init__(
        self,
        number: int,
        options: Options,
        order: Order,
        epochs: Mapping[int, int] = MappingProxyType({}),
        source: Held | None = None,
    ) -> None:
        """`number` is the flow_id; `epochs` counts earlier connections (captures.tables.keys.Flows)."""
        self.number = number
        self.source = Held(order=order) if source is None else source
        self.numbers: dict[Beginning, int] = {}
        self._order = order
        self._options = options
        self._counter = FlowCounter(order.capture, self.source.where)
        self._reader = FlowReader(self.source, options, order, self._counter)
        known = self._reader.definitions
        self._matcher, self._asked = None, None
        if options.filter is not None and options.facts is not None:
            self._asked = Asked(options.filter, self.source, known, options.facts)
        elif options.filter is not None:
            self._matcher = Matcher(options.filter, self.source, known)
        self._drafter = Drafter(
            order.capture,
            self.source,
            known,
            self.source.where,
            options.tables,
            self._reader.health,
            options.batch_limit,
        )
        self._drafter.flows.epochs |= epochs
        self._started: dict[Exchange, tuple[int, int]] = {}
        """For each incomplete exchange: (address at which it began, its rank)."""
        self._first: dict[Connection, int] = {}
        """For each connection, the address at which its first exchange began."""
        self._nth = 0
        self._rank = 0
        self._begun: tuple[int, frozenset[Connection]] | None = None
        """After `presume`: (last rank before it, connections that had exchanges before it)."""

    def take(self, parcel: Parcel) -> Iterator[Any]:
        """The items that further segments of the flow complete."""
        for key, first, last, counts, new in parcel.counts:
            self._counter.count(key, first, last, counts, new=new)
        self.source.extend(parcel.pieces())
        self.source.place(parcel.reached, parcel.real - parcel.packets.at)
        for began, done in self._reader.of(_share(parcel, self._order)):
            yield from self._items(began, done)

    def take_number(self, data: bytes) -> None:
        """Note the number of an item, from a row that captures.spark.read.asking.numbered made."""
        place, number = number_of(data)
        self.numbers[place] = number

    def resume(self, order: Order, numbers: Mapping[Beginning, int]) -> None:
        """Continue in the next batch of a stream; `numbers` are the numbers that earlier batches gave to items."""
        self.numbers = dict(numbers)
        self._reader.resume(order)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "numbers": {}}

    @property
    def directions(self) -> Iterator[Direction]:
        """Both directions of each open connection."""
        return self._reader.directions

    @property
    def epochs(self) -> Mapping[int, int]:
        return self._drafter.flows.epochs

    @property
    def over(self) -> bool:
        """Whether all connections of the flow ended so long ago that any further packet opens another connection."""
        return not self._started and self._reader.over

    def presume(self) -> None:
        """Note that all later items exist only if the capture ends here: their standing is OPEN or PRESUMED."""
        self._begun = self._rank, frozenset(self._first)

    def end(self) -> Iterator[Any]:
        for began, done in self._reader.at_end():
            yield from self._items(began, done)
        for exchange, (started, rank) in self._started.items():
            yield self._item("begun", started, None, self._reader.born(exchange.connection), rank=rank)
        seen = list(self._drafter.flows)
        rows = {
            connection: row
            for (connection, _), row in zip(seen, self._counter.flows(iter(seen)), strict=True)
        }  # fmt: skip
        for connection, started in self._first.items():
            row = rows.pop(connection, None)
            made: dict[str, list[Row]] = {FLOWS.name: [] if row is None else [list(row)]}
            had = self._begun is None or connection in self._begun[1]
            yield self._item("flow", started, None, self._reader.born(connection), made, had=had)
        for row in rows.values():
            yield self._item("silent", None, None, 0, {FLOWS.name: [list(row)]})

    def _items(self, began: list[tuple[int, Exchange]], done: Done) -> Iterator[Any]:
        for at, exchange in began:
            self._rank += 1
            self._started[exchange] = at, self._rank
            self._first.setdefault(exchange.connection, at)
        tells = self._options.findings
        if tells:
            for at, exchange in began:
                born, (_, rank) = self._reader.born(exchange.connection), self._started[exchange]
                yield self._event(events.BEGUN, at, at, born, b"", rank, 0)
        closings = {closing.connection: closing for closing in self._reader.closings} if tells else {}
        for at, item in done:
            born = self._reader.born(item.connection)
            selected = not isinstance(item, Exchange) or self._selects(item, at, born)
            if tells:
                _, rank = self._started[item] if isinstance(item, Exchange) else (0, 0)
                closing = closings.get(item.connection)
                ended, data = events.of_item(item, closing, self.source, selected=selected)
                yield self._event(events.DONE, at, at, born, data, rank, ended)
            if isinstance(item, Exchange) and not selected:
                knowledge = AnnouncedKnowledge()
                brokers = AnnouncedNodes(knowledge.announced) if self._options.undecided else None
                learn(item, self.source, self._reader.definitions, knowledge, brokers)
                started, rank = self._started.pop(item)
                yield self._item("begun", started, at, born, None, knowledge.announced, rank=rank)
                continue
            self._counter.add(item)
            if isinstance(item, StreamProblem):
                yield self._item("problem", None, at, born, {"anomalies": [self._drafter.anomaly(item)]})
            else:
                made = self._exchange(item, at, born, *self._started.pop(item))
                if made is not None:
                    yield made
        for closing in closings.values():
            ended, data = events.of_closing(closing)
            born = self._reader.born(closing.connection)
            yield self._event(events.ENDED, closing.at, closing.time, born, data, 0, ended)

    def _event(self, kind: str, at: int, then: int, born: int, data: bytes, rank: int, ended: int) -> tuple[Any, ...]:
        """An event row (captures.spark.read.events); `then` is the value of `done`."""
        standing = FINAL if self._begun is None else PRESUMED
        return _row(
            kind, standing, self.number, started=0 if ended else at, done=then, born=born, nth=self._nth, rank=rank,
            ended=ended, event=data,
        )  # fmt: skip

    def _selects(self, item: Exchange, at: int, born: int) -> bool:
        """Whether the filter selects a complete exchange; `at` and `born` are its `done` and `born` in ITEMS."""
        if self._options.undecided:
            return False
        if self._asked is not None:
            started, rank = self._started[item]
            number = self.numbers.get(("exchange", started, born, rank), 0)
            connection = self.numbers.get(("flow", self._first[item.connection], born, 0), 0)
            return self._asked.matches(item, (at, born, self._nth + 1), number, connection)
        return self._matcher is None or bool(self._matcher.matches(item))

    def _exchange(self, item: Exchange, at: int, born: int, started: int, rank: int) -> Any:
        closed_elsewhere = not _within(self._options.ranges, started >> GRANULE)
        if not self._options.bodies and not closed_elsewhere:
            return self._item("exchange", started, at, born, self._drafter.headers(item), rank=rank)
        if self._is_for_later(item):
            drafter = self._drafter
            flow, software = drafter.flows.of(item.connection), drafter.software(item.connection)
            found = drafter.was_found(item)
            if closed_elsewhere:
                return self._item("exchange", started, at, born, rank=rank)
            later = pack(item, flow.epoch, software, found=found, real=self.source.moved)
            return self._item("exchange", started, at, born, {}, packed=later, rank=rank)
        draft, bodies = self._drafter.draft(item)
        knowledge = AnnouncedKnowledge()
        learned = knowledge.announced
        if item.protocol is None:
            learn_both(bodies.request, bodies.response, knowledge)
            learned += ((NODE, f"{port} {host}", str(node)) for (host, port), node in nodes(item, bodies))
        if closed_elsewhere:
            return self._item("exchange", started, at, born, {}, learned, rank=rank)
        wants_records = RECORDS.name in self._options.tables
        if draft.open:
            records = open_records(item, self.source, self._reader.precision) if wants_records else None
            return self._item("exchange", started, at, born, {}, learned, pickle.dumps(Open(draft, records)), rank)
        rows = draft.close(unknown, None)
        if wants_records:
            rows[RECORDS.name] = records_of(draft.key, item, self._reader, knowledge)
        return self._item("exchange", started, at, born, rows, learned, rank=rank)

    def _is_for_later(self, item: Exchange) -> bool:
        """Whether an exchange needs no decoding in this stage.

        It yields no facts, and stage 3 can read its bytes by address, if it needs them.
        """
        if not self._options.bodies:
            return True
        if self.source.beyond is None or (item.protocol is None and item.api_key in early(self._options)):
            return False
        return self.source.beyond.has(item)

    def _item(
        self,
        kind: str,
        started: int | None,
        done: int | None,
        born: int,
        rows: dict[str, list[Row]] | None = None,
        learned: Sequence[tuple[str, str, str]] = (),
        open_: bytes | None = None,
        rank: int = 0,
        *,
        packed: bytes | None = None,
        had: bool = True,
    ) -> tuple[Any, ...]:
        self._nth += 1
        number = None
        if self.numbers and started is not None:
            number = self.numbers.get((COUNTED[kind], started, born, rank))
        standing = FINAL if self._begun is None else OPEN if had and rank <= self._begun[0] else PRESUMED
        wanted = self._options.tables
        made = {name: some for name, some in rows.items() if some and name in wanted} if rows else None
        span = (done if started is None else started) or 0
        return (
            kind, span >> GRANULE, started, done, born, self._nth, rank, number, standing, learned, open_,
            packed, self.number, None, *_NO_EVENT, made or None,
        )  # fmt: skip


def _share(parcel: Parcel, order: Order) -> Share:
    starts, clocks = order.clocks
    before = clocks[np.searchsorted(starts, parcel.packets.at, "right") - 1]
    clock = np.maximum(parcel.clock, before)
    return Share(parcel.packets, order.which(parcel.position), parcel.reached, clock, 0, 0)


EARLY: Final = TEACHING | {api_keys.API_VERSIONS}
"""API keys of exchanges that stage 2 decodes, because other exchanges depend on them."""


@lru_cache(maxsize=16)
def _defined_keys(release: str | None, user_definitions: tuple[str, ...]) -> frozenset[int]:
    """The API keys of messages that users define."""
    usual, found = definitions(release, ()).apis, definitions(release, user_definitions).apis
    return frozenset(key for key, api in found.items() if usual.get(key) != api)


def early(options: Options) -> frozenset[int]:
    """API keys of exchanges that stage 2 decodes. Messages that users define are among them: they may yield facts."""
    if not options.user_definitions:
        return EARLY
    return EARLY | _defined_keys(options.release, options.user_definitions)


def open_records(item: Exchange, source: Source, precision: int) -> OpenRecords:
    """The bytes of an exchange from which rows of its records can be made later."""
    frames = (frame for frame in (item.request, item.response) if frame is not None)
    spans = [(at, bytes(source.read(at, at + length))) for frame in frames for at, length in frame.spans]
    return OpenRecords(item, spans, precision)


def unknown(topic_id: bytes) -> str | None:
    """The name of a reserved topic id; None for all others, whose names are facts of other flows."""
    return RESERVED.get(bytes(topic_id))


def records_of(key: Key, item: Exchange, reader: Any, knowledge: Knowledge) -> list[Row]:
    """The rows of the table records for an exchange."""
    return list(record_rows(key, item, RecordLines(reader, View(knowledge=knowledge))))


Restore = Callable[[bytes], Flow]
"""Makes a flow from the bytes of its state (captures.spark.follow.flow_states.load)."""


def items(
    batches: Iterable[Any],
    options: Options,
    order: Order,
    addressed: Addressed | None = None,
    *,
    restore: Restore | None = None,
    end: Callable[[int, Flow], Iterator[Any]] | None = None,
) -> Iterator[Any]:
    """The items of flows as batches of ITEMS, from their parcels (captures.spark.read.packing.PARCELS).

    The rows of a flow must be adjacent, in the order of their position; batches may be cut anywhere. The payload that
    parcels lack is read from the files in `addressed`. `restore` makes a flow from the row of its state. `end` yields
    the items that follow a flow's last segment; by default these are the items that the end of the capture completes.
    The last item is the digest of the others. Items outside the `ranges` of the options are left out unless they have
    facts; they have no rows, and the digest counts them.
    """
    return packed(_digested(_items(batches, options, order, addressed, restore, end or _end), options.ranges))


def _end(_: int, flow: Flow) -> Iterator[Any]:
    return flow.end()


def _items(
    batches: Iterable[Any],
    options: Options,
    order: Order,
    addressed: Addressed | None,
    restore: Restore | None,
    end: Callable[[int, Flow], Iterator[Any]],
) -> Iterator[Any]:
    flow: Flow | None = None
    number = 0
    beyond = None if addressed is None else addressed.opened()
    decompress = zstandard.ZstdDecompressor().decompress
    for batch in batches:
        numbers, positions = (batch.column(name).to_pylist() for name in ("flow_id", "position"))
        for here, position, data in zip(numbers, positions, batch.column("data"), strict=True):
            if here is None:
                continue  # a summary
            if flow is not None and here != number:
                yield from end(number, flow)
                flow = None
            number = here
            if position == STATE and restore is not None:
                flow = restore(data.as_py())
                continue
            flow = flow or Flow(here, options, order, source=Held(beyond=beyond, order=order))
            if position == NUMBERS:
                flow.take_number(data.as_py())
            else:
                yield from flow.take(unpack(data.as_buffer(), decompress))
    if flow is not None:
        yield from end(number, flow)


_COLUMNS: Final = {name: index for index, name in enumerate(ITEMS.names)}
_NONE: Final[Mapping[str, list[Row]]] = {}


def _within(ranges: range | None, span: int) -> bool:
    """Whether items with this `range` get rows (Options.ranges)."""
    return ranges is None or span in ranges


def _digested(items: Iterable[tuple[Any, ...]], ranges: range | None) -> Iterator[tuple[Any, ...]]:
    """Items, as tuples of the columns of ITEMS whose `rows` are not pickled yet, followed by their digest.

    Those that have neither facts nor rows in these `ranges` are left out; the digest is that of all.
    """
    digest = Digest()
    names = ("kind", "range", "number", "rows", "learned", "done", "born", "nth", "standing", "state")
    kind, span, number, rows, learned, done, born, nth, standing, state = map(_COLUMNS.__getitem__, names)
    for item in items:
        if item[state] is None and item[_EVENT] is None:
            digest.take(item[kind], item[span], item[number], (item[rows] or _NONE).get(FLOWS.name))
            if item[learned]:
                place = (item[done], item[born], item[nth])
                digest.learn(item[learned], place, final=item[standing] == FINAL)
            elif not _within(ranges, item[span]):
                continue
        yield item
    yield of_state(DIGEST, digest.packed())


def of_state(kind: str, state: bytes, flow: int | None = None) -> tuple[Any, ...]:
    """An item without rows that holds a `state`."""
    return _row(kind, OPEN, flow, state=state)


def _row(kind: str, standing: str, flow: int | None, **columns: Any) -> tuple[Any, ...]:
    """A row of ITEMS that is no item; columns that are not given are null, or 0 if every row needs them."""
    held = {"kind": kind, "range": 0, "nth": 0, "rank": 0, "standing": standing, "flow_id": flow} | columns
    return tuple(map(held.get, ITEMS.names))


def packed(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Items, as tuples of the columns of ITEMS whose `rows` are not pickled yet, in batches."""
    held: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row[_EVENT] or row[_OPEN] or ())
        if len(held) == ROWS or size >= BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(held: Sequence[tuple[Any, ...]]) -> Any:
    *columns, rows = zip(*held, strict=True)
    columns.append(tuple(None if one is None else pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in rows))
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, ITEMS, strict=True)], schema=ITEMS
    )


def is_item(rows: Any) -> Any:
    """For each row of ITEMS, whether it is an item: neither a state or digest, nor an event."""
    return pc.and_(pc.is_null(rows.column("state")), pc.is_null(rows.column("event")))
