"""Events of a TCP stream, as input of a conversation: runs of bytes, gaps and ends.

Bytes are not copied: a run has their addresses in the capture, so that frames can be found, paired and indexed by
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
        """The bytes [start, end); fewer if the capture ends or its segment was deleted."""
        ...


class Copy(NamedTuple):
    """Another packet's copy of the stream's bytes [start, end), at address `at`, captured at `time`."""

    start: int
    end: int
    at: int
    time: int


@dataclass(slots=True)
class Run:
    """Contiguous bytes of one direction; the lists have an entry for each TCP segment.

    Segment i covers the stream offsets [ends[i-1] (or start), ends[i]), lies at address `at[i]` of the source and was
    captured at `times[i]` (nanoseconds since the epoch).
    `stored[i]` is the number of its bytes in the capture (snap length); without `stored` all bytes are there.
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
    """Stream ranges in which a retransmission has other bytes than the first copy. A Run that only reports them has no
    segments, and the time of the report in `times`."""
    released: int = 0
    """For segments captured out of order, the address of the packet whose arrival allowed their delivery: the events of
    this run happened at `max(released, at[i])`. 0 if each segment could be delivered at once."""
    copies: Sequence[Copy] = ()
    """Other copies of earlier bytes that differ, as reported in `overlaps`."""


@dataclass(slots=True)
class Gap:
    """Bytes [start, end) of a direction that are missing from the capture."""

    side: Side
    start: int
    end: int
    at: int
    time: int


@dataclass(slots=True)
class End:
    """The end of a direction, or with `side` None of the connection: FIN, RST, or the end of the capture."""

    side: Side | None
    at: int
    time: int
    reason: str = "end of capture"
    unheard: Side | None = None
    """At the end of a connection, the side without any packet in the capture."""


Event = Run | Gap | End
