"""The segments that a direction delivered last, which retransmissions are compared with."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from kproxy.captures.tcp.packets import Ints

REMEMBERED = 256
"""Number of segments that are kept."""
SLACK = 32
"""Number of further segments that may be kept for a while, because dropping them one by one would take time."""

_Offsets: TypeAlias = "array[int]"
_none: Callable[[], _Offsets] = partial(array, "q")


@dataclass(slots=True)
class Recent:
    """The delivered segments, oldest first.

    Nearly all segments are captured whole and begin where the one before ends. While all do, `starts` and `held` are
    empty, which halves the memory of a connection.
    """

    first: int = 0
    """Stream offset at which the first segment begins, if `starts` is empty."""
    ends: _Offsets = field(default_factory=_none)
    """For each segment, the stream offset of its end."""
    at: _Offsets = field(default_factory=_none)
    """For each segment, its address."""
    starts: _Offsets = field(default_factory=_none)
    """For each segment, the stream offset of its beginning."""
    held: _Offsets = field(default_factory=_none)
    """For each segment, the stream offset at which its captured bytes end."""

    def __len__(self) -> int:
        return len(self.ends)

    def add(self, start: int, end: int, at: int, held: int) -> None:
        """Add a segment."""
        ends = self.ends
        if self.starts or held != end or (ends and ends[-1] != start):
            self._widen()
            self.starts.append(start)
            self.held.append(held)
        elif not ends:
            self.first = start
        ends.append(end)
        self.at.append(at)
        if len(ends) > REMEMBERED + SLACK:
            self.keep(REMEMBERED)

    def extend(self, start: int, ends: Ints, at: Ints, held: Ints | None) -> None:
        """Add contiguous segments, the first of which begins at `start`. `held` is None if all were captured whole."""
        dropped = len(ends) - REMEMBERED
        if dropped > 0:
            self.keep(0)
            start = int(ends[dropped - 1])
            ends, at, held = ends[dropped:], at[dropped:], None if held is None else held[dropped:]
        if self.starts or held is not None or (self.ends and self.ends[-1] != start):
            self._widen()
            self.starts.append(start)
            self.starts.frombytes(ends[:-1].tobytes())
            self.held.frombytes((ends if held is None else held).tobytes())
        elif not self.ends:
            self.first = start
        self.ends.frombytes(ends.tobytes())
        self.at.frombytes(at.tobytes())
        if len(self.ends) > REMEMBERED + SLACK:
            self.keep(REMEMBERED)

    def keep(self, count: int) -> None:
        """Drop all segments except the last `count`."""
        dropped = len(self.ends) - count
        if dropped <= 0:
            return
        self.first = self.starts[dropped] if self.starts and count else self.ends[dropped - 1]
        for column in (self.ends, self.at, self.starts, self.held):
            del column[:dropped]
        if self.starts and self.held == self.ends and self.starts[1:] == self.ends[:-1]:
            del self.starts[:], self.held[:]

    def overlapping(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The captured bytes of the last REMEMBERED segments within the stream offsets from `start` to `end`.

        Yields (first offset, end offset, address) for each segment that has such offsets, captured or not.
        """
        ends, count = self.ends, len(self.ends)
        for i in range(bisect_right(ends, start, max(0, count - REMEMBERED)), count):
            begin = self._start(i)
            if begin >= end:
                break
            first = max(begin, start)
            yield first, min(self.held[i] if self.held else ends[i], end), self.at[i] + first - begin

    def spans(self) -> Iterator[tuple[int, int]]:
        """(address, number of captured bytes) of each segment."""
        for i, end in enumerate(self.held or self.ends):
            yield self.at[i], end - self._start(i)

    def _start(self, i: int) -> int:
        """Stream offset at which segment `i` begins."""
        if self.starts:
            return self.starts[i]
        return self.ends[i - 1] if i else self.first

    def _widen(self) -> None:
        """Fill `starts` and `held`, because a segment comes that needs them."""
        if not self.starts:
            self.starts = array("q", [self.first, *self.ends][: len(self.ends)])
            self.held = self.ends[:]
