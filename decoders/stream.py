"""The events of a TCP stream, which a conversation processes: runs of bytes, gaps and ends.

Bytes are not copied: a run holds their addresses in the capture, so that frames can be found, paired and indexed by
reading a few bytes of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

END_OF_CAPTURE: Final = "end of capture"
"""`End.reason` of connections that are open when the capture ends."""


class Side(IntEnum):
    """Who sent the bytes; the client is the side that opened the connection."""

    CLIENT = 0
    BROKER = 1


class Source(Protocol):
    """Random access to the bytes of a capture: one address space over all files of a reading.

    Addresses grow in capture order, so the byte with the lower address was captured first.
    """

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end); fewer if the capture ends before `end`, or if the ring segment that holds them was
        deleted.
        """
        ...


class Copy(NamedTuple):
    """Another packet's copy of the stream's bytes [start, end): its address is `at`, its capture time in ns `time`."""

    start: int
    end: int
    at: int
    time: int


@dataclass(slots=True)
class Run:
    """Contiguous bytes of one direction; the lists have an entry for each TCP segment.

    Segment i covers the stream offsets [ends[i-1] (or start), ends[i]), lies at address `at[i]` of the source and was
    captured at `times[i]` (nanoseconds since the epoch). `stored[i]` is the number of its bytes that the capture holds
    (snap length); with `stored` None it holds all.
    """

    side: Side
    start: int
    ends: Sequence[int]
    at: Sequence[int]
    times: Sequence[int]
    stored: Sequence[int] | None = None
    comments: dict[int, str] = field(default_factory=dict)
    """Packet comments, by stream offset of the first byte of the commented segment."""
    overlaps: Sequence[tuple[int, int]] = ()
    """Stream ranges (start, end) in which a retransmission has other bytes than the first copy.

    A Run that only reports such ranges has no segments; its `times` holds the time of the report.
    """
    released: int = 0
    """For segments captured out of order, the address of the packet after which they could be delivered.

    The events of this run happened at `max(released, at[i])`. 0 if each segment could be delivered at once.
    """
    copies: Sequence[Copy] = ()
    """Other copies of earlier bytes that differ from the first copy; `overlaps` holds the ranges."""


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
    """The end of a direction, or of the connection if `side` is None: by FIN, RST, or the end of the capture."""

    side: Side | None
    at: int
    time: int
    reason: str = END_OF_CAPTURE
    unheard: Side | None = None
    """At the end of a connection: the side that has no packet in the capture, or None."""
    last_time: int = 0
    """The latest capture time (ns) up to the last packet that the connection has so far.

    `time` is later if the connection ends without a packet of its own, for example with the capture.
    """


Event = Run | Gap | End
