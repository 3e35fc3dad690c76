"""Stage 1 behind the reading: the segments of a split to parcels of flows, and to claims, exchanges that it is sure of.

A split reads each flow as if the capture began there. What it decodes of plain exchanges stays with it, as rows that
lack only what the whole reading tells (captures.spark.upholding); to stage 2 go the flow's segments without the bytes
that nobody but the decoder has looked at. Stage 2 (captures.spark.judging) reads the flow from its true beginning and
upholds the claims that it finds there again, byte for byte; so a claim that is wrong costs time and no row.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from captures.ports import Ports
from captures.source import FileSource
from captures.spark import reading
from captures.spark.flows import FlowReader, Held, Open, Options, open_records, records_of, unknown
from captures.spark.order import Order, Summary
from captures.spark.packing import Parcel
from captures.spark.planning import WIDE, Split
from captures.spark.reading import Segments
from captures.tables import arrow
from captures.tables.flows import FlowCounter
from captures.tables.rows import Drafter, Row
from captures.tables.schema import EXCHANGE_TOPICS, EXCHANGES, GROUP_EVENTS, RECORD_BATCHES, RECORDS, TABLES
from captures.tcp.packets import Ints, joined
from captures.tcp.reassembly import Share
from decoders.conversation.loop import HEAD
from decoders.exchange import Exchange, Frame, Status
from decoders.knowledge import TEACHING, Knowledge

PORTION: Final = 64 << 20
"""Bytes of payload after which the flows of a split begin anew, so that memory has a bound."""
OF_RECORDS: Final = PORTION >> 5
"""The same where records are rows, which decompression makes larger."""
SEGMENTS_OF_PORTION: Final = 1 << 17
PORTIONS: Final = 1 << 24
"""Portions that a split may have."""
UNCLAIMED: Final = TEACHING | {17, 18, 36}
"""API keys of what tells something of others or of its connection: topics, groups, brokers, software, principals."""

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
Arrow stream, in which `CLAIM` says whose they are. With `summary`: as in captures.spark.reading.SEGMENTS.
"""
PARCEL: Final = ["flow_id", "position", "data"]
PARCELS: Final = pa.schema([CLAIMED.field(name) for name in PARCEL])
"""What stage 2 takes."""
CLAIM: Final = "_claim"
"""The column that says which claim of the portion a row belongs to."""


@dataclass(slots=True)
class Claims:
    """The claims of a portion, flow by flow, in the order in which they were complete.

    `flows` are (flow_id, number of claims). Of each claim `started` and `done` are as in captures.spark.flows.ITEMS,
    `place` is the stream offset of its request as counted here, `asked` and `answered` are the addresses of its frames
    (-1 for none).
    """

    flows: list[tuple[int, int]]
    started: Ints
    done: Ints
    place: Ints
    asked: Ints
    answered: Ints


class Mapped(FileSource):
    """The bytes of a file that is mapped, from an address on."""

    def __init__(self, view: memoryview, base: int) -> None:
        super().__init__(())
        self._view = view
        self._base = base

    def read(self, start: int, end: int) -> bytes | memoryview:
        return self._view[start - self._base : end - self._base]


class Looked(FileSource):
    """Bytes of another source; notes which of them were looked at."""

    def __init__(self, source: FileSource) -> None:
        super().__init__(())
        self._read = source.read
        self.at: list[tuple[int, int]] = []

    def read(self, start: int, end: int) -> bytes | memoryview:
        self.at.append((start, end))
        return self._read(start, end)


@dataclass(slots=True)
class _Made:
    """What a portion claims so far."""

    flows: list[tuple[int, int]] = field(default_factory=list)
    numbers: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    drafts: list[tuple[int, Open]] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TOLD})
    whose: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in TOLD})

    def add(self, number: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """Take in the rows of a claim."""
        for name in TOLD:
            some = rows.get(name, ())
            self.rows[name] += some
            self.whose[name] += [number] * len(some)


@dataclass(slots=True)
class _Found:
    """What a flow claims: as in Parcel, and where all frames of it lie."""

    asked: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)


def read(
    split: Split,
    options: Options,
    capture: str,
    wanted: Ports | None = None,
    whole: frozenset[int] | None = None,
) -> Iterator[Any]:
    """What a split says of the flows with ports that are wanted: batches of CLAIMED.

    `capture` names the reading. With `whole` only those flows are told of, with all their bytes. Raises CaptureError
    where a file cannot be opened.
    """
    claimer = _Claimer(options, capture, claim=whole is None and options.filter is None and not options.given)
    held: list[Segments] = []
    size = count = 0
    portion = split.number * PORTIONS
    most = OF_RECORDS if RECORDS.name in options.tables else PORTION
    source: FileSource | None = None
    for found in reading.segments(split, wanted):
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
        held.append(some)
        size += int(some.packets.stored.sum())
        count += len(some.packets)
        if size >= most or count >= SEGMENTS_OF_PORTION:
            yield from claimer.portion(portion, held, source)
            held, size, count, source = [], 0, 0, None
            portion += 1
    if held and source is not None:
        yield from claimer.portion(portion, held, source)


