"""Reads the classic pcap format (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct

import numpy as np

from kproxy.captures.errors import FormatError
from kproxy.captures.formats.compiled import starts
from kproxy.captures.formats.gather import Bytes
from kproxy.captures.formats.magic import PCAP
from kproxy.captures.formats.records import Records
from kproxy.decoders.plurals import counted

HEADER = 24
RECORD = 16
LONGEST = 262_144
"""Size up to which packets are valid even if the header's snap length is smaller: libpcap's limit, in bytes."""
HUGE = 256 << 20
SHORT = 2048
"""Record size in bytes up to which reading all bytes in order is faster than jumping from header to header."""
LINE = 64
"""Size in bytes of a cache line."""


class PcapWalker:
    """Reads a pcap file whose header is complete (see Walker). Raises FormatError if the file's version is unknown."""

    def __init__(self, view: memoryview) -> None:
        order, self._unit = PCAP[bytes(view[:4])]
        major, _, _, _, snap, network = struct.unpack_from(order + "HHiIII", view, 4)
        if major != 2:
            raise FormatError(f"pcap version {major} is unknown", 4)
        self.position = HEADER
        self.dropped = 0
        self.untimed = 0
        self.binding = 0
        self.nanoseconds = self._unit == 1
        self.link = network & 0xFFFF
        self._order = order
        self._size = HUGE
        """Average size in bytes of the records read last."""
        self.longest = min(max(snap, LONGEST), HUGE)

    def walk(self, view: memoryview, limit: int) -> Records | None:
        if self._size <= SHORT:
            self._fetch(view, limit * self._size)
        found = np.empty(limit, np.int64)
        count = starts(view, self.position, self.longest, self._order == "<", found.data)
        if not count:
            if self.position + RECORD <= len(view):
                captured = struct.unpack_from(self._order + "I", view, self.position + 8)[0]
                if captured > self.longest:
                    text = f"a packet of {counted(captured, 'byte')} exceeds the maximum of {self.longest}"
                    raise FormatError(text, self.position)
            return None
        at = found[:count]
        first, last = self.position, int(at[-1])
        self.position = last + RECORD + int(struct.unpack_from(self._order + "I", view, last + 8)[0])
        self._size = (self.position - first) // count
        seconds, part, captured, wire = Bytes(view).items(self._order + "4u4", at).T.astype(np.int64, order="C")
        return Records(at + RECORD, captured, wire, seconds * 1_000_000_000 + part * self._unit, self.link)

    def _fetch(self, view: memoryview, size: int) -> None:
        """Read the next `size` bytes in order, which the CPU prefetches, unlike jumps from header to header."""
        np.bitwise_or.reduce(Bytes(view).view("u1")[self.position : self.position + size : LINE])
