"""Selects the bytes of segments that go from stage 1 to stage 2.

Of files at URLs these are the heads of frames, because stage 2 would need a request for each head. A split may guess
wrongly where frames begin; then stage 2 fetches the missing bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from kproxy.captures.spark.read.by_flow import Flows
from kproxy.captures.spark.read.flows import EARLY
from kproxy.captures.spark.read.packing import Columns
from kproxy.captures.tcp.packets import PSH
from kproxy.decoders.conversation.loop import HEAD
from kproxy.decoders.conversation.responses import Responses
from kproxy.decoders.stream import Source

_KEYS, _VERSIONS = range(128), range(32)
"""API keys and versions by which the bytes after a length field are recognised as a request."""
_FIELDS: Final = 12
"""Bytes of a request's length, API key, version and correlation id."""
_SMALLEST: Final = 8
"""Size of the smallest frame: length and correlation id."""
_LARGEST: Final = 100 << 20
"""Maximum plausible size of a frame."""
_WHOLE: Final = 1 << 32
"""Number of TCP sequence numbers: 2^32."""


class Sent(Enum):
    """Selects the bytes of segments that are sent."""

    NONE = "none"
    HEADS = "heads of frames"
    ALL = "all"


def nothing(flows: Flows, source: Source) -> Columns:  # noqa: ARG001  # as the others
    none = np.empty(0, np.int64)
    return Columns((none, none), np.zeros(len(flows.numbers) + 1, np.int64))


def everything(flows: Flows, source: Source) -> Columns:  # noqa: ARG001  # as the others
    """All bytes that the capture has of each segment."""
    packets = flows.share.packets
    some = np.flatnonzero(packets.stored)
    return Columns((packets.at[some], packets.stored[some]), np.searchsorted(some, flows.starts))


def heads(flows: Flows, source: Source) -> Columns:
    """The heads of all frames, and whole frames that stage 2 decodes (captures.spark.read.flows.EARLY)."""
    packets = flows.share.packets
    found: list[tuple[int, int]] = []
    segments: list[int] = []
    streams = [_Stream() for _ in packets.directions]
    limit = int((packets.at + packets.stored).max())
    taught: list[set[bytes]] = [set() for _ in flows.numbers]
    some = np.flatnonzero(packets.stored)
    columns = (packets.direction, flows.whose, packets.seq, packets.flags, packets.at, packets.length, packets.stored)
    for segment, direction, flow, seq, flags, at, length, stored in zip(
        some.tolist(), *(column[some].tolist() for column in columns), strict=True
    ):
        pieces = streams[direction].take(seq, flags, at, length, source.read(at, at + stored), taught[flow])
        found += ((start, min(size, limit - start)) for start, size in pieces)
        segments += [segment] * len(pieces)
    at_, sizes = np.array(found, np.int64).reshape(-1, 2).T
    return Columns((at_, sizes), np.searchsorted(np.array(segments, np.int64), flows.starts))


@dataclass(slots=True)
class _Stream:
    """One direction of a flow, whose frames are followed from length field to length field.

    `expected` is the next sequence number. `next` is the number of bytes up to the next frame, None if unknown: then a
    frame is expected behind a segment with the PSH flag. `left` is the number of bytes that are still to be sent of the
    current frame.
    """

    expected: int | None = None
    next: int | None = 0
    left: int = 0

    def take(
        self, seq: int, flags: int, at: int, length: int, data: bytes | memoryview, taught: set[bytes]
    ) -> list[tuple[int, int]]:
        """(address, size) of the pieces of a segment that stage 2 gets; a piece may extend beyond the segment's end.

        `taught` are the correlation ids of requests in EARLY, so that their responses are recognised.
        """
        if seq != self.expected:
            self.next, self.left = 0, 0
        self.expected = (seq + length) % _WHOLE
        found: list[tuple[int, int]] = []
        if self.left:
            found.append((at, min(self.left, len(data))))
            self.left -= found[0][1]
        position = self.next
        while position is not None and position < len(data):
            size, looked, wanted = _frame(bytes(data[position : position + _FIELDS]), taught)
            here = min(wanted, len(data) - position)
            found.append((at + position, max(here, looked)))
            self.left = wanted - here
            position = None if size is None else position + size
        if position is None:
            position = length if flags & PSH else None
        self.next = None if position is None else position - length
        return found


def _frame(head: bytes, taught: set[bytes]) -> tuple[int | None, int, int]:
    """(size of a frame, bytes that readers look at in any case, bytes of the frame that are sent).

    `head` are its first bytes. The size is None if unknown.
    """
    size = int.from_bytes(head[:4], "big", signed=True) + 4
    if len(head) < _FIELDS or not _SMALLEST <= size < _LARGEST:
        return None, HEAD, 0
    key, version = int.from_bytes(head[4:6], "big"), int.from_bytes(head[6:8], "big")
    if key not in _KEYS or version not in _VERSIONS:
        return size, Responses.head, size if head[4:8] in taught else Responses.head
    if key in EARLY:
        taught.add(head[8:])
        return size, HEAD, size
    return size, HEAD, size if head[4:8] in taught else min(size, HEAD)


PIECES: Final[Mapping[Sent, Callable[[Flows, Source], Columns]]] = {
    Sent.NONE: nothing, Sent.HEADS: heads, Sent.ALL: everything,
}  # fmt: skip
"""Maps the kind of payload that is sent to the function that gives the columns `pieces_at` and `sizes` of a Parcel."""
