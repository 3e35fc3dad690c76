"""Packs the packets that a split has of a flow into few bytes, for the shuffle between stage 1 and stage 2.

Sequence and acknowledgement numbers are written as differences from the values that they would have without lost or
repeated segments. All columns are written byte plane by byte plane, which zstd compresses well. The columns of several
flows are computed at once and then divided among the flows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import zstandard

from kproxy.captures.spark.read.by_flow import Flows
from kproxy.captures.tcp.packets import Ints, Packets, Where
from kproxy.decoders.stream import Source

PARCELS: Final = pa.schema([
    ("flow_id", pa.int64()), ("position", pa.int64()), ("data", pa.binary()), ("summary", pa.string()),
])  # fmt: skip
"""The result of stage 1: `data` is a packed Parcel of the flow, whose first segment has this `position`.

A row with a `summary` is as in captures.spark.read.reading.SEGMENTS. Rows with a negative `position` precede the
parcels of their flow: STATE, or captures.spark.read.asking.NUMBERS.
"""
STATE: Final = -1
"""`position` of a row whose `data` is the state of a flow (captures.spark.follow.flow_states)."""
_LEVEL: Final = 1
"""Compression level of zstd: half the time of the default level, for 3 % more bytes."""
_STEPS: Final = 4
_STEPS_OF_PIECES: Final = 1
"""Number of leading columns, of segments and of pieces, that are written as differences of successive numbers."""
_Planes: TypeAlias = tuple[int, bytes, bytes, bytes]
"""Columns of equal length: (count of numbers, first number of each column, width in bytes of each column's numbers,
data).

`data` has, for each column, all lowest bytes, all next bytes, and so on.
"""

_ONE: Final = np.zeros(1, np.int64)
"""The start of a single flow."""


@dataclass(slots=True)
class Parcel:
    """The segments of a flow in a portion of a split.

    `packets` are the segments, `position`, `reached` and `clock` as in captures.spark.read.reading.SEGMENTS, `real` as
    in captures.spark.read.reading.Segments, `counts` the result of captures.tables.flows.counted with directions in
    place of their numbers. Of their payload, `data` has `sizes[i]` bytes from each of the addresses `pieces_at[i]` on.
    """

    packets: Packets
    position: Ints
    reached: Ints
    clock: Ints
    real: Ints
    pieces_at: Ints
    sizes: Ints
    data: memoryview
    counts: Sequence[tuple[bytes, int, int, list[int], bool]]

    def pieces(self) -> Iterator[tuple[int, memoryview]]:
        """(address, bytes) of each piece of the payload; a piece lies in one segment."""
        ends = np.cumsum(self.sizes)
        for at, start, end in zip(self.pieces_at.tolist(), (ends - self.sizes).tolist(), ends.tolist(), strict=True):
            yield at, self.data[start:end]


class Columns(NamedTuple):
    """Columns of numbers, one flow after another: flow i has the numbers [starts[i], starts[i + 1]) of each column."""

    columns: Sequence[Ints]
    starts: Ints


def packed(flows: Flows, pieces: Columns, source: Source) -> Iterator[tuple[int, int, bytes]]:
    """For each flow: its flow_id, the position of its first segment, and its parcel as bytes for `unpack`.

    `pieces` has the columns `pieces_at` and `sizes` of Parcel; their bytes are read from `source`.
    """
    compress = zstandard.ZstdCompressor(_LEVEL).compress
    packets, comments, counts = flows.share.packets, flows.comments, flows.counts
    bases, segments = _of_segments(flows)
    at, sizes = pieces.columns
    of_flows = zip(
        flows.numbers,
        flows.position[flows.starts[:-1]].tolist(),
        pairwise(flows.directions.tolist()),
        pairwise(pieces.starts.tolist()),
        bases,
        _planes(segments, _STEPS),
        _planes(pieces, _STEPS_OF_PIECES),
        strict=True,
    )
    for i, (number, position, (first, end), (low, high), base, *planes) in enumerate(of_flows):
        starts = at[low:high]
        data = b"".join(map(source.read, starts.tolist(), (starts + sizes[low:high]).tolist()))
        parts = packets.directions[first:end], counts[i], comments.get(i, {}), base.tobytes(), *planes, data
        yield number, position, compress(pickle.dumps(parts, pickle.HIGHEST_PROTOCOL))


def unpack(data: Any, decompress: Callable[[Any], bytes] = zstandard.decompress) -> Parcel:
    """The parcel from its packed bytes."""
    directions, counts, comments, base, planes, of_pieces, payload = pickle.loads(decompress(data))  # noqa: S301  # of our own stage 1
    position, time, at, real, which, late, seq, ack, flags, reached, length, lacking = _numbers(planes, _STEPS)
    pieces_at, sizes = _numbers(of_pieces, _STEPS_OF_PIECES)
    expected, acknowledged = _expected(which, length, np.frombuffer(base, np.int64).reshape(1, 2), _ONE, slice(None))
    packets = Packets(
        directions, which, time, seq + expected, ack + acknowledged, flags, at, length, length - lacking, comments
    )  # fmt: skip
    begin = int(time[0])
    return Parcel(
        packets, position, reached + at, late + time, real + at, pieces_at, sizes, memoryview(payload),
        [(directions[one], first + begin, last + begin, *rest) for one, first, last, *rest in counts],
    )  # fmt: skip


def _of_segments(flows: Flows) -> tuple[Ints, Columns]:
    """The first numbers of each flow's two directions, and the written columns of segments."""
    share, whose, begins = flows.share, flows.whose, flows.starts[:-1]
    packets, first = share.packets, share.packets.first
    which = packets.direction - flows.directions[whose]
    base = np.stack([packets.ack[begins]] * 2, axis=1)
    base[whose[first], which[first] & 1] = packets.seq[first]
    seq, ack = _expected(which, packets.length, base, begins, whose)
    columns = (
        flows.position, packets.time, packets.at, flows.real - packets.at,
        which, share.clock - packets.time, packets.seq - seq, packets.ack - ack, packets.flags,
        share.reached - packets.at, packets.length, packets.length - packets.stored,
    )  # fmt: skip
    return base, Columns(columns, flows.starts)


