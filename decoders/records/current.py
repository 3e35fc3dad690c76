"""The records of a batch of magic 2.

Source: Kafka's `DefaultRecord`; KIP-98, KIP-82 (headers). A record is its size and then attributes (int8, unused),
timestamp delta (varlong), offset delta, key, value (varint sizes, negative for null) and headers, all zigzag varints.
"""

from __future__ import annotations

from decoders.primitives import Buffer, read_unsigned_varint, read_varlong
from decoders.problems import Code, DecodeError
from decoders.records.record import NO_HEADERS, Header, Record, RecordsError


def read_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None, out: list[Record]
) -> None:
    """Append the `count` records that fill `data` to `out`.

    `append_time`, where given, is the timestamp of them all. Raises RecordsError at the first that is damaged, after
    those before it were appended, and where `count` records do not fill the bytes.
    """
    if count < 0:
        raise RecordsError(Code.BAD_LENGTH, f"a batch of {count} records", 0)
    end = len(data)
    position = 0
    append = out.append
    first = len(out)
    try:
        for _ in range(count):
            # The common case of each number is one byte; a call for each would take half of the time.
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = _varint(data, position, number)
            stop = position + (number >> 1 ^ -(number & 1))
            if stop > end:
                break
            position += 1
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = _varlong(data, position, number)
            timestamp = base_timestamp + (number >> 1 ^ -(number & 1)) if append_time is None else append_time
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = _varint(data, position, number)
            offset = base_offset + (number >> 1 ^ -(number & 1))
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = _varint(data, position, number)
            if number & 1:
                key = None
            else:
                after = position + (number >> 1)
                key = data[position:after]
                position = after
            number = data[position]
            position += 1
            if number >= 0x80:
                number, position = _varint(data, position, number)
            if number & 1:
                value = None
            else:
                after = position + (number >> 1)
                value = data[position:after]
                position = after
            number = data[position]
            position += 1
            if not number:
                if position != stop:
                    break
                append((offset, timestamp, key, value, NO_HEADERS, start, position))
                continue
            if number >= 0x80:
                number, position = _varint(data, position, number)
            if number & 1:
                break
            headers: list[Header] = []
            for _ in range(number >> 1):
                number = data[position]
                position += 1
                if number >= 0x80:
                    number, position = _varint(data, position, number)
                if number & 1:
                    stop = -1
                    break
                after = position + (number >> 1)
                name = data[position:after]
                position = after
                number = data[position]
                position += 1
                if number >= 0x80:
                    number, position = _varint(data, position, number)
                if number & 1:
                    headers.append((name, None))
                else:
                    after = position + (number >> 1)
                    headers.append((name, data[position:after]))
                    position = after
            if position != stop:
                break
            append((offset, timestamp, key, value, headers, start, position))
    except (IndexError, DecodeError):
        pass
    read = len(out) - first
    if read < count:
        raise _damage(data, out[-1][6] if read else 0, read, count)
    if position != end:
        raise RecordsError(Code.TRAILING_BYTES, f"{end - position} bytes after the last of {count} records", position)


def _varint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose `first` byte stands before `position`."""
    second = data[position]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    return read_unsigned_varint(data, position - 1)


def _varlong(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The same for 64 bits, still zigzag."""
    second = data[position]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    value, position = read_varlong(data, position - 1)
    return (value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF, position


class _Careful:
    """Reads one damaged record part by part, to say which part does not fit."""

    def __init__(self, data: bytes, position: int, index: int, count: int) -> None:
        self.data, self.position, self.index, self.count = data, position, index, count
        self.stop = len(data)

    def fail(self, code: Code, message: str, position: int, part: str) -> RecordsError:
        unread = self.count - self.index
        text = f"record {self.index + 1} of {self.count}: {message}; {unread} not read"
        return RecordsError(code, text, position, self.index, part)

    def number(self, part: str, *, long: bool = False) -> int:
        start = self.position
        window: Buffer = self.data[: self.stop]
        try:
            if long:
                value, self.position = read_varlong(window, start)
                return value
            raw, self.position = read_unsigned_varint(window, start)
        except IndexError:
            raise self.fail(Code.TRUNCATED, f"the record ends within its {part}", start, part) from None
        except DecodeError as error:
            raise self.fail(Code.BAD_VARINT, f"{part}: {error.message}", start, part) from None
        return raw >> 1 ^ -(raw & 1)

    def sized(self, part: str, *, nullable: bool = True) -> None:
        start = self.position
        size = self.number(part)
        if size < 0 and not nullable:
            raise self.fail(Code.BAD_LENGTH, f"{part} of {size} bytes", start, part)
        if size > self.stop - self.position:
            left = self.stop - self.position
            raise self.fail(Code.BAD_LENGTH, f"{part} of {size} bytes where {left} are left", start, part)
        self.position += max(size, 0)

    def record(self) -> RecordsError:
        start = self.position
        if start == self.stop:
            return self.fail(Code.TRUNCATED, "there are no more bytes", start, "")
        size = self.number("size")
        left = self.stop - self.position
        if not 0 <= size <= left:
            return self.fail(Code.BAD_LENGTH, f"a size of {size} bytes where {left} are left", start, "")
        self.stop = self.position + size
        if not size:
            return self.fail(Code.TRUNCATED, "the record is empty", start, "")
        self.position += 1
        self.number("timestampDelta", long=True)
        self.number("offsetDelta")
        self.sized("key")
        self.sized("value")
        start = self.position
        headers = self.number("headers")
        if headers < 0:
            return self.fail(Code.BAD_LENGTH, f"{headers} headers", start, "headers")
        for index in range(headers):
            self.sized(f"headers[{index}].key", nullable=False)
            self.sized(f"headers[{index}].value")
        return self.fail(Code.BAD_LENGTH, f"{self.stop - self.position} bytes of it are left over", start, "")


def _damage(data: bytes, position: int, index: int, count: int) -> RecordsError:
    try:
        return _Careful(data, position, index, count).record()
    except RecordsError as error:
        return error
