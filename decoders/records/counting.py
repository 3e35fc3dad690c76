"""Counts the records of a message: from batch headers, and by decompressing message sets of magic 0 and 1."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any, Final

from kproxy.decoders.records.places import PLACES, UNALIGNED

_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xB")
_RECORD_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 57
_ATTRIBUTES_AT: Final = 17
_CODEC: Final = 7
INFLATED: Final = 1 << 20
"""The message sets of a field may decompress to INFLATED bytes plus 16 times the field's size."""


def counted(api_key: int | None, asked: Any, answered: Any) -> tuple[int | None, bool]:
    """(number of records in an exchange, whether a records field ends within a batch)

    `asked` and `answered` are the bodies of request and response, None if unknown. The number is None if the API
    carries no whole batches, or the body that carries them is unknown.
    """
    where = None if api_key is None else PLACES.get(api_key)
    if where is None or where.field == UNALIGNED:
        return None, False
    body = asked if where.in_request else answered
    if body is None:
        return None, False
    total, cut = 0, False
    for topic in body.get(where.topics) or ():
        for partition in topic.get(where.partitions) or ():
            records = partition.get(where.field)
            if records is not None:
                count, ends_within = record_count(records)
                total += count
                cut = cut or ends_within
    return total, cut


def record_count(records: Any) -> tuple[int, bool]:
    """(number of records in a `records` field, whether the field ends within a batch, which is not counted)

    Batches of magic 2 have the number in their header. Compressed messages of magic 0 and 1 do not, so they are
    decompressed; such a message counts as one record if it is unreadable or INFLATED is used up.
    """
    size = len(records)
    position = count = 0
    left = 16 * size + INFLATED
    while position + 17 <= size:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
        end = position + 12 + length
        if length < 14 or end > size:
            break
        if magic < 2:
            if end - position > _ATTRIBUTES_AT and records[position + _ATTRIBUTES_AT] & _CODEC:
                inside, left = _inside(bytes(records[position:end]), left)
                count += inside or 1
            else:
                count += 1
        elif position + _COUNT_AT + 4 <= end:
            count += max(0, _RECORD_COUNT.unpack_from(records, position + _COUNT_AT)[0])
        position = end
    return count, position < size


def _inside(message: bytes, left: int) -> tuple[int, int]:
    """(number of records in a compressed message of magic 0 or 1, how many of the `left` bytes it did not use)"""
    from kproxy.decoders.batches.legacy import Inside, read_message
    from kproxy.decoders.batches.record import RecordsError

    found: list[Any] = []
    inside = Inside(left, left)
    with suppress(RecordsError):
        read_message(message, 0, len(message), found, inside)
    return len(found), inside.left
