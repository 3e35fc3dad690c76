"""The classic pcap format (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct

import numpy as np

from captures.errors import FormatError
from captures.formats.gather import Bytes
from captures.formats.magic import PCAP
from captures.formats.records import Records

HEADER = 24
RECORD = 16
LONGEST = 262_144
"""What libpcap takes as the longest packet of most link layers; some writers exceed the snap length of their header."""
HUGE = 256 << 20


class PcapWalker:
    """Walks a pcap file whose whole header is there. Raises FormatError where that is none."""

    def __init__(self, view: memoryview) -> None:
        order, self._unit = PCAP[bytes(view[:4])]
        major, _, _, _, snap, network = struct.unpack_from(order + "HHiIII", view, 4)
        if major != 2:
            raise FormatError(f"pcap version {major} is unknown", 4)
        self.position = HEADER
        self.dropped = 0
        self.nanoseconds = self._unit == 1
        self.link = network & 0xFFFF
        self._order = order
        self._longest = min(max(snap, LONGEST), HUGE)

    def walk(self, view: memoryview, limit: int) -> Records | None:
        captured_of = struct.Struct(self._order + "I").unpack_from
        longest, end = self._longest, len(view)
        last = end - RECORD
        starts: list[int] = []
        append = starts.append
        position = self.position
        for _ in range(limit):
            if position > last:
                break
            captured = captured_of(view, position + 8)[0]
            after = position + RECORD + captured
            if captured > longest or after > end:
                break
            append(position)
            position = after
        self.position = position
        if not starts:
            if position <= last and (captured := captured_of(view, position + 8)[0]) > longest:
                raise FormatError(f"a packet of {captured} bytes cannot be (the longest is {longest})", position)
            return None
        at = np.array(starts, np.int64)
        u32 = Bytes(view).view(self._order + "u4")
        time = u32[at].astype(np.int64) * 1_000_000_000 + u32[at + 4].astype(np.int64) * self._unit
        return Records(at + RECORD, u32[at + 8].astype(np.int64), u32[at + 12].astype(np.int64), time, self.link)