def plain(item: Exchange) -> bool:
    """Whether nothing is odd about an exchange, so that two readings that see the same frames see the same in it."""
    frames = [frame for frame in (item.request, item.response) if frame is not None]
    return (
        item.request is not None
        and (item.status is Status.OK or item.status is Status.NO_REPLY_EXPECTED)
        and item.api_key not in UNCLAIMED
        and item.protocol is None
        and not item.problems
        and not item.token
        and item.session is None
        and all(_plain(frame) for frame in frames)
    )


def _plain(frame: Frame) -> bool:
    spans = frame.spans
    return (
        not frame.missing
        and not frame.comments
        and len(spans) > 0
        and frame.at == spans[-1][0] + spans[-1][1] - 1
        and (len(spans) == 1 or all(one[0] < other[0] for one, other in pairwise(spans)))
    )


def check(item: Exchange, started: int, done: int) -> int:
    """All that the rows of a plain exchange are made of, and that it is plain, as 32 bits."""
    connection = item.connection
    told = (
        started, done,
        _words(item.client_id, item.status, item.reason, connection.client, connection.broker),
        -1 if item.api_key is None else item.api_key,
        -1 if item.api_version is None else item.api_version,
        -1 if item.correlation_id is None else item.correlation_id,
        bool(item.problems) or item.token or item.protocol is not None or item.session is not None,
        *_told(item.request), *_told(item.response),
    )  # fmt: skip
    return hash(told) & 0xFFFFFFFF


@lru_cache(maxsize=1024)
def _words(*words: str | None) -> int:
    # other than of numbers, Python's hash of a text is another in each process
    return zlib.crc32("\0".join(map(str, words)).encode("utf-8", "replace"))


def _told(frame: Frame | None) -> tuple[Any, ...]:
    if frame is None:
        return ()
    odd = frame.missing + len(frame.comments)
    return frame.size, frame.first_time, frame.time, frame.at, odd, tuple(frame.spans)


class _Claimer:
    def __init__(self, options: Options, capture: str, *, claim: bool) -> None:
        self._options = options
        self._capture = capture
        self._claim = claim

    def portion(self, number: int, some: Sequence[Segments], source: FileSource) -> Iterator[Any]:
        """The rows of a portion: its flows, and then its claims."""
        made = _Made()
        sent = []
        for flow, share in _by_flow(some):
            parcel = self._parcel(number, flow, share, source, made)
            sent.append((flow, int(parcel.position[0]), parcel.pack()))
        if sent:
            yield _batch(dict(zip(PARCEL, zip(*sent, strict=True), strict=True)))
        if made.numbers:
            yield _portion(number, made)

    def _parcel(self, portion: int, flow: int, some: Share, source: FileSource, made: _Made) -> Parcel:
        packets = some.packets
        looked = Looked(source)
        found = self._claims(flow, some, source, looked, made) if self._claim else _Found()
        pieces = _kept(packets.at, packets.stored, found.spans, looked.at) if found.spans else _all(packets)
        return Parcel(
            portion, packets, some.which, some.reached, some.clock,
            pieces[0], [source.read(start, end) for start, end in zip(*(one.tolist() for one in pieces), strict=True)],
            np.array(found.asked, np.int64), np.array(found.places, np.int64), found.checks,
        )  # fmt: skip

    def _claims(self, flow: int, some: Share, source: FileSource, looked: Looked, made: _Made) -> _Found:
        last, clock = int(some.reached[-1]), int(some.clock[-1])
        base = last // WIDE * WIDE
        order = Order(self._capture, (Summary(0, 0, "", base, WIDE, base, last, last, clock=clock),))
        reader = FlowReader(looked, self._options, order, FlowCounter(self._capture, ()))
        drafter = Drafter(self._capture, source, reader.definitions, _at, self._options.tables)
        found = _Found()
        begun: dict[Exchange, int] = {}
        for began, done in reader.of(some):
            begun.update((exchange, at) for at, exchange in began)
            for at, item in done:
                if not isinstance(item, Exchange):
                    continue
                started = begun.pop(item, None)
                frames = [frame for frame in (item.request, item.response) if frame is not None]
                if started is None or not plain(item) or not _natural(started, at, frames):
                    continue
                rows = self._rows(item, drafter, reader)
                if rows is None:
                    continue
                number = _number(made, started, at, frames)
                if isinstance(rows, Open):
                    made.drafts.append((number, rows))
                else:
                    made.add(number, rows)
                found.asked.append(frames[0].spans[0][0])
                found.places.append(frames[0].stream_offset)
                found.checks.append(check(item, started, at))
                for frame in frames:
                    found.spans += frame.spans
                    looked.at += _head(frame)
        if found.asked:
            made.flows.append((flow, len(found.asked)))
        return found

    def _rows(self, item: Exchange, drafter: Drafter, reader: FlowReader) -> Mapping[str, list[Row]] | Open | None:
        """An exchange's rows, or what they are made of once names are known; None where its bodies are odd."""
        if not self._options.bodies:
            return drafter.headers(item)[1]
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


