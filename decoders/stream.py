"""Events that a source of bytes gives to a conversation: runs of one direction, gaps and ends.

Bytes are not copied: a run says where in a capture they lie, so that whole frames can be found, paired and indexed by
reading a few bytes of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol


class Side(IntEnum):
    """Who sent the bytes; the client is the side that opened the connection."""

    CLIENT = 0
    BROKER = 1


class Source(Protocol):
    """Random access to the bytes of a capture: one address space over all files of a reading.

    Addresses grow in capture order, so that comparing two of them tells which byte was captured first.
    """

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end); shorter where the capture ends or its segment is gone."""
        ...


class Copy(NamedTuple):
    """Bytes [start, end) of a stream as another packet has them, at address `at`, captured at `time`."""

    start: int
    end: int
    at: int
    time: int


@dataclass(slots=True)
class Run:
    """Contiguous bytes of one direction, one entry of the lists a TCP segment.

    Segment i covers the stream offsets [ends[i-1] (or start), ends[i]), lies at address `at[i]` of the source and was
    captured at `times[i]` (nanoseconds since the epoch).
    `stored[i]`, where given, is how many of its bytes the capture really holds (snap length), else all.
    """

    side: Side
    start: int
    ends: Sequence[int]
    at: Sequence[int]
    times: Sequence[int]
    stored: Sequence[int] | None = None
    comments: dict[int, str] = field(default_factory=dict)
    """Packet comments by stream offset of the segment's first byte."""
    overlaps: Sequence[tuple[int, int]] = ()
    """Stream ranges in which a retransmission carried other bytes than those first seen; a Run that only reports them
    has no segments, and in `times` when that was."""
    released: int = 0
    """Address of the packet whose arrival let the run be delivered, where segments were captured out of order: what
    happens in this run happened at `max(released, at[i])`. 0 where each segment could be delivered at once."""
    copies: Sequence[Copy] = ()
    """Other copies of earlier bytes that differ, as reported in `overlaps`."""


@dataclass(slots=True)
class Gap:
    """Bytes [start, end) of a direction that the capture does not hold."""

    side: Side
    start: int
    end: int
    at: int
    time: int


@dataclass(slots=True)
class End:
    """A direction (or with `side` None the whole connection) is over: FIN, RST, or the end of the capture."""

    side: Side | None
    at: int
    time: int
    reason: str = "end of capture"
    unheard: Side | None = None
    """The side of which the capture holds no packet, where the whole connection is over."""


Event = Run | Gap | End
