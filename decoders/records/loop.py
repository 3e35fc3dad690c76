"""The loop over the records of a batch of magic 2: fast, and silent about what is wrong.

It reads what every producer writes and stops at anything else, damaged or only rare; decoders.records.current goes on
from there. Plain Python, and where there is a C compiler the source of the extension `_loop` as well: setup.py compiles
it with the C types of loop.pxd.
"""

from __future__ import annotations

from decoders.records.record import NO_HEADERS, Header, Record


def read_common(
    data: bytes,
    start: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    out: list[Record],
) -> int:
    """Append up to `count` records from `start` on to `out`; returns where the first that was not read begins.

    The other parameters are those of `decoders.records.current.read_records`. Bases must lie within 62 bits, so that
    with the deltas that are read here they do not leave 64.
    """
    # In C `raw` has no bounds. Behind it stands a NUL, which ends any number that runs past the end; and a part is read
    # only where a byte is left for each that must follow it. In Python the NUL is an IndexError.
    raw = data
    end = len(data)
    delta = 0
    relative = append_time is None
    timestamp = base_timestamp if append_time is None else append_time
    name = b""
    try:
        for _ in range(count):
            # The common case of each number is one byte; a call for each would take half of the time.
            position = start
            if position >= end:
                break
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
            stop = position + (number >> 1)
            # Six parts of a byte at least: attributes, both deltas, the sizes of key and value, the number of headers.
            if number & 1 or number < 12 or stop > end:
                break
            position += 1
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 9)
                if position + 4 > stop:
                    break
            if number != delta:
                delta = number
                if relative:
                    moment = base_timestamp + (number >> 1 ^ -(number & 1))
                    timestamp = moment
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position + 3 > stop:
                    break
            offset = base_offset + (number >> 1 ^ -(number & 1))
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position + 2 > stop:
                    break
            if number & 1:
                key = None
            else:
                after = position + (number >> 1)
                if after + 2 > stop:
                    break
                key = raw[position:after]
                position = after
            number = raw[position]
            position += 1
            if number >= 0x80:
                number, position = _number(raw, position, number, 4)
                if position >= stop:
                    break
            if number & 1:
                value = None
            else:
                after = position + (number >> 1)
                if after >= stop:
                    break
                value = raw[position:after]
                position = after
            number = raw[position]
            position += 1
            if not number:
                if position != stop:
                    break
                out.append((offset, timestamp, key, value, NO_HEADERS))
                start = stop
                continue
            if number & 1 or number >= 0x80:
                break
            headers: tuple[Header, ...] = ()
            for _ in range(number >> 1):
                if position + 2 > stop:
                    break
                number = raw[position]
                position += 1
                if number >= 0x80:
                    number, position = _number(raw, position, number, 4)
                after = position + (number >> 1)
                if number & 1 or after >= stop:
                    break
                # Mostly the name that the record before has.
                if number >> 1 != len(name) or not data.startswith(name, position):
                    name = raw[position:after]
                position = after
                number = raw[position]
                position += 1
                if number >= 0x80:
                    number, position = _number(raw, position, number, 4)
                if number & 1:
                    headers += ((name, None),)
                else:
                    after = position + (number >> 1)
                    if after > stop:
                        break
                    headers += ((name, raw[position:after]),)
                    position = after
            else:
                if position != stop:
                    break
                out.append((offset, timestamp, key, value, headers))
                start = stop
                continue
            break
    except IndexError:
        pass
    return start


def _number(raw: bytes, position: int, first: int, most: int) -> tuple[int, int]:
    """The unsigned number whose `first` byte stands before `position`, and where it ends.

    Beyond any end where it has more than `most` bytes.
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
