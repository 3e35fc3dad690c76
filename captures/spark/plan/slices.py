"""Cuts files that overlap in time into slices of time, so that several tasks merge them.

Reading in one process merges such files into one (captures.joining), in which each packet has an address. The task of a
slice gives packets the same addresses, because it knows the size of what precedes its slice in the merged file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from kproxy.captures.formats.records import Walker
from kproxy.captures.joining import SECTION, interface
from kproxy.captures.spark.plan.files import Stamp, shown


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a file that may belong to a slice: from where `walker` stands to offset `end`.

    `clock` is the latest time in the records before. `interface` is the size of the block that precedes the first of
    these records in the merged file; 0 if it is not the first of its file. Bytes of the file have addresses from `base`
    on. `id` is the id of the file (captures.keys).
    """

    path: str
    stamp: Stamp
    id: str | None
    walker: Walker
    end: int
    clock: int
    interface: int
    base: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The packets of several files from the time `since` to before `until` (ns; None: to the end).

    `before` is the size in the merged file of all that precedes the ranges. Of each range, the records before `since`
    belong to the slice before.
    """

    ranges: tuple[Range, ...]
    since: int
    until: int | None
    before: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a file that is to be sliced: from where `walker` stands to offset `end`.

    `last` is the latest packet time from the start of its split to the end of the stretch. The stretch's records take
    `merged` bytes in a merged file and have the link-layer type `link`. `id` is the id of the file.
    """

    path: str
    stamp: Stamp
    id: str | None
    walker: Walker
    end: int
    last: int
    merged: int
    link: int


def sliced(files: Sequence[Sequence[Piece]], bases: Sequence[int], size: int) -> tuple[Slice, ...]:
    """Cut files into slices of about `size` bytes each.

    `files` has the pieces of each file, in order; `bases` has the address of each file's first byte.
    """
    merging = [_File.of(pieces, base) for pieces, base in zip(files, bases, strict=True)]
    whole = sum(piece.end - piece.walker.position for pieces in files for piece in pieces)
    borders = sorted({clock for file in merging for clock in file.clocks[1:-1]})
    count = max(1, min(len(borders) + 1, round(whole / max(size, 1))))
    chosen = sorted({borders[len(borders) * number // count] for number in range(1, count)}) if borders else []
    return tuple(_slice(merging, since, until) for since, until in pairwise([0, *chosen, None]) if since is not None)


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is merged.

    `clocks` and `sizes` are the latest time, and the size in the merged file, of the records before each piece, and of
    all records at the end. `interface` is the size of the block that describes the file in the merged file.
    """

    pieces: Sequence[Piece]
    clocks: Sequence[int]
    sizes: Sequence[int]
    interface: int
    base: int

    @classmethod
    def of(cls, pieces: Sequence[Piece], base: int) -> _File:
        clocks = list(accumulate((one.last for one in pieces), max, initial=0))
        sizes = list(accumulate((one.merged for one in pieces), initial=0))
        one = pieces[0]
        block = interface(shown(one.path), one.link, nanoseconds=one.walker.nanoseconds)
        return cls(pieces, clocks, sizes, len(block), base)

    def first(self, time: int) -> int:
        """The index of the first piece with a record at this time or later, in the order of the merged file."""
        return bisect_left(self.clocks, time, 1) - 1

    def range(self, since: int, until: int | None) -> Range | None:
        """What a slice reads; None if the file has no record from `since` on."""
        first = self.first(since)
        if first == len(self.pieces):
            return None
        last = len(self.pieces) if until is None else self.first(until) + 1
        one, end = self.pieces[first], self.pieces[min(last, len(self.pieces)) - 1].end
        before = 0 if self.sizes[first] else self.interface
        return Range(one.path, one.stamp, one.id, one.walker, end, self.clocks[first], before, self.base)

    def before(self, since: int) -> int:
        """The size, in the merged file, of the file's records before the range of the slice that begins at `since`; if
        there are such records, the interface block is included.
        """
        size = self.sizes[self.first(since)]
        return size + self.interface if size else 0


def _slice(files: Sequence[_File], since: int, until: int | None) -> Slice:
    ranges = tuple(one for file in files if (one := file.range(since, until)) is not None)
    return Slice(ranges, since, until, len(SECTION) + sum(file.before(since) for file in files))
