"""How many records a message carries, told from batch headers alone."""

from __future__ import annotations

import struct
from typing import Any, Final

from decoders.records.places import PLACES, UNALIGNED

_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xB")
_RECORD_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 57


def counted(api_key: int | None, asked: Any, answered: Any) -> tuple[int | None, bool]:
    """Records in the half that carries them, and whether any end within a batch; None where there are none to count.

    The halves are bodies, None for one that is not known.
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
    """Records in a `records` field as its batch headers say, and whether it ends within a batch, which counts not.

    No batch is opened: a compressed message set of magic 0 or 1 counts as its outer messages.
    """
    size = len(records)
    position = count = 0
    while position + 17 <= size:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(records, position)
        end = position + 12 + length
        if length < 14 or end > size:
            break
        if magic < 2:
            count += 1
        elif position + _COUNT_AT + 4 <= end:
            count += max(0, _RECORD_COUNT.unpack_from(records, position + _COUNT_AT)[0])
        position = end
    return count, position < size
