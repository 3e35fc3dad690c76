"""Reads the pcapng format (draft-ietf-opsawg-pcapng): sections, interfaces, packets, comments and drop counters."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kproxy.captures.errors import FormatError
from kproxy.captures.formats.gather import Bytes
from kproxy.captures.formats.records import Records
from kproxy.captures.tcp.packets import Ints
from kproxy.decoders.plurals import counted

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
PACKET_BLOCKS = frozenset({OLD_PACKET, SIMPLE_PACKET, PACKET})

BYTE_ORDER_MAGIC = 0x1A2B3C4D
SMALLEST = {SECTION: 28, INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, STATISTICS: 24, PACKET: 32}
APART = frozenset({SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS})
HUGE = 256 << 20
LATEST = (1 << 63) - 1
"""Latest valid time, in nanoseconds since the epoch (year 2262); the earliest is 0 (1970)."""
PACKET_HEADER = 28
SIMPLE_HEADER = 12
OPT_END, OPT_COMMENT, IF_NAME, IF_TSRESOL, IF_TSOFFSET, ISB_IFDROP, ISB_OSDROP = 0, 1, 2, 9, 14, 5, 7


@dataclass(slots=True)
class Interface:
    """An interface of a section: its link-layer type, snap length, clock, drop counter and name (UTF-8).

    A second has `ticks` units of its packets' timestamps; `offset` seconds are added to each.
    """

    link: int
    snap: int
    ticks: int = 1_000_000
    offset: int = 0
    dropped: int = 0
    name: bytes = b""

    def nanoseconds(self, high: Ints, low: Ints) -> Ints:
        """Times in nanoseconds since the epoch, from the two 32-bit halves of timestamps; -1 if out of range."""
        start = self.offset * 1_000_000_000
        if self.ticks <= 1_000_000_000 and 1_000_000_000 % self.ticks == 0:
            factor = 1_000_000_000 // self.ticks
            latest = ((int(high.max()) + 1) << 32) * factor
            if start >= 0 and latest + start <= LATEST:
                return ((high << 32) | low) * factor + start
        exact = (h << 32 | n for h, n in zip(high.tolist(), low.tolist(), strict=True))
        times = (n * 1_000_000_000 // self.ticks + start for n in exact)
        return np.array([time if 0 <= time <= LATEST else -1 for time in times], np.int64)


class PcapngWalker:
    """Reads the blocks of a pcapng file (see Walker); the section header may be incomplete at first."""

    def __init__(self) -> None:
        self.position = 0
        self.dropped = 0
        self.untimed = 0
        self.nanoseconds = False
        self.binding = 0
        """Number of blocks so far on which later blocks depend: sections, interfaces, packets without a time."""
        self._order = "<"
        self._interfaces: list[Interface] = []
        self._last_time = 0

    @property
    def names(self) -> list[bytes]:
        """The names of the interfaces of the present section, in the order of their numbers."""
        return [one.name for one in self._interfaces]

    def walk(self, view: memoryview, limit: int) -> Records | None:
        """Up to `limit` complete records, like Walker.walk; those of one call have the same block type and section."""
        end = len(view)
        last = end - 12
        pair = struct.Struct(self._order + "II").unpack_from
        position, kind = self.position, 0
        starts: list[int] = []
        append = starts.append
        while position <= last and len(starts) < limit:
            block, length = pair(view, position)
            if block == PACKET and length >= 32:
                if kind != PACKET:
                    if starts:
                        break
                    kind = PACKET
                after = position + length
                if length > HUGE or after > end:
                    break
                append(position)
                position = after
                continue
            if starts and block in APART and block != kind:
                break  # the block takes effect only after the packets before it were checked
            if block == SECTION:
                taken = self._section(view, position)
                if not taken:
                    break
                position += taken
                self.position = position
                pair = struct.Struct(self._order + "II").unpack_from
                continue
            after = position + length
            if length < SMALLEST.get(block, 12) or length > HUGE or after > end:
                break
            if block in {OLD_PACKET, SIMPLE_PACKET}:
                kind = block
                append(position)
            else:
                self._other(view, block, position, length)
            position = after
        if starts:
            records, taken = self._records(view, kind, starts)
            if taken:
                self.position = position if taken == len(starts) else starts[taken]
                return records
            self.position = starts[0]
        else:
            self.position = position
        self._check(view)
        return None

    def _check(self, view: memoryview) -> None:
        """Raise FormatError if the block at `position` can never be valid; return if it is only incomplete."""
        position = self.position
        if position + 8 > len(view):
            return
        block, length = struct.unpack_from(self._order + "II", view, position)
        if block == SECTION:
            self._section(view, position)
            return
        if length < SMALLEST.get(block, 12) or length > HUGE:
            raise FormatError(f"a block of type {block:#x} cannot be {counted(length, 'byte')} long", position)
        if position + length > len(view):
            return
        trailer = struct.unpack_from(self._order + "I", view, position + length - 4)[0]
        if trailer != length:
            raise FormatError(f"a block starts with length {length} and ends with {trailer}", position)
        if block in {PACKET, OLD_PACKET, SIMPLE_PACKET}:
            number, captured = self._packet(view, block, position)
            if number >= len(self._interfaces):
                raise FormatError(f"a packet of interface {number}, which the section does not describe", position)
            raise FormatError(f"a packet of {counted(captured, 'byte')} in a block of {length}", position)

    def _packet(self, view: memoryview, block: int, position: int) -> tuple[int, int]:
        """(number of the interface, captured length in bytes) of a packet block."""
        if block == SIMPLE_PACKET:
            return 0, struct.unpack_from(self._order + "I", view, position + 8)[0]
        number = struct.unpack_from(self._order + ("H" if block == OLD_PACKET else "I"), view, position + 8)[0]
        return number, struct.unpack_from(self._order + "I", view, position + 20)[0]

    def _section(self, view: memoryview, position: int) -> int:
        """Read a section header; returns its length in bytes, 0 if it is incomplete."""
        if position + 12 > len(view):
            return 0
        magic = bytes(view[position + 8 : position + 12])
        for order in "<>":
            if magic == struct.pack(order + "I", BYTE_ORDER_MAGIC):
                break
        else:
            raise FormatError("a section header without byte-order magic", position)
        length: int = struct.unpack_from(order + "I", view, position + 4)[0]
        if length < SMALLEST[SECTION] or length > HUGE:
            raise FormatError(f"a section header cannot be {counted(length, 'byte')} long", position)
        if position + length > len(view):
            return 0
        major = struct.unpack_from(order + "H", view, position + 12)[0]
        if major != 1:
            raise FormatError(f"pcapng version {major} is unknown", position)
        if struct.unpack_from(order + "I", view, position + length - 4)[0] != length:
            raise FormatError("a section header whose two lengths differ", position)
        self._order = order
        self._interfaces = []
        self.binding += 1
        return length

    def _other(self, view: memoryview, block: int, position: int, length: int) -> None:
        """Read a block without a packet: an interface's description or statistics."""
        order, end = self._order, position + length - 4
        if block == INTERFACE:
            link, _, snap = struct.unpack_from(order + "HHI", view, position + 8)
            interface = Interface(link, snap)
            for code, value in _options(view, position + 16, end, order):
                if code == IF_TSRESOL and len(value) >= 1:
                    power = value[0]
                    # With finer units than 10^-18 or 2^-62 seconds, the 64-bit timestamp would overflow within a
                    # second.
                    interface.ticks = 1 << min(power & 0x7F, 62) if power & 0x80 else 10 ** min(power, 18)
                elif code == IF_TSOFFSET and len(value) >= 8:
                    interface.offset = struct.unpack_from(order + "q", value)[0]
                elif code == IF_NAME:
                    interface.name = bytes(value)
            self.nanoseconds |= 1_000_000 % interface.ticks > 0
            self._interfaces.append(interface)
            self.binding += 1
        elif block == STATISTICS:
            number = struct.unpack_from(order + "I", view, position + 8)[0]
            if number >= len(self._interfaces):
                return
            dropped = sum(
                struct.unpack_from(order + "Q", value)[0]
                for code, value in _options(view, position + 20, end, order)
                if code in {ISB_IFDROP, ISB_OSDROP} and len(value) >= 8
            )
            # Drop counters count from the start of the capture, so the interface's last block suffices.
            self.dropped += dropped - self._interfaces[number].dropped
            self._interfaces[number].dropped = dropped

    def _records(self, view: memoryview, kind: int, starts: list[int]) -> tuple[Records, int]:
        """(columns of packet blocks of type `kind`, number of leading blocks that are valid)."""
        at = np.array(starts, np.int64)
        held = Bytes(view)
        u32 = held.view(self._order + "u4")
        length = u32[at + 4].astype(np.int64)
        if kind == SIMPLE_PACKET:
            interface = np.zeros(len(at), np.int64)
            wire = u32[at + 8].astype(np.int64)
            data, room = at + SIMPLE_HEADER, length - SIMPLE_HEADER - 4
            snap = self._interfaces[0].snap if self._interfaces else 0
            captured = np.minimum(wire, room)
            if snap:
                captured = np.minimum(captured, snap)
        else:
            if kind == OLD_PACKET:
                interface = held.view(self._order + "u2")[at + 8].astype(np.int64)
            else:
                interface = u32[at + 8].astype(np.int64)
            captured, wire = u32[at + 20].astype(np.int64), u32[at + 24].astype(np.int64)
            data, room = at + PACKET_HEADER, length - PACKET_HEADER - 4
        right = (u32[at + length - 4] == length) & (captured <= room) & (interface < len(self._interfaces))
        count = len(starts) if right.all() else int(right.argmin())
        records = Records(data[:count], captured[:count], wire[:count], np.empty(0, np.int64), 0)
        if not count:
            return records, 0
        interface = interface[:count]
        if kind == SIMPLE_PACKET:
            # A simple packet block has no time: it gets the previous packet's time.
            self.binding += count
            records.time = np.full(count, self._last_time, np.int64)
            records.link = self._interfaces[0].link
            return records, count
        high, low = u32[at[:count] + 12].astype(np.int64), u32[at[:count] + 16].astype(np.int64)
        used = [int(interface[0])] if (interface == interface[0]).all() else np.unique(interface).tolist()
        if len(used) == 1:
            records.time = self._interfaces[used[0]].nanoseconds(high, low)
            records.link = self._interfaces[used[0]].link
        else:
            records.time = np.empty(count, np.int64)
            link = np.empty(count, np.int64)
            for number in used:
                mine = interface == number
                records.time[mine] = self._interfaces[number].nanoseconds(high[mine], low[mine])
                link[mine] = self._interfaces[number].link
            records.link = link
        if (records.time < 0).any():
            self._time(records.time)
        self._last_time = int(records.time[-1])
        padded = (records.captured + 3) & ~3
        for i in np.flatnonzero(room[:count] - padded >= 4).tolist():
            options = starts[i] + PACKET_HEADER + int(padded[i])
            comments = [
                str(value, "utf-8", "replace")
                for code, value in _options(view, options, starts[i] + int(length[i]) - 4, self._order)
                if code == OPT_COMMENT
            ]
            if comments:
                records.comments[i] = "\n".join(comments)
        return records, count

    def _time(self, times: Ints) -> None:
        """Replace each time out of range (-1) by the time of the packet before it."""
        for i in np.flatnonzero(times < 0).tolist():
            times[i] = times[i - 1] if i else self._last_time
            self.untimed += 1
            self.binding += 1


def _options(view: memoryview, position: int, end: int, order: str) -> Iterator[tuple[int, memoryview]]:
    """(code, value) of each option in [position, end); stops at the first invalid option."""
    while position + 4 <= end:
        code, length = struct.unpack_from(order + "HH", view, position)
        if code == OPT_END or position + 4 + length > end:
            return
        yield code, view[position + 4 : position + 4 + length]
        position += 4 + ((length + 3) & ~3)
