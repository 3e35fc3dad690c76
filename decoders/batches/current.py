"""Reads the records of a batch of magic 2.

Source: Kafka's `DefaultRecord`; KIP-98, KIP-82 (headers). A record is its size and then attributes (int8, unused),
timestamp delta (varlong), offset delta, key, value (varint sizes, negative for null) and headers, all zigzag varints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kproxy.decoders.batches.compiled import CommonRecords
from kproxy.decoders.batches.record import Header, Record, RecordsError
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.primitives import read_unsigned_varint, read_varlong
from kproxy.decoders.problems import Code, DecodeError

_FAR: Final = 1 << 62
"""Upper bound on the absolute value of base offsets and timestamps that CommonRecords can read."""


def stretches(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> Iterator[Iterable[Record]]:
    """Yield iterables that together give the `count` records in `data`; exhaust each one before you ask for the next.

    `append_time`, if given, replaces the timestamps of all records. Raises RecordsError if `count` is negative, at the
    first damaged record (after all records before it were yielded), and if bytes follow the last record.
    """
    if count < 0:
        raise RecordsError(Code.BAD_LENGTH, f"a batch of {counted(count, 'record')}", 0)
    common = -_FAR < base_offset < _FAR and -_FAR < base_timestamp < _FAR
    read = position = 0
    while read < count:
        if common:
            stretch = CommonRecords(data, position, count - read, base_offset, base_timestamp, append_time)
            yield stretch
            position, read = stretch.position, count - stretch.left
        if read < count:
            careful = _Careful(data, position, read, count)
            yield (careful.record(base_offset, base_timestamp, append_time),)
            position, read = careful.stop, read + 1
    if position != len(data):
        left = len(data) - position
        text = f"{counted(left, 'byte')} after the last of {counted(count, 'record')}"
        raise RecordsError(Code.TRAILING_BYTES, text, position)


def _long(number: int) -> int:
    """`number` wrapped to 64 bits, as Java's long does."""
    return (number + (1 << 63) & (1 << 64) - 1) - (1 << 63)


class _Careful:
    """Reads one record field by field, and names the faulty field of a damaged record."""

    def __init__(self, data: bytes, position: int, index: int, count: int) -> None:
        self.data, self.position, self.index, self.count = data, position, index, count
        self.stop = len(data)

    def fail(self, code: Code, message: str, position: int, part: str) -> RecordsError:
        unread = self.count - self.index
        text = f"record {self.index + 1} of {self.count}: {message}; {unread} not read"
        return RecordsError(code, text, position, self.index, part)

    def number(self, part: str, *, long: bool = False) -> int:
        start = self.position
        # No varint is longer than ten bytes.
        window = self.data[start : min(self.stop, start + 10)]
        try:
            value, size = read_varlong(window, 0) if long else read_unsigned_varint(window, 0)
        except IndexError:
            raise self.fail(Code.TRUNCATED, f"the record ends within its {part}", start, part) from None
        except DecodeError as error:
            raise self.fail(Code.BAD_VARINT, f"{part}: {error.message}", start, part) from None
        self.position = start + size
        return value if long else value >> 1 ^ -(value & 1)

    def sized(self, part: str, *, nullable: bool = True) -> bytes | None:
        start = self.position
        size = self.number(part)
        if size < 0 and not nullable:
            raise self.fail(Code.BAD_LENGTH, f"{part} of {counted(size, 'byte')}", start, part)
        if size > self.stop - self.position:
            left = self.stop - self.position
            raise self.fail(
                Code.BAD_LENGTH, f"{part} of {counted(size, 'byte')} where {left} {are(left)} left", start, part
            )
        if size < 0:
            return None
        start = self.position
        self.position += size
        return self.data[start : self.position]

    def header(self, part: str) -> Header:
        name = self.sized(f"{part}.key", nullable=False)
        return name or b"", self.sized(f"{part}.value")

    def record(self, base_offset: int, base_timestamp: int, append_time: int | None) -> Record:
        """The record. Sets `stop` to the record's end. Raises RecordsError."""
        start = self.position
        if start == self.stop:
            raise self.fail(Code.TRUNCATED, "there are no more bytes", start, "")
        size = self.number("size")
        left = self.stop - self.position
        if not 0 <= size <= left:
            raise self.fail(
                Code.BAD_LENGTH, f"a size of {counted(size, 'byte')} where {left} {are(left)} left", start, ""
            )
        self.stop = self.position + size
        if not size:
            raise self.fail(Code.TRUNCATED, "the record is empty", start, "")
        self.position += 1
        timestamp = _long(base_timestamp + self.number("timestampDelta", long=True))
        offset = _long(base_offset + self.number("offsetDelta"))
        key = self.sized("key")
        value = self.sized("value")
        at = self.position
        count = self.number("headers")
        if count < 0:
            raise self.fail(Code.BAD_LENGTH, f"{count} headers", at, "headers")
        headers = tuple(self.header(f"headers[{index}]") for index in range(count))
        if self.position != self.stop:
            left = self.stop - self.position
            raise self.fail(Code.BAD_LENGTH, f"{counted(left, 'byte')} of it {are(left)} left over", start, "")
        if append_time is not None:
            timestamp = append_time
        return offset, timestamp, key, value, headers
