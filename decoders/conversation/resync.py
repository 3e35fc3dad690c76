"""Resynchronises: finds the next frame after lost bytes, or in a capture that starts within a connection.

Every position is tried as the beginning of a frame. The first frame that decodes to its last byte, with the definition
that its header names (its request's, for a response), is accepted. No decision depends on bytes that have not arrived,
so the result does not depend on how the bytes are split into batches.

Frames before the accepted one are accepted as well if their lengths lead to it from the first byte after the loss. So
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
"""Limit on failed attempts: for each bit length of a frame's size, at most this many bytes are decoded in vain per
searched byte.
"""
TRIAL = 64
"""Minimum cost of a refuted frame, in decoded bytes."""
COPIES = 64
"""Number of copied bytes that cost as much as one decoded byte."""


class Judge(Protocol):
    """Decides which bytes can be a frame of a direction."""

    head: int
    """Number of bytes of a frame's header that `candidates` and `link` need."""

    def candidates(self, window: bytes) -> list[tuple[int, int]]:
        """(position, size) of each frame that may begin in `window`, judged by its header alone."""
        ...

    def link(self, window: bytes, position: int) -> int:
        """Size in bytes of the frame whose header is at `position` of `window`; -1 if the bytes cannot be a header."""
        ...

    def refute(self, start: int, end: int) -> int | None:
        """None if the frame [start, end) is proved, else the number of bytes that were decoded to refute it.

        The number is 0 if the header alone refutes the frame. Such a refutation must not count as effort, because how
        much of the header `candidates` could check depends on where the batch ended.
        """
        ...


class Search:
    """One search for the next frame.

    `step` takes one segment at a time, so that a caller can order segments with other events.

    The search keeps no reference to its judge: the judge refers to the search, so that would be a reference cycle.

    The work is bounded even if the bytes are crafted to look like headers everywhere. For each magnitude (bit length)
    of a frame's size, at most EFFORT bytes per searched byte are decoded in vain; further possible frames are dropped
    untried. If more than MOST_CANDIDATES possible frames wait, those that end last are dropped.
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
        """Offset up to which the segments have been searched."""
        self.tested = start
        """Offset up to which all positions have been tried as the start of a frame."""
        self.first: int | None = start if chained else None
        """Offset of the first byte after the loss, where a frame is likely to begin."""
        self.chain: list[int] | None = [] if chained else None
        self.link_at = start
        self._broken = False
        """Whether the chain of lengths cannot be continued at `link_at`: no valid header is there, or the chain has its
        maximum length.

        Frames in it that end within the same segment may still be proved.
        """
        self.begin = begin
        """Whether the search is at the start of the capture, so that nothing within the capture was lost."""
        self._candidates: list[tuple[int, int]] = []
        """A heap of (end, start) of the possible frames that are not complete yet."""
        self._spent = [0] * 33
        """Number of bytes decoded in vain, by the bit length of the frame's size."""

    def step(self, stretch: Stretch, judge: Judge) -> tuple[int, int] | None:
        """Search the next segment; returns None until the next frame is found.

        Then returns (offset at which reading goes on, end of the frame that proves it).
        """
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
        """Try the positions whose header ends before `stored`, and follow the chain of lengths up to there."""
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
            size = judge.link(head, 0) if len(head) == judge.head else -1  # the source may no longer hold the header
            if size < 0 or len(chain) >= LONGEST_CHAIN:
                self._broken = True
                return
            chain.append(self.link_at)
            self.link_at += 4 + size

    def needed(self) -> int:
        """Lowest offset of the bytes that the search may still read."""
        low = self.tested
        if self._candidates:
            low = min(low, *(begin for _, begin in self._candidates))
        if self.chain:
            low = min(low, self.chain[0])
        elif self.chain is not None:
            low = min(low, self.link_at)
        return low

    def unproven(self) -> int | None:
        """Start of an incomplete frame right after the loss, at the end of a capture; None if there is none."""
        for _, begin in self._candidates:
            if begin == self.first:
                return begin
        return None
