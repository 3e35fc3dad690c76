"""What a flow has in a part of a split, as few bytes: what the shuffle between stage 1 and stage 2 carries.

Columns of numbers are written as their differences from what a flow in order would have, byte plane by byte plane, so
that little is left for zstd to write.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import zstandard

from captures.spark.plain import Plain
from captures.tcp.packets import Ints, Packets

_LEVEL: Final = 1
"""Half the time of the usual one, for three bytes more in a hundred."""
_Planes: TypeAlias = tuple[tuple[int, ...], bytes, int, bytes]


@dataclass(slots=True)
class Parcel:
    """The segments of a flow in a portion of a split, and what the portion claims of its exchanges.

    `packets` are the segments, `position`, `reached` and `clock` those of captures.spark.reading.SEGMENTS. `pieces` are
    the bytes that are sent along, `sizes` of them from each of the addresses `pieces_at` on. The claims are in order:
    `asked` and `places` are the addresses and stream offsets of their requests' first bytes, `checks` what
    captures.spark.checks.check says of them. `plain` are segments that hold nothing else, in order.
    """

    portion: int
    packets: Packets
    position: Ints
    reached: Ints
    clock: Ints
    pieces_at: Ints
    sizes: Ints
    pieces: bytes | memoryview
    asked: Ints
    places: Ints
    checks: Ints
    plain: Sequence[Plain]

    def sent(self, start: int, end: int) -> Iterator[tuple[int, bytes | memoryview]]:
        """What is sent of the segments [start, end): addresses, and the bytes from there on.

        Where these are not all, the addresses of all grow.
        """
        at = self.packets.at
        first = int(np.searchsorted(self.pieces_at, at[start])) if start else 0
        until = int(np.searchsorted(self.pieces_at, at[end])) if end < len(at) else len(self.sizes)
        ends = np.cumsum(self.sizes)[first:until]
        for place, size, stop in zip(
            self.pieces_at[first:until].tolist(), self.sizes[first:until].tolist(), ends.tolist(), strict=True
        ):
            yield place, self.pieces[stop - size : stop]

    def pack(self) -> bytes:
        packets, which = self.packets, self.packets.direction
        ends = packets.seq + packets.length
        of_packets = (
            self.position, packets.time, packets.at,
            which, self.clock - packets.time, packets.seq - _follows(which, ends), packets.ack - _answers(which, ends),
            packets.flags, self.reached - packets.at, packets.length, packets.length - packets.stored,
        )  # fmt: skip
        told = (
            self.portion, packets.directions, packets.comments, _planes(of_packets, 3),
            _planes((self.pieces_at, self.sizes), 1), _planes((self.asked, self.places), 2),
            self.checks.astype(np.uint32).tobytes(), list(map(tuple, self.plain)), self.pieces,
        )  # fmt: skip
        return zstandard.compress(pickle.dumps(told, pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpack(data: bytes) -> Parcel:
    """The parcel that was packed."""
    told = pickle.loads(zstandard.decompress(data))  # noqa: S301  # of our own stage 1
    portion, directions, comments, of_packets, of_pieces, of_claims, checks, plain, pieces = told
    position, time, at, which, late, seq, ack, flags, reached, length, lacking = _numbers(of_packets, 3)
    seq = _followed(which, seq, length)
    pieces_at, sizes = _numbers(of_pieces, 1)
    asked, places = _numbers(of_claims, 2)
    packets = Packets(
        directions, which, time, seq, ack + _answers(which, seq + length), flags, at, length,
        length - lacking, comments,
    )  # fmt: skip
    return Parcel(
        portion, packets, position, reached + at, late + time, pieces_at, sizes, memoryview(pieces), asked,
        places, np.frombuffer(checks, np.uint32).astype(np.int64), [Plain(*one) for one in plain],
    )  # fmt: skip


def _follows(which: Ints, ends: Ints) -> Ints:
    """The number at which each segment's direction went on."""
    found = np.zeros_like(ends)
    for one in range(int(which.max(initial=-1)) + 1):
        mine = np.flatnonzero(which == one)
        found[mine[1:]] = ends[mine[:-1]]
    return found


def _followed(which: Ints, steps: Ints, length: Ints) -> Ints:
    """The sequence numbers whose differences from `_follows` are these."""
    found = np.zeros_like(steps)
    for one in range(int(which.max(initial=-1)) + 1):
        mine = np.flatnonzero(which == one)
        before = np.concatenate([np.zeros(1, np.int64), length[mine[:-1]]])[: len(mine)]
        found[mine] = np.cumsum(steps[mine] + before)
    return found


def _answers(which: Ints, ends: Ints) -> Ints:
    """Where the other direction stood at each segment."""
    order = np.arange(len(which))
    found = np.zeros_like(ends)
    for one in (0, 1):
        last = np.maximum.accumulate(np.where(which == 1 - one, order, -1))
        mine = (which == one) & (last >= 0)
        found[mine] = ends[last[mine]]
    return found


def _planes(columns: Sequence[Ints], steps: int) -> _Planes:
    """Columns of numbers: how many there are and what each has, what each begins with, bytes of a number, and of each
    column first all lowest bytes, then all the next. Of the first columns, so many `steps`, it is the differences.
    """
    values = np.array(columns)
    first = values[:, :1].tobytes()
    values[:steps, 1:] = np.diff(values[:steps])
    values[:, :1] = 0
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    size = (int(folded.max(initial=0)).bit_length() + 7) // 8
    planes = folded.astype("<u8", copy=False).view(np.uint8).reshape(*values.shape, 8)[:, :, :size]
    return values.shape, first, size, planes.transpose(0, 2, 1).tobytes()


def _numbers(planes: _Planes, steps: int) -> Ints:
    """The columns, one a row."""
    (columns, count), first, size, data = planes
    wide = np.zeros((columns, count, 8), np.uint8)
    wide[:, :, :size] = np.frombuffer(data, np.uint8).reshape(columns, size, count).transpose(0, 2, 1)
    folded = wide.view("<u8").reshape(columns, count)
    values: Ints = (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64)
    values[:, :1] = np.frombuffer(first, np.int64).reshape(columns, -1)
    np.cumsum(values[:steps], axis=1, out=values[:steps])
    return values
