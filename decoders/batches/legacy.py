"""Read the messages of message sets of magic 0 and 1, those inside compressed messages included.

Source: Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch`; KIP-31 (relative offsets), KIP-32 (timestamps). The
value of a compressed message is a message set. Inner offsets are absolute in magic 0; in magic 1 they are relative to
the first inner message, and the outer message has the offset of the last.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

from kproxy.decoders.batches.batch import compression_name
from kproxy.decoders.batches.codecs import CodecError, decompress
from kproxy.decoders.batches.record import NO_HEADERS, Record, RecordsError
from kproxy.decoders.plurals import are, counted
from kproxy.decoders.problems import Code

MOST_NESTED: Final = 16
"""Maximum depth to which message sets within message sets are read."""

RECORD_COSTS: Final = 64
"""Minimum number of bytes that a record counts against its batch's limit: the size of its Python object."""

_OUTER: Final = struct.Struct(">qi")
_MESSAGE: Final = struct.Struct(">Ibb")
_TIMESTAMP: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">i")
_CRC: Final = 4


@dataclass(slots=True)
class Inside:
    """State that is shared while the messages of one batch are read.

    `left` is the number of bytes that may still be decompressed for the batch, over all levels of nesting. `troubles`
    are faults that do not stop the reading of the batch.
    """

    limit: int
    left: int
    uncompressed: int | None = None
    troubles: list[RecordsError] = field(default_factory=list)


def read_message(
    data: bytes, start: int, end: int, out: list[Record], inside: Inside, append_time: int | None = None, depth: int = 0
) -> None:
    """Append to `out` the record of the message at [start, end), or the records of the message set in its value.

    [start, end) includes the message's offset and size fields. `append_time`, if given, replaces all timestamps (it is
    the timestamp of an outer message with LogAppendTime). `depth` is the number of outer messages. Raises RecordsError
    at the first unreadable message; `out` then has the records before it.
    """
    (offset, _) = _OUTER.unpack_from(data, start)
    position = start + _OUTER.size
    if end - position < _MESSAGE.size:
        raise _error(Code.TRUNCATED, f"a message of {counted(end - position, 'byte')}", start, out)
    crc, magic, attributes = _MESSAGE.unpack_from(data, position)
    if magic not in {0, 1}:
        raise _error(Code.BAD_LENGTH, f"no message has magic {magic}", start, out)
    if depth and zlib.crc32(data[position + _CRC : end]) != crc:
        text = "a message's CRC does not match its bytes"
        inside.troubles.append(_error(Code.CRC_MISMATCH, text, start, out))
    position += _MESSAGE.size
    timestamp = None
    if magic:
        if position + _TIMESTAMP.size > end:
            raise _error(Code.TRUNCATED, "a message ends within its timestamp", position, out, "timestamp")
        (timestamp,) = _TIMESTAMP.unpack_from(data, position)
        position += _TIMESTAMP.size
        if append_time is not None:
            timestamp = append_time
    key, position = _bytes(data, position, end, out, "key")
    at = position
    value, position = _bytes(data, position, end, out, "value")
    if position != end:
        raise _error(Code.TRAILING_BYTES, f"{counted(end - position, 'byte')} after a message's value", position, out)
    codec = compression_name(attributes)
    if codec == "none":
        out.append((offset, timestamp, key, value, NO_HEADERS))
        return
    if value is None:
        raise _error(Code.DECOMPRESSION_FAILED, "a compressed message without value", at, out, "value")
    if depth == MOST_NESTED:
        text = f"compressed sets are nested more than {MOST_NESTED} deep"
        raise _error(Code.DECOMPRESSION_LIMIT, text, at, out, "value")
    try:
        inner = decompress(codec, value, limit=inside.left, magic=magic)
    except CodecError as error:
        raise _error(error.code, error.message, at, out, "value") from None
    inside.left -= len(inner)
    if not depth:
        inside.uncompressed = len(inner)
    if magic and attributes & 8 and append_time is None:
        append_time = timestamp
    try:
        _read_set(inner, offset, magic, out, inside, append_time, depth + 1)
    except RecordsError as error:
        inside.troubles.append(error)
    if not depth:
        for trouble in inside.troubles:
            trouble.message += f" (byte {trouble.position} of the decompressed set)"
            trouble.position = at


def _read_set(
    data: bytes, offset: int, magic: int, out: list[Record], inside: Inside, append_time: int | None, depth: int
) -> None:
    """Read the decompressed message set `data` and append its records to `out`.

    `offset` and `magic` are those of the outer message; the other parameters are those of `read_message`.
    """
    before = len(out)
    damage: RecordsError | None = None
    position, end, last = 0, len(data), None
    try:
        while position < end:
            if end - position < _OUTER.size:
                raise _error(Code.TRUNCATED, "a set ends within a message's head", position, out)
            number, size = _OUTER.unpack_from(data, position)
            after = position + _OUTER.size + size
            if not 0 <= size <= end - position - _OUTER.size:
                left = end - position - _OUTER.size
                text = f"a message of {counted(size, 'byte')} where {left} {are(left)} left"
                raise _error(Code.BAD_LENGTH, text, position, out)
            if len(out) * RECORD_COSTS > inside.limit:
                text = f"more than {len(out)} records in a set: the rest is not read"
                raise _error(Code.DECOMPRESSION_LIMIT, text, position, out)
            read_message(data, position, after, out, inside, append_time, depth)
            last = number
            position = after
        if last is None:
            raise _error(Code.DECOMPRESSION_FAILED, "a compressed set without messages", 0, out)
    except RecordsError as error:
        damage = error
    if magic and len(out) > before:
        if damage is not None or last is None:
            # Absolute offsets are computed from the last message, so without it they are unknown.
            del out[before:]
        elif offset:
            # Some versions of librdkafka wrote 0 as the outer offset: then the inner offsets stay as they are.
            base = offset - last
            if base < 0:
                text = f"a set of offset {offset} ends with the relative offset {last}"
                damage = RecordsError(Code.BAD_LENGTH, text, 0, before, "offset")
            out[before:] = [(base + number, *rest) for number, *rest in out[before:]]
    if damage is not None:
        raise damage


def _bytes(data: bytes, position: int, end: int, out: list[Record], part: str) -> tuple[bytes | None, int]:
    after = position + _SIZE.size
    if after > end:
        raise _error(Code.TRUNCATED, f"a message ends within the size of its {part}", position, out, part)
    (size,) = _SIZE.unpack_from(data, position)
    if size < 0:
        return None, after
    if size > end - after:
        text = f"a {part} of {counted(size, 'byte')} where {end - after} {are(end - after)} left"
        raise _error(Code.BAD_LENGTH, text, position, out, part)
    return data[after : after + size], after + size


def _error(code: Code, message: str, position: int, out: list[Record], part: str = "") -> RecordsError:
    return RecordsError(code, message, position, len(out), part)
