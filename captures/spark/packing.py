"""What a flow has in a part of a split, as few bytes: what the shuffle between stage 1 and stage 2 carries.

Columns of numbers are written as their differences from what a flow in order would have, byte plane by byte plane, so
that little is left for zstd to write.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import zstandard

from captures.spark.plain import Plain
from captures.tcp.packets import Ints, Packets

_LEVEL: Final = 3


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
        """What is sent of the segments [start, end): addresses, and the bytes from there on."""
        at = self.packets.at
        borders = [at[start], at[end]] if end < len(at) else [at[start]]
        first, until = (*np.searchsorted(self.pieces_at, borders).tolist(), len(self.sizes))[:2]
        ends = np.cumsum(self.sizes)[first:until]
        for place, size, stop in zip(
            self.pieces_at[first:until].tolist(), self.sizes[first:until].tolist(), ends.tolist(), strict=True
        ):
            yield place, self.pieces[stop - size : stop]

    def pack(self) -> bytes:
        packets = self.packets
        keys = list(dict.fromkeys(packets.keys))
        numbers = {key: number for number, key in enumerate(keys)}
        which = np.fromiter(map(numbers.__getitem__, packets.keys), np.int64, len(packets))
        follows, answers = _follows(which, packets.seq, packets.length), _answers(which, packets.seq + packets.length)
        columns = (
            which, _steps(self.position), _steps(packets.time), self.clock - packets.time, packets.seq - follows,
            packets.ack - answers, packets.flags, _steps(packets.at), self.reached - packets.at, packets.length,
            packets.length - packets.stored, _steps(self.pieces_at),
            self.sizes, _steps(self.asked), _steps(self.places),
        )  # fmt: skip
        checks = self.checks.astype(np.uint32).tobytes()
        told = (
            self.portion, keys, packets.comments, [_planes(one) for one in columns], checks,
            list(map(tuple, self.plain)), self.pieces,
        )  # fmt: skip
        return zstandard.compress(pickle.dumps(told, pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpack(data: bytes) -> Parcel:
    """The parcel that was packed."""
    told = pickle.loads(zstandard.decompress(data))  # noqa: S301  # of our own stage 1
    portion, keys, comments, planes, checks, plain, pieces = told
    which, position, time, late, seq, ack, flags, at, reached, length, lacking, pieces_at, sizes, asked, places = map(
        _numbers, planes
    )
    position, time, at = np.cumsum(position), np.cumsum(time), np.cumsum(at)
    seq = _followed(which, seq, length)
    ack += _answers(which, seq + length)
    packets = Packets(
        [keys[i] for i in which.tolist()], time, seq, ack, flags, at, length, length - lacking, comments
    )  # fmt: skip
    return Parcel(
        portion, packets, position, reached + at, late + time, np.cumsum(pieces_at), sizes, memoryview(pieces),
        np.cumsum(asked), np.cumsum(places), np.frombuffer(checks, np.uint32).astype(np.int64),
        [Plain(*one) for one in plain],
    )  # fmt: skip


def _steps(values: Ints) -> Ints:
    steps = values.copy()
    steps[1:] -= values[:-1]
    return steps


def _follows(which: Ints, seq: Ints, length: Ints) -> Ints:
    """The number at which each segment's direction went on."""
    found = np.zeros_like(seq)
    for one in range(int(which.max(initial=-1)) + 1):
        mine = np.flatnonzero(which == one)
        found[mine[1:]] = (seq + length)[mine[:-1]]
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


def _planes(values: Ints) -> tuple[int, int, bytes]:
    """Numbers as their count, the bytes of each, and first all their lowest bytes, then all the next."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    size = (int(folded.max(initial=0)).bit_length() + 7) // 8
    planes = folded.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, :size]
    return len(values), size, planes.T.tobytes()


def _numbers(planes: tuple[int, int, bytes]) -> Ints:
    count, size, data = planes
    wide = np.zeros((count, 8), np.uint8)
    wide[:, :size] = np.frombuffer(data, np.uint8).reshape(size, count).T
    folded = wide.view("<u8").reshape(count)
    return (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64)
