"""Counts exchanges over time in slices; their number and size stay small however long and busy a capture is.

Each of the latest WINDOWS has slices of a tenth of its length; older slices are dropped. The whole capture has at most
SLICES slices of 2**n nanoseconds, which are merged in pairs as it grows. A slice counts latencies in the non-empty
buckets of captures.analysis.histogram.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kproxy.captures.analysis.histogram import bucket_of, middle_of

SECOND: Final = 1_000_000_000
WINDOWS: Final = (10, 60, 600)
"""Lengths of the windows, in seconds up to the newest exchange."""
PARTS: Final = 10
"""Number of slices of a window."""
SLICES: Final = 60
"""Maximum number of slices of the whole capture."""
FINEST: Final = 24
"""Exponent of the shortest slice of the whole capture: 2**24 ns (17 ms)."""


@dataclass(slots=True)
class Slice:
    """Counts of the exchanges in one slice.

    `bytes` are those of whole frames, requests and responses, their length fields included. `latencies` counts
    exchanges by bucket. `smallest` and `largest` are latencies in nanoseconds; `smallest` is None if no exchange has a
    response.
    """

    count: int = 0
    failed: int = 0
    throttle_ms: int = 0
    bytes: int = 0
    records: int = 0
    smallest: int | None = None
    largest: int = 0
    latencies: dict[int, int] = field(default_factory=dict)

    def add(self, latency: int | None, *, failed: bool, throttle_ms: int, size: int, records: int = 0) -> None:
        self.count += 1
        self.failed += failed
        self.throttle_ms += throttle_ms
        self.bytes += size
        self.records += records
        if latency is not None:
            bucket = bucket_of(latency)
            self.latencies[bucket] = self.latencies.get(bucket, 0) + 1
            self._reach(latency, latency)

    def merge(self, other: Slice) -> None:
        """Add the counts of `other`."""
        self.count += other.count
        self.failed += other.failed
        self.throttle_ms += other.throttle_ms
        self.bytes += other.bytes
        self.records += other.records
        if other.smallest is not None:
            self._reach(other.smallest, other.largest)
        for bucket, count in other.latencies.items():
            self.latencies[bucket] = self.latencies.get(bucket, 0) + count

    def percentiles(self, shares: Iterable[float]) -> list[int | None]:
        """The latencies (ns) at these rising shares, as `Histogram.percentile`; all are None without a response."""
        total = sum(self.latencies.values())
        if self.smallest is None:
            return [None for _ in shares]
        found: list[int | None] = []
        counts = iter(sorted(self.latencies.items()))
        bucket, seen = next(counts)
        for share in shares:
            wanted = max(1, min(total, -int(-share * total // 1)))
            while seen < wanted:
                bucket, count = next(counts)
                seen += count
            found.append(self.largest if wanted == total else min(max(middle_of(bucket), self.smallest), self.largest))
        return found

    def _reach(self, smallest: int, largest: int) -> None:
        self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        self.largest = max(self.largest, largest)


class Span:
    """The time span that a reading has covered, in nanoseconds since the epoch.

    All names that are counted over time share it. Slices of the whole capture have 2**shift nanoseconds.
    """

    __slots__ = ("first", "last", "shift")

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = 0
        self.shift = FINEST

    def include(self, time: int) -> None:
        self.first = time if self.first is None else min(self.first, time)
        self.last = max(self.last, time)
        while (self.last >> self.shift) - (self.first >> self.shift) >= SLICES:
            self.shift += 1

    def stretch(self, window: int | None) -> tuple[int, int, int]:
        """(number of the first slice, number after the last slice, nanoseconds of a slice) of a window in seconds.

        Slices are numbered from the epoch. Without `window`, they are those of the whole capture.
        """
        if self.first is None:
            return 0, 0, SECOND
        if window is None:
            return self.first >> self.shift, (self.last >> self.shift) + 1, 1 << self.shift
        width = window * SECOND // PARTS
        last = self.last // width + 1
        return max(last - PARTS, self.first // width), last, width

    def seconds(self, window: int | None) -> float:
        """Seconds of a window that the reading has covered; without `window`, those of the whole capture."""
        if self.first is None:
            return 0.0
        start, _, width = self.stretch(window)
        return (self.last - max(self.first, start * width)) / SECOND


class OverTime:
    """The slices in which the exchanges of one name are counted."""

    __slots__ = ("_shift", "_span", "_whole", "_windows")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._shift = span.shift
        self._whole: dict[int, Slice] = {}
        self._windows: dict[int, dict[int, Slice]] = {window: {} for window in WINDOWS}

    def add(
        self, time: int, latency: int | None, *, failed: bool, throttle_ms: int, size: int, records: int = 0
    ) -> None:
        """Count an exchange at `time` (ns), which the span must include already; `size` is in bytes."""
        self._fold()
        places = [(self._whole, time >> self._shift)]
        for window, slices in self._windows.items():
            start, _, width = self._span.stretch(window)
            number = time // width
            if number >= start:
                if number not in slices:
                    for passed in [old for old in slices if old < start]:
                        del slices[passed]
                places.append((slices, number))
        for slices, number in places:
            at = slices.get(number)
            if at is None:
                at = slices[number] = Slice()
            at.add(latency, failed=failed, throttle_ms=throttle_ms, size=size, records=records)

    def slices(self, window: int | None) -> list[Slice | None]:
        """The slices of a window (without `window`: of the whole capture), in order, with None for each empty slice."""
        self._fold()
        start, stop, _ = self._span.stretch(window)
        found = self._whole if window is None else self._windows[window]
        return [found.get(number) for number in range(start, stop)]

    def _fold(self) -> None:
        """Merge slices of the whole capture in pairs until they have the span's slice length."""
        by = self._span.shift - self._shift
        if not by:
            return
        folded: dict[int, Slice] = {}
        for number, one in self._whole.items():
            at = folded.get(number >> by)
            if at is None:
                folded[number >> by] = one
            else:
                at.merge(one)
        self._whole, self._shift = folded, self._span.shift


def together(slices: Iterable[Slice | None]) -> Slice:
    """A slice with the sums of the counts of these slices; None elements are ignored."""
    whole = Slice()
    for one in slices:
        if one is not None:
            whole.merge(one)
    return whole
