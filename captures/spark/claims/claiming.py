"""Stage 1 behind the reading: the segments of a split to parcels of flows, and to claims, exchanges that it is sure of.

A split reads each flow as if the capture began there. What it decodes of plain exchanges stays with it, as rows that
lack only what the whole reading tells (captures.spark.claims.upholding); to stage 2 go the flow's segments without the
bytes that nobody but the decoder has looked at. Stage 2 (captures.spark.claims.judging) reads the flow from its true
beginning and upholds the claims that it finds there again, byte for byte; so a wrong claim costs time and no row.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from kproxy.captures.garbage import one_collection
from kproxy.captures.reader import BATCH, Reader
from kproxy.captures.source import FileSource
from kproxy.captures.spark.claims.by_flow import ByFlow, Flows
from kproxy.captures.spark.claims.checks import NUMBERS
from kproxy.captures.spark.claims.compiled import Found, Looked, Mapped
from kproxy.captures.spark.claims.packing import Columns, Parcels
from kproxy.captures.spark.claims.plain import Frames
from kproxy.captures.spark.plan.order import Summary
from kproxy.captures.spark.plan.splits import Split
from kproxy.captures.spark.read import reading
from kproxy.captures.spark.read.flows import Held, Open, Options, Told, open_records, records_of, unknown
from kproxy.captures.tables import arrow, headers
from kproxy.captures.tables.arrow import AT_ONCE
from kproxy.captures.tables.rows import Row, Sketcher
from kproxy.captures.tables.schema import EXCHANGE_TOPICS, EXCHANGES, GROUP_EVENTS, RECORD_BATCHES, RECORDS, TABLES
from kproxy.captures.tcp.packets import Ints, Packets, together
from kproxy.captures.tcp.reassembly import Share
from kproxy.decoders.exchange import Exchange
from kproxy.decoders.knowledge import Knowledge
from kproxy.decoders.stream import Source

PORTION: Final = 128 << 20
"""Bytes of payload after which the flows of a split begin anew, so that memory has a bound."""
OF_RECORDS: Final = PORTION >> 6
"""The same where records are rows, which decompression makes larger."""
SEGMENTS_OF_PORTION: Final = 1 << 18
GROUP: Final = 2048
"""Segments of flows that are looked at together: a few, so that what is made of them stays in the processor's cache."""
PORTIONS: Final = 1 << 24
"""Portions that a split may have."""

TOLD: Final = tuple(table.name for table in (EXCHANGES, EXCHANGE_TOPICS, RECORD_BATCHES, RECORDS, GROUP_EVENTS))
"""The tables that claims have rows of."""

CLAIMED: Final = pa.schema([
    ("flow_id", pa.int64()),
    ("position", pa.int64()),
    ("data", pa.binary()),
    ("portion", pa.int64()),
    ("claims", pa.binary()),
    ("drafts", pa.binary()),
    *((name, pa.binary()) for name in TOLD),
    ("summary", pa.string()),
])  # fmt: skip
"""A row is one of three.

With `flow_id`: `data` is a packed Parcel whose first segment has this `position`. With `portion`: `claims` is a pickled
Claims, `drafts` a pickled list of (claim, Open) whose rows cannot be made yet, and each table's column its rows as an
Arrow stream, in which `CLAIM` says whose they are, and which lacks the columns that only the whole reading tells
(captures.tables.schema.Table.later). With `summary`: as in captures.spark.read.reading.SEGMENTS.
"""
PARCEL: Final = ["flow_id", "position", "data"]
PARCELS: Final = pa.schema([CLAIMED.field(name) for name in PARCEL])
"""What stage 2 takes."""
CLAIM: Final = "_claim"
"""The column that says which claim of the portion a row belongs to."""


@dataclass(slots=True)
class Claims:
    """The claims of a portion, flow by flow, in the order in which they were complete.

    `flows` are (flow_id, number of claims). Of each claim `started` and `done` are as in
    captures.spark.read.flows.ITEMS, `place` is the stream offset of its request as counted here, `asked` and `answered`
    are the addresses of its frames (-1 for none).
    """

    flows: list[tuple[int, int]]
    started: Ints
    done: Ints
    place: Ints
    asked: Ints
    answered: Ints


