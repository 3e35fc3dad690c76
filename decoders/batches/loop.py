"""The fast loop over the records of a batch of magic 2. It does not report faults.

The loop reads records as producers commonly write them. It stops at any other record, damaged or merely rare, and
decoders.batches.current reads that record. This is plain Python; if there is a C compiler, setup.py also compiles it,
with the C types of loop.pxd, to the extension `_loop`.
"""

from __future__ import annotations

from typing import Self

from kproxy.decoders.batches.record import Header, Record
from kproxy.decoders.batches.tuples import header_tuple, record_tuple  # not in C


class CommonRecords:
    """Iterator over the common records of a batch; it ends after `count` records or before the first uncommon one.

    A record is common if it has the form that producers usually write. `position` is always the offset of the first
    unread record in `data`, and `left` the number of unread records. `append_time`, if given, replaces the timestamps.
    `base_offset` and `base_timestamp` must fit into 62 bits, so that adding a delta never overflows 64 bits.
    """

    def __init__(
        self,
        data: bytes,
        position: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self.data = data
        self.position = position
        self.left = count
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.relative = append_time is None
        # The values of the previous record; most records repeat them.
        self.delta = 0
        self.timestamp = base_timestamp if append_time is None else append_time
        self.name = b""
        # Tuples to reuse. Two headers alternate, because a caller's loop still holds the headers of one record when it
        # asks for the next.
        self.record: Record | None = None
        self.header: tuple[Header] | None = None
        self.header_before: tuple[Header] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        record = self.read() if self.left > 0 else None
        if record is None:
            raise StopIteration
        return record

    def read(self) -> Record | None:
        """The next record; None if it is not common or if there is none."""
        # In C, access to `raw` is not bounds-checked. The NUL byte after it ends any number that runs past the end, and
        # a part is read only if at least one byte is left for each part after it. Python raises IndexError at the NUL.
        data = self.data
        raw = data
        end = len(data)
        try:
            # Most numbers are one byte and are read inline: a function call for each would take half of the time.
            position = self.position
            if position >= end:
                return None
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
            stop = position + (number >> 1)
            # A record has at least six bytes: attributes, both deltas, key size, value size, number of headers.
            if number & 1 or number < 12 or stop > end:
                return None
            position += 1
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 9)
                if position + 4 > stop:
                    return None
            if number != self.delta:
                self.delta = number
                if self.relative:
                    moment = self.base_timestamp + (number >> 1 ^ -(number & 1))
                    self.timestamp = moment
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position + 3 > stop:
                    return None
            offset = self.base_offset + (number >> 1 ^ -(number & 1))
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position + 2 > stop:
                    return None
            if number & 1:
                key = None
            else:
                after = position + (number >> 1)
                if after + 2 > stop:
                    return None
                key = raw[position:after]
                position = after
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position >= stop:
                    return None
            if number & 1:
                value = None
            else:
                after = position + (number >> 1)
                if after >= stop:
                    return None
                value = raw[position:after]
                position = after
            number = raw[position]
            position += 1
            headers: tuple[Header, ...] = ()
            if number & 1 or number >= 0x80:
                return None
            several = number > 2
            for _ in range(number >> 1):
                if position + 2 > stop:
                    return None
                number = raw[position]
                position += 1
                if number >= 0x80:
                    number, position = _number(raw, position, number, 4)
                after = position + (number >> 1)
                if number & 1 or after >= stop:
                    return None
                # Most headers have the same name as the previous one.
                name = self.name
                if number >> 1 != len(name) or not data.startswith(name, position):
                    name = raw[position:after]
                    self.name = name
                position = after
                number = raw[position]
                position += 1
                if number >= 0x80:
                    number, position = _number(raw, position, number, 4)
                if number & 1:
                    content = None
                else:
                    after = position + (number >> 1)
                    if after > stop:
                        return None
                    content = raw[position:after]
                    position = after
                if several:
                    headers += ((name, content),)
                else:
                    header = self.header_before
                    self.header_before = self.header
                    header = header_tuple(header, name, content)
                    self.header = header
                    headers = header
            if position != stop:
                return None
        except IndexError:
            return None
        self.position = stop
        self.left -= 1
        record = self.record
        self.record = None
        record = record_tuple(record, offset, self.timestamp, key, value, headers)
        self.record = record
        return record


def _number(raw: bytes, position: int, first: int, most: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose `first` byte was just read; returns (value, position after it).

    If the number has more than `most` bytes, the position lies beyond the end of any data.
    """
    byte = raw[position]
    if byte < 0x80:
        return first & 0x7F | byte << 7, position + 1
    value = first & 0x7F | (byte & 0x7F) << 7
    for shift in range(14, 7 * most, 7):
        position += 1
        byte = raw[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    return 0, 1 << 62