def _expected(which: Ints, length: Ints, base: Ints, begins: Ints, whose: Where) -> tuple[Ints, Ints]:
    """The sequence numbers and acknowledgments that segments have if no segment of any flow is missing or repeated.

    `which` are the directions of the segments, `length` their payload sizes, `whose` the indexes of their flows.
    `begins` has the index of each flow's first segment, `base` the first sequence numbers of its two directions.
    """
    other = (which & 1).astype(bool)
    sent = np.zeros((2, len(length) + 1), np.int64)
    np.where(other, 0, length).cumsum(out=sent[0, 1:])
    np.where(other, length, 0).cumsum(out=sent[1, 1:])
    reached = sent[:, :-1] + (base.T - sent[:, begins])[:, whose]
    return np.where(other, reached[1], reached[0]), np.where(other, reached[0], reached[1])


def _planes(given: Columns, steps: int) -> Iterator[_Planes]:
    """For each flow, its columns as _Planes; the first `steps` columns are written as differences of successive
    numbers.
    """
    starts = given.starts
    some = starts[:-1] < starts[1:]
    begins = starts[:-1][some]
    first = np.zeros((len(some), len(given.columns)), np.int64)
    sizes, planes = [], []
    # Column by column: numpy would have to map and clear fresh memory for an array of all columns each time.
    for i, column in enumerate(given.columns):
        first[some, i] = column[begins]
        values = column.copy()
        if i < steps:
            values[1:] -= column[:-1]
        values[begins] = 0
        signs = values >> 63
        values <<= 1
        values ^= signs
        largest = int(values.view(np.uint64).max(initial=0))
        sizes.append((largest.bit_length() + 7) // 8)
        low = values.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
        planes.append(low[:, : sizes[-1]].T)
    whole = np.concatenate(planes)
    for begin, (start, end) in zip(first, pairwise(starts.tolist()), strict=True):
        yield end - start, begin.tobytes(), bytes(sizes), whole[:, start:end].tobytes()


def _numbers(planes: _Planes, steps: int) -> Ints:
    """The inverse of `_planes` for one flow: an array with one row for each column."""
    count, first, sizes, data = planes
    low = np.zeros((len(sizes), count, 8), np.uint8)
    of, place = _places(sizes)
    low[of, :, place] = np.frombuffer(data, np.uint8).reshape(len(of), count)
    folded = low.view("<u8").reshape(len(sizes), count)
    values: Ints = (folded >> np.uint64(1)).view(np.int64)
    folded &= np.uint64(1)
    signs = folded.view(np.int64)
    values ^= np.negative(signs, out=signs)
    values[:, :1] = np.frombuffer(first, np.int64).reshape(len(sizes), -1)
    for column in values[:steps]:
        column.cumsum(out=column)
    return values


@lru_cache(maxsize=1024)
def _places(sizes: bytes) -> tuple[Ints, Ints]:
    """For each plane, its column and the index of the byte in the column's numbers."""
    of = np.repeat(np.arange(len(sizes)), list(sizes))
    return of, np.arange(len(of)) - np.searchsorted(of, of)