def _head(frame: Frame) -> Iterator[tuple[int, int]]:
    """Where the bytes of a frame lie that are looked at in any case."""
    left = HEAD
    for at, length in frame.spans:
        yield at, at + min(length, left)
        left -= length
        if left <= 0:
            break


def _by_flow(some: Sequence[Segments]) -> Iterator[tuple[int, Share]]:
    """The segments of each flow, in order."""
    flows = np.concatenate([one.flows for one in some])
    position, reached, clock = (
        np.concatenate([getattr(one, name) for one in some]) for name in ("position", "reached", "clock")
    )
    packets = joined([one.packets for one in some])
    order = np.lexsort((position, flows))
    borders = np.flatnonzero(np.diff(flows[order])) + 1
    for mine in np.split(order, borders):
        yield int(flows[mine[0]]), Share(packets.some(mine), position[mine], reached[mine], clock[mine], 0, 0)


def _natural(started: int, done: int, frames: Sequence[Frame]) -> bool:
    """Whether it began and ended with bytes of its own, so that nothing else of its flow did at the same."""
    first, size = frames[0].spans[0]
    return first <= started < first + size and done == frames[-1].at


def _number(made: _Made, started: int, done: int, frames: Sequence[Frame]) -> int:
    """The number of another claim among those of its portion."""
    answered = frames[1].spans[0][0] if len(frames) > 1 else -1
    made.numbers.append((started, done, frames[0].stream_offset, frames[0].spans[0][0], answered))
    return len(made.numbers) - 1


def _portion(number: int, made: _Made) -> Any:
    claims = Claims(made.flows, *(np.array(column, np.int64) for column in zip(*made.numbers, strict=True)))
    tables = {name: [_stream(with_claims(name, made.rows[name], made.whose[name]))] for name in TOLD if made.rows[name]}
    return _batch({
        "portion": [number], "claims": [pickle.dumps(claims, pickle.HIGHEST_PROTOCOL)],
        "drafts": [pickle.dumps(made.drafts, pickle.HIGHEST_PROTOCOL)] if made.drafts else [None], **tables,
    })  # fmt: skip


def with_claims(name: str, rows: Sequence[Row], whose: Sequence[int]) -> Any:
    """Rows of a table with the claims that they belong to: a pyarrow.RecordBatch."""
    return arrow.batch(TABLES[name], rows).append_column(CLAIM, pa.array(whose, pa.int32()))


def _stream(batch: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _at(address: int) -> tuple[str, int]:
    return "", address


def _all(packets: Any) -> tuple[Ints, Ints]:
    some = np.flatnonzero(packets.stored)
    return packets.at[some], (packets.at + packets.stored)[some]


def _kept(at: Ints, stored: Ints, claimed: Sequence[tuple[int, int]], looked: Sequence[tuple[int, int]]) -> Any:
    """Where the bytes begin and end that lie in no claimed frame, or were looked at; none beyond a segment."""
    frames, looks = np.array(claimed, np.int64).reshape(-1, 2), np.array(looked, np.int64).reshape(-1, 2)
    some = np.flatnonzero(stored)
    at, ends = at[some], (at + stored)[some]
    borders = (at, ends, frames[:, 0], frames.sum(axis=1), looks[:, 0], looks[:, 1])
    kinds = np.repeat(np.arange(3), [2 * len(one) for one in (at, frames, looks)])
    where = np.concatenate(borders)
    steps = np.concatenate([
        np.repeat(np.array([1, -1]), [len(one), len(one)]) for one in (at, frames, looks)
    ])  # fmt: skip
    order = np.argsort(where, kind="stable")
    where, kinds, steps = where[order], kinds[order], steps[order]
    depth = [np.cumsum(np.where(kinds == kind, steps, 0)) for kind in range(3)]
    keep = (depth[0] > 0) & ((depth[1] == 0) | (depth[2] > 0))
    last = np.append(where[1:] != where[:-1], True)
    where, keep = where[last], keep[last]
    before = np.concatenate([[False], keep[:-1]])
    cut = np.isin(where, at)
    starts = where[keep & (~before | cut)]
    stops = where[before & (~keep | cut)]
    return starts, stops


def _batch(columns: dict[str, Sequence[Any]]) -> Any:
    count = len(next(iter(columns.values())))
    return pa.record_batch(
        [pa.array(columns.get(one.name, [None] * count), one.type) for one in CLAIMED], schema=CLAIMED
    )
