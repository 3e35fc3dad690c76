"""Resynchronise: find the next frame after lost bytes, or where a capture starts within a connection.

Every position is tried as the beginning of a frame. The first frame that decodes to its last byte, with the definition
that its header names (its request's, for a response), is accepted. No decision depends on bytes that have not arrived,
so the result does not depend on how the bytes are split into batches.

Frames before the accepted one are accepted as well if their lengths lead to it from the first byte after the loss: so
the first frames after a gap are kept, even if nothing else proves them.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heapify, heappop, heappush, nsmallest
from typing import Protocol

from kproxy.decoders.conversation.stretch import Stretch

MOST_CANDIDATES = 256
LONGEST_CHAIN = 4096

EFFORT = 2
"""Bytes that may be decoded to refute candidates of about one size, for each byte that is searched."""
TRIAL = 64
"""Bytes decoded that a refusal counts for at least."""
COPIES = 64
"""Bytes copied that count as one decoded."""


class Judge(Protocol):
    """Decides what can be a frame of a direction."""

    head: int
    """How many bytes of a frame tell whether it may begin."""

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        """(position, size) of each frame that may begin in `window`, as far as its header tells."""
        ...

    def link(self, window: bytes, position: int) -> int:
        """Size of the frame whose header is at `position` of `window`, -1 where it cannot be one."""
        ...

    def refute(self, start: int, end: int) -> int | None:
        """None where the frame [start, end) proves itself, else how many bytes were decoded to see that it does not.

        0 where its header does, which costs nothing: how much of the header `candidates` saw depends on how the bytes
        came in.
        """
        ...


class Search:
    """One search; `step` takes a segment at a time, so that a caller can order them with other events.

    It holds no judge, as the judge holds it.

    Bytes made to look like headers everywhere cost no more than EFFORT times their number for each power of two that
    is a frame's size: beyond it candidates of that size are dropped untried, as those are that end last where more than
    MOST_CANDIDATES wait.
    """

    __slots__ = (
        "_broken", "_candidates", "_spent",
        "begin", "chain", "chained", "done", "first", "link_at", "lost", "start", "tested",
    )  # fmt: skip

    def __init__(
        self,
        start: int,
        *,
        lost: int,
        chained: bool,
        begin: bool = False,
    ) -> None:
        self.start = start
        self.chained = chained
        self.lost = lost
        self.done = start
        """Bytes before it have been looked at."""
        self.tested = start
        """Positions before it have been tried."""
        self.first: int | None = start if chained else None
        """First byte after what was lost, where a frame may well begin."""
        self.chain: list[int] | None = [] if chained else None
        self.link_at = start
        self._broken = False
        """The chain ends at `link_at`; the frames in it that end within the same segment may still be proved."""
        self.begin = begin
        """The capture starts here: nothing was lost that it holds."""
        self._candidates: list[tuple[int, int]] = []
        """(end, start), a heap."""
        self._spent = [0] * 33
        """What was decoded in vain, by the bit length of the frame's size."""

    def step(self, stretch: Stretch, judge: Judge) -> tuple[int, int] | None:
        """Look at the next segment; returns (offset to read on from, end of the frame that proves it) once found."""
        ends = stretch.ends
        k = bisect_right(ends, self.done, 1)
        end = ends[k]
        stored = end if stretch.have is None else min(stretch.have[k], end)
        if stored > self.done:
            self._try(stretch, stored, judge)
        elif self.done == self.start and self.first is not None:
            self.first = end
        if stored < end:
            lost = stretch.gap_at(stored)
            if lost is not None:
                self._candidates = [entry for entry in self._candidates if entry[0] <= stored]
                heapify(self._candidates)
            self.tested = end
        self.done = end
        while self._candidates and self._candidates[0][0] <= end:
            finish, begin = heappop(self._candidates)
            magnitude = (finish - begin).bit_length()
            if self._spent[magnitude] > EFFORT * (finish - self.start):
                continue
            read = judge.refute(begin, finish)
            if read is None:
                chain = self.chain
                if chain and begin in chain:
                    return chain[0], finish
                return begin, finish
            if read:
                self._spent[magnitude] += max(read, TRIAL) + (finish - begin) // COPIES
        if self._broken:
            self.chain = None
            self._broken = False
        if stored < end:
            if lost is not None:
                self.first = end
            if (self.chain is None and lost is not None) or (
                self.chain is not None and self.link_at < end and self.link_at + judge.head > stored
            ):
                self.chain = []
                self.link_at = end
        return None

    def _try(self, stretch: Stretch, stored: int, judge: Judge) -> None:
        """Test the positions whose header ends before `stored`."""
        base = self.tested
        window = stretch.gather(base, stored - base)
        candidates = self._candidates
        for position, size in judge.candidates(window):
            heappush(candidates, (base + position + 4 + size, base + position))
        if len(candidates) > MOST_CANDIDATES:
            self._candidates = nsmallest(MOST_CANDIDATES // 2, candidates)
        self.tested = max(base, base + len(window) - judge.head + 1)
        chain = self.chain
        if chain is None:
            return
        while self.link_at + judge.head <= stored:
            head = stretch.gather(self.link_at, judge.head)
            size = judge.link(head, 0) if len(head) == judge.head else -1  # the source may no longer hold it
            if size < 0 or len(chain) >= LONGEST_CHAIN:
                self._broken = True
                return
            chain.append(self.link_at)
            self.link_at += 4 + size

    def needed(self) -> int:
        """First offset whose bytes may still be read."""
        low = self.tested
        if self._candidates:
            low = min(low, *(begin for _, begin in self._candidates))
        if self.chain:
            low = min(low, self.chain[0])
        elif self.chain is not None:
            low = min(low, self.link_at)
        return low

    def unproven(self) -> int | None:
        """Start of a frame that stands where one may be expected, but is not whole; for the end of a capture."""
        for _, begin in self._candidates:
            if begin == self.first:
                return begin
        return None
