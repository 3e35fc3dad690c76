"""Stage 1 with claims: the segments of a split become parcels of flows, and claims: exchanges that the split decodes.

A split reads each flow as if the capture began there. The rows of plain exchanges stay with the split; they lack only
what the whole reading knows (captures.spark.claims.upholding). Stage 2 receives the flow's segments without the bytes
that only the decoder looked at. Stage 2 (captures.spark.claims.judging) reads the flow from its true beginning and
confirms the claims that it finds again, byte for byte. So a wrong claim costs time, but never changes a row.
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
from kproxy.captures.spark.read.flows import Held, Open, Options, Progress, open_records, records_of, unknown
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
"""Maximum bytes of payload in a portion; the flows of a split begin anew in the next portion, which bounds memory."""
OF_RECORDS: Final = PORTION >> 6
"""Maximum bytes of payload in a portion if records become rows, because decompression makes them larger."""
SEGMENTS_OF_PORTION: Final = 1 << 18
GROUP: Final = 2048
"""Maximum number of segments of flows that are processed together: few, so that the results stay in the CPU's cache."""
PORTIONS: Final = 1 << 24
"""Maximum number of portions of a split."""

TOLD: Final = tuple(table.name for table in (EXCHANGES, EXCHANGE_TOPICS, RECORD_BATCHES, RECORDS, GROUP_EVENTS))
"""Names of the tables in which claims have rows."""

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
"""There are three kinds of rows.

With `flow_id`: `data` is a packed Parcel whose first segment has this `position`. With `portion`: `claims` is a pickled
Claims, `drafts` a pickled list of (claim, Open) whose rows cannot be made yet, and each table's column holds its rows
as an Arrow stream; in them `CLAIM` is the row's claim, and the columns that depend on the whole reading
(captures.tables.schema.Table.later) are missing. With `summary`: as in captures.spark.read.reading.SEGMENTS.
"""
PARCEL: Final = ["flow_id", "position", "data"]
PARCELS: Final = pa.schema([CLAIMED.field(name) for name in PARCEL])
"""The input of stage 2."""
CLAIM: Final = "_claim"
"""Name of the column with the index of a row's claim among the claims of its portion."""


@dataclass(slots=True)
class Claims:
    """The claims of a portion, flow by flow, in the order of completion.

    `flows` are (flow_id, number of claims). For each claim, `started` and `done` are as in
    captures.spark.read.flows.ITEMS, `place` is the stream offset of its request as counted in this portion, `asked` and
    `answered` are the addresses of its frames (-1 for none).
    """

    flows: list[tuple[int, int]]
    started: Ints
    done: Ints
    place: Ints
    asked: Ints
    answered: Ints


class RowsOfClaims:
    """The rows of claims in a table, without the columns of captures.tables.schema.Table.later."""

    def __init__(self, name: str) -> None:
        self._table = TABLES[name]
        self._most = AT_ONCE * (len(self._table.given) - len(self._table.later))
        self._values: list[Any] = []
        """The values of the rows that are not columns yet, row after row."""
        self._batches: list[Any] = []
        self._whose = array("i")

    def __len__(self) -> int:
        return len(self._whose)

    def add(self, claim: int, rows: Sequence[Row]) -> None:
        """Add the rows of the claim with this index in the portion."""
        values, whose = self._values, self._whose
        for row in rows:
            values += row
            whose.append(claim)
        if len(values) >= self._most:
            self._turn()

    def batch(self) -> Any:
        """All rows, with their claims (`CLAIM`): a pyarrow.RecordBatch."""
        self._turn()
        return of_claims(pa.concat_batches(self._batches), np.array(self._whose, np.int64))

    def _turn(self) -> None:
        """Turn the last rows into columns, which take less memory."""
        values, self._values = self._values, []
        self._batches.append(arrow.of_values(self._table, values, self._table.later))


@dataclass(slots=True)
class _Made:
    """The claims of a portion so far.

    `flows` are (flow_id, number of claims); `numbers` and `texts` are those of captures.spark.claims.checks.Found.
    """

    flows: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[Ints] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    count: int = 0
    """Number of claims that have rows or drafts."""
    drafts: list[tuple[int, Open]] = field(default_factory=list)
    rows: dict[str, RowsOfClaims] = field(default_factory=lambda: {name: RowsOfClaims(name) for name in TOLD})

    def add(self, rows: Mapping[str, Sequence[Row]] | Open) -> None:
        """Add the rows of the next claim by table, or its draft if the rows need facts of other flows."""
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
    """The result of stage 1 for the wanted flows of a split: batches of CLAIMED.

    `capture` names the reading. With `whole`, only those flows are included, with all their bytes. Raises CaptureError
    if a file cannot be opened.
    """
    claims = not (options.filter or options.user_definitions or options.findings)
    claimer = _Claimer(options, capture, claim=whole is None and claims)
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
        """The rows of a portion: its flows, then its claims."""
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
        columns = dict(zip(NUMBERS, numbers, strict=True))
        asked, place = columns["asked"], columns["place"]
        claims = Columns((asked, place, columns["check"]), flows.borders(flows.whose[flows.at(asked)]))
        if len(found.numbers):
            counts = zip(flows.numbers, np.diff(claims.starts).tolist(), strict=True)
            made.flows += ((flow, count) for flow, count in counts if count)
            made.numbers.append(numbers)
            made.texts += found.texts
        frames = Frames(columns["asked_pieces"], columns["answered_pieces"], found.spans, found.talks)
        pieces = _pieces(flows, kept(flows.share.packets, frames.bodies(), looked), source)
        return Parcels(portion, flows, *pieces, claims, frames.stretches(flows, claims.starts, place))

    def _found(self, flows: Flows, source: Source, looked: Looked, made: _Made) -> Found:
        # whole readings need files, claims do not
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
        for began, done in _progress(reader, flows.share):
            found.take(began, done, has_rows if self._options.bodies else None)
        return found

    def _rows(self, item: Exchange, drafter: Sketcher, reader: Reader) -> Mapping[str, list[Row]] | Open | None:
        """The rows of an exchange, or what they will be made of once names are known; None if its bodies have
        anomalies.
        """
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
        """The row that holds the claims of a portion."""
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
    """Rows with their claims (`CLAIM`)."""
    return rows.append_column(CLAIM, pa.array(whose, pa.int32()))


def _stream(batch: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _progress(reader: Reader, share: Share) -> Iterator[Progress]:
    """The exchanges that each connection began and completed; those of a flow are adjacent."""
    for start in range(0, len(share.packets), BATCH):
        some = share.of(slice(start, start + BATCH))
        some.now, some.time = int(some.reached.max()), int(some.clock.max())
        yield from reader.each(some)


def kept(packets: Packets, bodies: tuple[Ints, Ints], looked: Looked) -> tuple[Ints, Ints]:
    """(first addresses, end addresses) of the bytes to send, each range within one segment.

    They are all bytes except those bodies of frames that only the decoder reads.
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
    found: Ints = np.sort(np.concatenate(numbers), kind="stable")  # stable: much faster on nearly sorted numbers
    return found


def _pieces(flows: Flows, given: tuple[Ints, Ints], source: Source) -> tuple[Columns, bytes]:
    """(columns `pieces_at` and `sizes`, bytes) of the pieces of segments to send, flow by flow."""
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
