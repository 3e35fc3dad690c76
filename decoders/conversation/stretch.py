"""The bytes of one direction that are not processed yet, as segments of the capture.

Segment k (counted from 1) covers the stream offsets [ends[k-1], ends[k]) and lies at address ats[k]; entry 0 of each
list only gives the start. The capture may lack the end of a segment, because of a gap or the snap length: the bytes
from offset `have[k]` on are missing. `have` is None while no bytes are missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter, sub

from kproxy.decoders.stream import Copy, Gap, Run, Side, Source

Spans = list[tuple[int, int]]

_start = itemgetter(0)


class Stretch:
    """The segments of one direction; new ones are appended, processed ones are dropped.

    The *key* of a byte is the highest address of this byte and all stream bytes before it: the point of the capture at
    which the stream was complete up to this byte. Keys grow with the offset even if segments are out of order.
    """

    __slots__ = ("ats", "ends", "gaps", "have", "prior", "source", "times", "top")

    def __init__(self, source: Source, start: int) -> None:
        self.source = source
        self.ends: list[int] = [start]
        self.ats: list[int] = [0]
        self.times: list[int] = [0]
        self.have: list[int] | None = None
        self.prior: list[int] | None = None
        """The highest address before each segment; None as long as addresses only grow."""
        self.top = -1
        """Highest address of a segment so far."""
        self.gaps: list[tuple[int, int]] = []

    @property
    def start(self) -> int:
        return self.ends[0]

    @property
    def end(self) -> int:
        return self.ends[-1]

    @property
    def plain(self) -> bool:
        """Whether no bytes are missing and all were captured in order."""
        return self.have is None and self.prior is None

    def extend(self, run: Run) -> None:
        """Append a run. Repeated bytes are skipped; a hole before the run that was not reported becomes a gap."""
        if not len(run.ends):
            return
        old = self.ends[-1]
        if run.start != old:
            if run.start < old:
                self._extend_rest(run, old)
                return
            self.gap(Gap(run.side, old, run.start, run.at[0], run.times[0]))
        self._order(run)
        if run.stored is not None:
            start = run.start
            have = []
            for end, stored in zip(run.ends, run.stored, strict=True):
                have.append(min(start + stored, end))
                start = end
            if self.have is not None or have != list(run.ends):
                if self.have is None:
                    self.have = list(self.ends)
                self.have += have
        elif self.have is not None:
            self.have += run.ends
        self.ends += run.ends
        self.ats += run.at
        self.times += run.times

    def _extend_rest(self, run: Run, old: int) -> None:
        """Append the part of `run` after the stream offset `old`."""
        first = bisect_right(run.ends, old)
        if first == len(run.ends):
            return
        skip = old - (run.ends[first - 1] if first else run.start)
        ats = list(run.at[first:])
        stored = None
        if run.stored is not None:
            stored = list(run.stored[first:])
            stored[0] = max(stored[0] - skip, 0)
        ats[0] += skip
        self.extend(Run(run.side, old, run.ends[first:], ats, run.times[first:], stored, released=run.released))

    def with_copy(self, copy: Copy, start: int, side: Side, released: int) -> Stretch | None:
        """A stretch from offset `start` on that holds the bytes of `copy` in place of the first copy.

        `copy` covers `start` and came at address `released`. None if the bytes after the copy are no longer held, or
        have a gap.
        """
        end, last = copy.end, self.ends[-1]
        if self.gaps or self.have is not None or end < min(self.ends[0], last):
            return None
        found = Stretch(self.source, start)
        at = copy.at + start - copy.start
        found.extend(Run(side, start, [end], [at], [copy.time], released=released))
        if end < last:
            k = bisect_right(self.ends, end, 1)
            ats = [self.ats[k] + end - self.ends[k - 1], *self.ats[k + 1 :]]
            found.extend(Run(side, end, self.ends[k:], ats, self.times[k:], released=released))
        return found

    def _order(self, run: Run) -> None:
        """Update `top` and `prior` for the segments of `run`."""
        ats = run.at
        if self.prior is None:
            if ats[0] > self.top and not run.released:
                growing = list(ats)
                if len(growing) == 1 or growing == sorted(growing):
                    length = run.ends[-1] - (run.ends[-2] if len(run.ends) > 1 else run.start)
                    if run.stored is not None:
                        length = min(length, run.stored[-1])
                    self.top = growing[-1] + max(length - 1, 0)
                    return
            self.prior = [-1] * len(self.ends)
        top = max(self.top, run.released)
        start = run.start
        for i, end in enumerate(run.ends):
            self.prior.append(top)
            length = end - start if run.stored is None else min(end - start, run.stored[i])
            top = max(top, ats[i] + max(length - 1, 0))
            start = end
        self.top = top

    def gap(self, gap: Gap) -> bool:
        """Append missing bytes as a segment without data; returns False if the stretch has these bytes already."""
        old = self.ends[-1]
        if gap.end <= old:
            return False
        if self.have is None:
            self.have = list(self.ends)
        if self.prior is not None:
            self.prior.append(self.top)
        elif gap.at < self.top:
            self.prior = [-1] * len(self.ends)
            self.prior.append(self.top)
        self.top = max(self.top, gap.at)
        self.gaps.append((old, gap.end))
        self.have.append(old)
        self.ends.append(gap.end)
        self.ats.append(gap.at)
        self.times.append(gap.time)
        return True

    def segment(self, offset: int, low: int = 1) -> int:
        """Number of the segment that holds the byte at `offset`; `low` is a lower bound for it."""
        return bisect_right(self.ends, offset, low)

    def key(self, offset: int) -> int:
        """Key of the byte at `offset` (see the class)."""
        k = bisect_right(self.ends, offset, 1)
        at = self.ats[k] + offset - self.ends[k - 1]
        if self.have is not None and offset >= self.have[k]:
            at = self.ats[k] + max(self.have[k] - 1 - self.ends[k - 1], 0)
        return at if self.prior is None else max(at, self.prior[k])

    def time(self, offset: int) -> int:
        """Capture time in ns of the byte at `offset`."""
        return self.times[bisect_right(self.ends, offset, 1)]

    def time_held(self, offset: int, start: int) -> int:
        """Capture time in ns of the byte at `offset`.

        If that byte is in a gap, the time is that of the last byte before the gap, but never of a byte before `start`.
        """
        k = bisect_right(self.ends, offset, 1)
        if self.have is not None:
            first = bisect_right(self.ends, start, 1)
            while k > first and self.have[k] == self.ends[k - 1] and self.gap_at(self.ends[k - 1]) is not None:
                k -= 1
        return self.times[k]

    def stored(self, offset: int) -> bool:
        """Whether the capture holds the byte at `offset`."""
        return self.have is None or offset < self.have[bisect_right(self.ends, offset, 1)]

    def next_stored(self, offset: int) -> int:
        """The first offset from `offset` on that the capture holds; the stretch's end if there is none."""
        have = self.have
        if have is None:
            return offset
        ends = self.ends
        for k in range(bisect_right(ends, offset, 1), len(ends)):
            if offset < have[k]:
                return offset
            offset = ends[k]
        return offset

    def gap_at(self, offset: int) -> tuple[int, int] | None:
        """The gap [start, end) that contains the byte at `offset`; None if it is in no gap."""
        k = bisect_right(self.gaps, offset, key=_start) - 1
        return self.gaps[k] if k >= 0 and offset < self.gaps[k][1] else None

    def gather(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on, at most `size` and up to the first missing one."""
        ends, ats, have, read = self.ends, self.ats, self.have, self.source.read
        stop = min(offset + size, ends[-1])
        pieces: list[bytes | memoryview] = []
        k = bisect_right(ends, offset, 1)
        while offset < stop:
            upto = min(ends[k] if have is None else have[k], stop)
            if upto <= offset:
                if ends[k] > offset:
                    break
                k += 1
                continue
            at = ats[k] + offset - ends[k - 1]
            piece = read(at, at + upto - offset)
            pieces.append(piece)
            if len(piece) < upto - offset or (upto < ends[k] and upto < stop):
                break
            offset = upto
            k += 1
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def spans(self, start: int, end: int) -> tuple[Spans, int]:
        """The pieces of [start, end) as (address, length), and the number of missing bytes in it.

        `end` may lie beyond the stretch's end.
        """
        ends, ats, have = self.ends, self.ats, self.have
        k = bisect_right(ends, start, 1)
        if have is None and end <= ends[-1]:
            j = bisect_left(ends, end, k)
            at = ats[k] + start - ends[k - 1]
            if j == k:
                return [(at, end - start)], 0
            spans = [(at, ends[k] - start)]
            spans += zip(ats[k + 1 : j], map(sub, ends[k + 1 : j], ends[k : j - 1]), strict=True)
            spans.append((ats[j], end - ends[j - 1]))
            return spans, 0
        spans = []
        missing = end - start
        while start < end and k < len(ends):
            upto = min(ends[k] if have is None else have[k], end)
            if upto > start:
                spans.append((ats[k] + start - ends[k - 1], upto - start))
                missing -= upto - start
            start = max(ends[k], start)
            k += 1
        return spans, missing

    def drop(self, offset: int) -> None:
        """Drop the segments that end at or before `offset`; if they are few, a later call drops them."""
        ends = self.ends
        if offset >= ends[-1]:
            del ends[:-1], self.ats[1:], self.times[1:]
            self.have = self.prior = None
            self.gaps.clear()
            return
        k = bisect_right(ends, offset, 1) - 1
        if k < 64 or k * 2 < len(ends):
            return
        del ends[:k], self.ats[:k], self.times[:k]
        if self.have is not None:
            del self.have[:k]
        if self.prior is not None:
            del self.prior[:k]
        start = ends[0]
        self.gaps = [gap for gap in self.gaps if gap[1] > start]
