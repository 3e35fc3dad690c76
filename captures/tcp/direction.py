"""Reassembles one direction of a TCP connection: takes segments in any order, gives contiguous runs and gaps.

Positions are stream offsets: offset 0 is the first byte after the SYN, or the first byte seen if the capture starts
later. Sequence numbers are unwrapped around the next expected offset, so their 32 bits may wrap any number of times.

A direction stores the addresses of bytes, never the bytes. The first copy of a byte wins; a later copy that differs is
reported.

A hole in the stream waits for the segment that fills it. It is declared lost (a Gap) as soon as one of these is true;
each depends on the packets of this connection only:

- the receiver has acknowledged the missing bytes, so the sender will not retransmit them (a packet that acknowledges
  missing bytes has already waited for them, because a capture may be slightly out of order: captures/tcp/waiting.py);
- more than MOST_BYTES bytes or MOST_SEGMENTS segments wait behind it, or OLDEST nanoseconds of capture time passed;
- the connection ends: RST, a new connection on the same ports, the end of the capture.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from kproxy.captures.tcp.recent import Recent
from kproxy.decoders.stream import Copy, End, Event, Gap, Run, Side

MOST_BYTES = 8 << 20
MOST_SEGMENTS = 4096
OLDEST = 60_000_000_000
MOST_COPIES = 64
UNRELATED = 1 << 28
"""Maximum distance between a sequence number and the expected one; beyond it, a segment belongs to another connection
whose SYN is missing.
"""
HALF = 1 << 31
WHOLE = 1 << 32

Same: TypeAlias = Callable[[int, int, int], bool]
"""same(a, b, n): whether the n bytes at address a of the source equal those at address b."""


@dataclass(slots=True)
class Piece:
    """Bytes [start, end) of the stream, captured at `time` (ns).

    The capture holds the first `stored` of these bytes, at address `at`.
    """

    start: int
    end: int
    at: int
    time: int
    stored: int
    comment: str | None = None


@dataclass(slots=True)
class Direction:
    """State of one direction: `next` is the next expected stream offset, `base` the sequence number of offset 0."""

    side: Side
    base: int | None = None
    soft: bool = False
    """Whether `base` was guessed from a packet without data; the first packet with data replaces it."""
    expected: int | None = None
    """The first sequence number that the receiver expected, while no packet of this direction was captured."""
    next: int = 0
    pending: list[Piece] = field(default_factory=list)
    pending_bytes: int = 0
    acked: int = 0
    """Highest stream offset of this direction that the receiver has acknowledged."""
    fin: int | None = None
    ended: bool = False
    hole_time: int = 0
    overlaps: Sequence[tuple[int, int]] = ()
    """Ranges of stream offsets, not delivered yet, in which two copies of the bytes differ."""
    copies: Sequence[Copy] = ()
    """The later copies of the bytes in `overlaps`, at most MOST_COPIES."""
    recent: Recent = field(default_factory=Recent)
    run: Run | None = None
    """The run of this batch that the next piece extends if it adjoins; None if the next piece begins a run."""

    @property
    def held(self) -> int:
        """Number of bytes that arrived so far, gaps included: the next expected offset plus the pending bytes."""
        return self.next + self.pending_bytes

    def offset(self, seq: int) -> int:
        """Stream offset of a sequence number: of the offsets that fit, the one nearest to the next expected offset."""
        assert self.base is not None  # noqa: S101
        return self.next + ((seq - self.base - self.next + HALF) % WHOLE) - HALF

    def begin(self, seq: int, *, soft: bool = False) -> None:
        self.base, self.soft = seq, soft

    def settle(self, seq: int) -> int:
        """Stream offset of a segment with data that has this sequence number.

        If no SYN was captured, the first such segment gets offset 0.
        """
        if self.base is None:
            self.begin(seq)
        elif self.soft:
            self.acked -= self.offset(seq)
            self.begin(seq)
        return self.offset(seq)

    def acknowledge(self, ack: int) -> None:
        if self.base is not None:
            ahead = (ack - self.base - self.next + HALF) % WHOLE - HALF  # as `offset`, without a call for each packet
            if self.acked - self.next < ahead <= UNRELATED:
                self.acked = self.next + ahead

    def take(self, piece: Piece, now: int, same: Same, out: list[Event]) -> None:
        """Take a segment with data; the events that it completes are appended to `out`.

        `now` is the highest address of the capture so far; `same` compares bytes at two addresses.
        """
        if piece.start < self.next:
            self._compare_delivered(piece, now, same, out)
            if piece.end <= self.next:
                return
            _trim(piece, self.next)
        if piece.start == self.next and not self.pending:
            self._deliver(piece, now, out)
            return
        if not self.pending:
            self.hole_time = piece.time
        self._insert(piece, same)
        self._release(now, piece.time, out)

    def look_for_loss(self, now: int, time: int, out: list[Event]) -> None:
        """Declare holes lost by the rules in this module's docstring, and append the events to `out`.

        Called after a packet of the connection; `time` is its capture time in ns.
        """
        while self.pending and self._lost(time):
            self._skip(now, time, out)

    def flush(self, now: int, time: int, out: list[Event]) -> None:
        """Declare all holes lost, because the connection or the capture ended; the events are appended to `out`."""
        while self.pending:
            self._skip(now, time, out)
        # A FIN takes one sequence number: if one byte more is acknowledged than was seen, a FIN was probably missed.
        if self.base is not None and not self.soft and not self.ended and self.acked > self.next + 1:
            out.append(Gap(self.side, self.next, self.acked, now, time))
            self.run = None
            self.next = self.acked

    def finish(self, now: int, time: int, last_time: int, out: list[Event]) -> None:
        """Append the end of the direction to `out` once all bytes before its FIN were delivered.

        `last_time` is that of the connection (`End.last_time`).
        """
        if self.fin is not None and not self.ended and self.next >= self.fin and not self.pending:
            self.ended = True
            out.append(End(self.side, now, time, "FIN", last_time=last_time))

    def _lost(self, time: int) -> bool:
        waited = time - self.hole_time
        if self.acked >= self.pending[0].start:
            return True
        return self.pending_bytes > MOST_BYTES or len(self.pending) > MOST_SEGMENTS or waited >= OLDEST

    def _skip(self, now: int, time: int, out: list[Event]) -> None:
        start = self.pending[0].start
        out.append(Gap(self.side, self.next, start, now, time))
        self.run = None
        self.next = start
        self._release(now, time, out)

    def _release(self, now: int, time: int, out: list[Event]) -> None:
        """Deliver the pending pieces that adjoin the delivered bytes."""
        count = 0
        for piece in self.pending:
            if piece.start != self.next:
                break
            self.pending_bytes -= piece.end - piece.start
            self._deliver(piece, now, out)
            count += 1
        if count:
            del self.pending[:count]
            self.hole_time = time

    def _deliver(self, piece: Piece, now: int, out: list[Event]) -> None:
        """Deliver a piece: it extends the last run if it adjoins, else it begins a run."""
        released = now if piece.at < now else 0
        run = self.run
        if run is None or run.released != released or run.ends[-1] != piece.start:
            run = self.run = Run(self.side, piece.start, [], [], [], released=released)
            out.append(run)
        ends, at, times = cast("list[int]", run.ends), cast("list[int]", run.at), cast("list[int]", run.times)
        length = piece.end - piece.start
        if piece.stored < length and run.stored is None:
            run.stored = [end - start for start, end in zip([run.start, *ends], ends, strict=False)]
        if run.stored is not None:
            cast("list[int]", run.stored).append(min(piece.stored, length))
        ends.append(piece.end)
        at.append(piece.at)
        times.append(piece.time)
        if piece.comment is not None:
            run.comments[piece.start] = piece.comment
        if self.overlaps:
            here = [(first, last) for first, last in self.overlaps if piece.start <= first < piece.end]
            if here:
                run.overlaps = [*run.overlaps, *here]
                self.overlaps = [overlap for overlap in self.overlaps if overlap not in here]
                run.copies = [*run.copies, *(copy for copy in self.copies if copy.start < piece.end)]
                self.copies = [copy for copy in self.copies if copy.end > piece.end]
        self.next = piece.end
        self.recent.add(piece.start, piece.end, piece.at, min(piece.start + piece.stored, piece.end))

    def _insert(self, piece: Piece, same: Same) -> None:
        """Add a segment's bytes to the pending pieces, except those that are already pending."""
        pending = self.pending
        i = bisect_right(pending, piece.start, key=_end_of)
        while piece.start < piece.end:
            if i == len(pending) or piece.end <= pending[i].start:
                pending.insert(i, piece)
                self.pending_bytes += piece.end - piece.start
                return
            held = pending[i]
            if piece.start < held.start:
                before = Piece(piece.start, held.start, piece.at, piece.time, piece.stored, piece.comment)
                before.stored = min(piece.stored, held.start - piece.start)
                pending.insert(i, before)
                self.pending_bytes += before.end - before.start
                i += 1
            first, last = max(piece.start, held.start), min(piece.end, held.end)
            comparable = min(last, held.start + held.stored, piece.start + piece.stored)
            at = piece.at + first - piece.start
            differing = _differing(same, first, comparable, held.at + first - held.start, at)
            if differing and len(self.copies) < MOST_COPIES:
                self.copies = [*self.copies, Copy(first, comparable, at, piece.time)]
            if differing:
                self.overlaps = [*self.overlaps, *differing]
            if last >= piece.end:
                return
            _trim(piece, last)
            i += 1

    def _compare_delivered(self, piece: Piece, now: int, same: Same, out: list[Event]) -> None:
        """Report the bytes of a retransmission that differ from the remembered ones delivered at the same offsets."""
        end = min(piece.end, self.next, piece.start + piece.stored)
        if piece.end - piece.start == 1 and piece.start == self.next - 1:
            return  # the byte of a keep-alive has no meaning
        found: list[tuple[int, int]] = []
        for first, last, at in self.recent.overlapping(piece.start, end):
            found += _differing(same, first, last, at, piece.at + first - piece.start)
        if found:
            copies = [Copy(piece.start, end, piece.at, piece.time)]
            out.append(Run(self.side, self.next, [], [], [piece.time], overlaps=found, copies=copies, released=now))
            self.run = None


def _differing(same: Same, start: int, end: int, a: int, b: int) -> list[tuple[int, int]]:
    """Where two copies of the bytes [start, end) differ; `a` and `b` are the copies' addresses.

    An empty list if they are equal, else one range of offsets from the first differing byte to the last.
    """
    if end <= start or same(a, b, end - start):
        return []
    size = end - start
    low, high = 0, size - 1  # bounds of both the first and the last byte that differ
    while low < high:
        middle = (low + high) // 2
        if same(a + low, b + low, middle + 1 - low):
            low = middle + 1
        else:
            high = middle
    first, high = low, size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if same(a + middle, b + middle, high + 1 - middle):
            high = middle - 1
        else:
            low = middle
    return [(start + first, start + low + 1)]


def _end_of(piece: Piece) -> int:
    return piece.end


def _trim(piece: Piece, start: int) -> None:
    """Drop the bytes before offset `start`."""
    cut = start - piece.start
    piece.start = start
    held = min(cut, piece.stored)
    piece.at += held
    piece.stored -= held