class RowsOfClaims:
    """Rows of a table that claims have: without the columns of captures.tables.schema.Table.later."""

    def __init__(self, name: str) -> None:
        self._table = TABLES[name]
        self._most = AT_ONCE * (len(self._table.given) - len(self._table.later))
        self._values: list[Any] = []
        """Those of the last rows, row behind row."""
        self._batches: list[Any] = []
        self._whose = array("i")

    def __len__(self) -> int:
        return len(self._whose)

    def add(self, claim: int, rows: Sequence[Row]) -> None:
        """Take in rows of a claim of the portion."""
        values, whose = self._values, self._whose
        for row in rows:
            values += row
            whose.append(claim)
        if len(values) >= self._most:
            self._turn()

    def batch(self) -> Any:
        """All of them, with the claims that they belong to (`CLAIM`): a pyarrow.RecordBatch."""
        self._turn()
        return of_claims(pa.concat_batches(self._batches), np.array(self._whose, np.int64))

    def _turn(self) -> None:
        """Make columns of the last rows, which take less room."""
        values, self._values = self._values, []
        self._batches.append(arrow.of_values(self._table, values, self._table.later))


@dataclass(slots=True)
class _Made:
    """What a portion claims so far: how many claims of each flow, and numbers and texts of each claim
    (captures.spark.claims.checks).
    """

    flows: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[Ints] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    count: int = 0
    """Claims that have rows."""
    drafts: list[tuple[int, Open]] = field(default_factory=list)
    rows: dict[str, RowsOfClaims] = field(default_factory=lambda: {name: RowsOfClaims(name) for name in TOLD})

    def add(self, rows: Mapping[str, Sequence[Row]] | Open) -> None:
        """Take in the rows of a claim, or what they are made of once names are known."""
        if isinstance(rows, Open):
            self.drafts.append((self.count, rows))
        else:
            for name, some in rows.items():
                if some:
                    self.rows[name].add(self.count, some)
        self.count += 1


def read(
    split: Split,
    options: Options,
    capture: str,
    whole: frozenset[int] | None = None,
) -> Iterator[Any]:
    """What a split says of the flows that are wanted: batches of CLAIMED.

    `capture` names the reading. With `whole` only those flows are told of, with all their bytes. Raises CaptureError
    where a file cannot be opened.
    """
    claimer = _Claimer(options, capture, claim=whole is None and not (options.filter or options.user_definitions))
    held = ByFlow()
    portion = split.number * PORTIONS
    most = OF_RECORDS if RECORDS.name in options.tables else PORTION
    source: Source | None = None
    for found in reading.segments(split, options.ports):
        if isinstance(found, Summary):
            yield _batch({"summary": [found.json()]})
            continue
        some = found if whole is None else found.only(whole)
        if not len(some.packets):
            continue
        if some.stays:
            source = source or Mapped(some.view, some.base)
        else:
            source = source or Held()
            cast("Held", source).extend(zip(some.packets.at.tolist(), some.payload(), strict=True))
        held.add(some)
        if held.size >= most or len(held) >= SEGMENTS_OF_PORTION:
            yield from claimer.portion(portion, held, source)
            held, source = ByFlow(), None
            portion += 1
    if source is not None:
        yield from claimer.portion(portion, held, source)


class _Claimer:
    def __init__(self, options: Options, capture: str, *, claim: bool) -> None:
        self._options = options
        self._capture = capture
        self._claim = claim

    def portion(self, number: int, some: ByFlow, source: Source) -> list[Any]:
        """The rows of a portion: its flows, and then its claims."""
        with one_collection():
            return list(self._portion(number, some, source))

    def _portion(self, number: int, some: ByFlow, source: Source) -> Iterator[Any]:
        made = _Made()
        sent: list[tuple[int, int, bytes]] = []
        for flows in some.groups(GROUP):
            sent += self._parcels(number, flows, source, made).packed()
        yield _batch(dict(zip(PARCEL, zip(*sent, strict=True), strict=True)))
        if made.flows:
            yield self._claims(number, made)

    def _parcels(self, portion: int, flows: Flows, source: Source, made: _Made) -> Parcels:
        looked = Looked(source)
        found = self._found(flows, source, looked, made) if self._claim else Found()
        numbers = np.frombuffer(found.numbers, np.int64).reshape(-1, len(NUMBERS)).T
        told = dict(zip(NUMBERS, numbers, strict=True))
        asked, place = told["asked"], told["place"]
        claims = Columns((asked, place, told["check"]), flows.borders(flows.whose[flows.at(asked)]))
        if len(found.numbers):
            counts = zip(flows.numbers, np.diff(claims.starts).tolist(), strict=True)
            made.flows += ((flow, count) for flow, count in counts if count)
            made.numbers.append(numbers)
            made.texts += found.texts
        frames = Frames(told["asked_pieces"], told["answered_pieces"], found.spans, found.talks)
        pieces = _pieces(flows, kept(flows.share.packets, frames.bodies(), looked), source)
        return Parcels(portion, flows, *pieces, claims, frames.stretches(flows, claims.starts, place))

    def _found(self, flows: Flows, source: Source, looked: Looked, made: _Made) -> Found:
        # files are for who reads whole captures
        options = self._options
        reader = Reader(cast("FileSource", looked), options.definitions, ports=options.ports, patience=0)
        drafter = Sketcher(source, reader.definitions, self._options.tables)

        def has_rows(item: Exchange) -> bool:
            rows = self._rows(item, drafter, reader)
            if rows is None:
                return False
            made.add(rows)
            return True

        found = Found()
        for began, done in _told(reader, flows.share):
            found.take(began, done, has_rows if self._options.bodies else None)
        return found

    def _rows(self, item: Exchange, drafter: Sketcher, reader: Reader) -> Mapping[str, list[Row]] | Open | None:
        """An exchange's rows, or what they are made of once names are known; None where its bodies are odd."""
        draft, bodies = drafter.draft(item)
        if bodies.problems or bodies.undecoded or bodies.cut:
            return None
        wants_records = RECORDS.name in self._options.tables
        if draft.open:
            return Open(draft, open_records(item, drafter.source, reader.precision) if wants_records else None)
        rows = draft.close(unknown, None)
        if wants_records:
            rows[RECORDS.name] = records_of(draft.key, item, reader, Knowledge())
        return rows

    def _claims(self, number: int, made: _Made) -> Any:
        """The row of a portion's claims."""
        numbers = dict(zip(NUMBERS, np.concatenate(made.numbers, axis=1), strict=True))
        claims = Claims(made.flows, *(numbers[one.name] for one in fields(Claims)[1:]))
        tables = {name: [_stream(rows.batch())] for name, rows in made.rows.items() if len(rows)}
        if not self._options.bodies:
            rows = headers.batch(numbers, made.texts, self._options.definitions.api_name)
            tables[EXCHANGES.name] = [_stream(of_claims(rows, np.arange(len(rows))))]
        return _batch({
            "portion": [number], "claims": [pickle.dumps(claims, pickle.HIGHEST_PROTOCOL)],
            "drafts": [pickle.dumps(made.drafts, pickle.HIGHEST_PROTOCOL)] if made.drafts else [None], **tables,
        })  # fmt: skip


def of_claims(rows: Any, whose: Ints) -> Any:
    """Rows with the claims that they belong to (`CLAIM`)."""
    return rows.append_column(CLAIM, pa.array(whose, pa.int32()))


def _stream(batch: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _told(reader: Reader, share: Share) -> Iterator[Told]:
    """What each connection began and completed; all of a flow's come together."""
    for start in range(0, len(share.packets), BATCH):
        some = share.of(slice(start, start + BATCH))
        some.now, some.time = int(some.reached.max()), int(some.clock.max())
        yield from reader.each(some)


def kept(packets: Packets, bodies: tuple[Ints, Ints], looked: Looked) -> tuple[Ints, Ints]:
    """Where the bytes begin and end that are sent, none beyond a segment: all but bodies that nobody looked into.

    What was looked at ends with the segment that it begins in.
    """
    some = packets.stored > 0
    begins, stops = _in_order(packets.at[some]), _in_order((packets.at + packets.stored)[some])
    starts, ends = bodies
    first, until = np.frombuffer(looked.starts, np.int64), np.frombuffer(looked.ends, np.int64)
    until = np.minimum(until, np.append(stops, 0)[np.searchsorted(begins, first, "right") - 1])
    count = len(starts) + 1
    into = np.cumsum(
        np.bincount(np.searchsorted(ends, first, "right"), minlength=count)
        - np.bincount(np.searchsorted(starts, until), minlength=count)
    )[:-1]
    starts, ends = starts[into == 0], ends[into == 0]
    begin, end = _in_order(begins, ends), _in_order(stops, starts)
    return begin[begin < end], end[begin < end]


def _in_order(*numbers: Ints) -> Ints:
    found: Ints = np.sort(np.concatenate(numbers), kind="stable")  # many times as fast where much is in order already
    return found


def _pieces(flows: Flows, given: tuple[Ints, Ints], source: Source) -> tuple[Columns, bytes]:
    """Bytes that are sent, and where they are, flow by flow."""
    flow = flows.whose[flows.at(given[0])]
    order = together(flow, len(flows.numbers))
    starts, ends = (column[order] for column in given)
    data = b"".join(map(source.read, starts.tolist(), ends.tolist()))
    return Columns((starts, ends - starts), flows.borders(flow[order])), data


def _batch(columns: dict[str, Sequence[Any]]) -> Any:
    count = len(next(iter(columns.values())))
    return pa.record_batch(
        [pa.array(columns.get(one.name, [None] * count), one.type) for one in CLAIMED], schema=CLAIMED
    )
