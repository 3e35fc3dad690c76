"""What a records field holds, down to the headers of its batches.

Batches of magic 2 and message sets of magic 0 and 1, whose outer messages each count as a batch, as in Kafka's
`MemoryRecords.batches()`. The records inside are read by `decoders.records.opening`.
Source: Kafka's `DefaultRecordBatch`, `LegacyRecord`; KIP-98, KIP-32.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import google_crc32c

from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code

COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")

_PREFIX = struct.Struct(">qiIb")
"""baseOffset, size of what follows, (leader epoch or CRC), magic: in this place in every format."""
_V2 = struct.Struct(">qiibIhiqqqhii")
_HEAD = struct.Struct(">qi4xb4xh20xqhii")
"""What `heads` takes of a batch of magic 2."""
V2_HEADER = _V2.size
"""Bytes of a batch of magic 2 before its records."""
_LEGACY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")

_CRC = struct.Struct(">I")
_SEARCHED = 16
"""How often a search may compute the CRC of all bytes before it gives up."""

_LOG_OVERHEAD = 12
"""Bytes of offset and size, which the size does not count."""
_CHECKED_V2 = 21
_CHECKED_LEGACY = 16
_MINIMUM_LEGACY = 14
_MINIMUM_V1 = 22


class Batch(NamedTuple):
    """One batch: `header` as the exchange JSON names it, and its bytes [start, end) in the field."""

    start: int
    end: int
    header: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong in a records field.

    `offset` counts from the field's first byte; what lies in decompressed bytes has the offset of the compressed ones.
    `path` is what it concerns below the field ("batches[1].records[3].value"), "" for the field as a whole.
    """

    offset: int
    code: Code
    message: str
    path: str = ""


Head: TypeAlias = tuple[
    int | None, int, int | None, int, str, int | None, int | None, int | None, bool | None, bool | None
]
"""What the header of a batch says, None where it does not tell:

(base offset, bytes, records, magic, codec, producer id, producer epoch, base sequence, transactional, control).
"""


class Batches(NamedTuple):
    """The batches of a records field.

    `truncated_tail` is how many bytes at the end belong to a batch that is not whole (normal at the end of a Fetch) or
    follow one that cannot be read, which `troubles` then tells.
    """

    batches: list[Batch]
    truncated_tail: int
    troubles: list[Trouble]


_NAMES = (*COMPRESSION, "unknown(5)", "unknown(6)", "unknown(7)")


def compression_name(attributes: int) -> str:
    return _NAMES[attributes & 7]


def parse(records: Buffer, *, check: bool = True) -> Batches:
    """Read the headers of all batches; never raises on any bytes.

    Without `check` no CRC is computed and headers have no `crcValid`: a batch costs its header only, whatever its size.
    """
    batches: list[Batch] = []
    troubles: list[Trouble] = []
    position, end = 0, len(records)
    while end - position >= _PREFIX.size:
        _, size, _, magic = _PREFIX.unpack_from(records, position)
        if magic not in {0, 1, 2}:
            troubles.append(Trouble(position, Code.BAD_LENGTH, f"no record batch has magic {magic}"))
            break
        minimum = (_MINIMUM_LEGACY, _MINIMUM_V1, _V2.size - _LOG_OVERHEAD)[magic]
        if size < minimum:
            message = f"a batch of magic {magic} takes {minimum} bytes at least, its size is {size}"
            troubles.append(Trouble(position, Code.BAD_LENGTH, message))
            break
        after = position + _LOG_OVERHEAD + size
        if after > end:
            break
        header = _v2(records, position, after, check) if magic == 2 else _legacy(records, position, after, check)
        if check and not header["crcValid"]:
            message = "the batch's CRC does not match its bytes"
            troubles.append(Trouble(position, Code.CRC_MISMATCH, message, f"batches[{len(batches)}]"))
        batches.append(Batch(position, after, header))
        position = after
    return Batches(batches, end - position, troubles)


def heads(records: Buffer) -> list[Head]:
    """What the headers of all batches say of them in short; never raises on any bytes."""
    found: list[Head] = []
    position, end = 0, len(records)
    while end - position >= V2_HEADER:
        offset, size, magic, attributes, producer_id, epoch, sequence, count = _HEAD.unpack_from(records, position)
        size += _LOG_OVERHEAD
        if magic != 2 or not V2_HEADER <= size <= end - position:
            break
        codec, transactional, control = _NAMES[attributes & 7], attributes & 16 != 0, attributes & 32 != 0
        found.append((offset, size, count, 2, codec, producer_id, epoch, sequence, transactional, control))
        position += size
    if position < end:
        found += map(_head, parse(records[position:], check=False).batches)
    return found


def _head(batch: Batch) -> Head:
    get = batch.header.get
    return (
        get("baseOffset"), batch.header["sizeInBytes"], get("recordCount"), batch.header["magic"],
        batch.header["compression"], get("producerId"), get("producerEpoch"), get("baseSequence"),
        get("isTransactional"), get("isControl"),
    )  # fmt: skip


def parse_unaligned(records: Buffer) -> tuple[int, Batches]:
    """Read the headers of batches in bytes that may begin within one (a piece of a snapshot, KIP-630).

    Returns how many bytes belong to a batch that began before, and the batches with places that count from there.
    """
    start = first_whole(records)
    parsed = parse(records[start:] if start else records)
    if start is None and parsed.troubles:
        # A piece from the middle of a batch, which does not reach the next.
        return len(records), Batches([], 0, [])
    return start or 0, parsed


def first_whole(records: Buffer) -> int | None:
    """Where the first whole batch of magic 2 begins in bytes that may begin within one; None where there is none."""
    data = bytes(records)
    end = len(data)
    budget = _SEARCHED * end
    at = data.find(2, _PREFIX.size - 1)
    while at >= 0 and budget > 0:
        start = at - _PREFIX.size + 1
        _, size, _, _ = _PREFIX.unpack_from(data, start)
        after = start + _LOG_OVERHEAD + size
        if size >= V2_HEADER - _LOG_OVERHEAD and after <= end:
            budget -= size
            (crc,) = _CRC.unpack_from(data, start + _PREFIX.size)
            if google_crc32c.value(data[start + _CHECKED_V2 : after]) == crc:
                return start
        at = data.find(2, at + 1)
    return None


def crc_valid(records: Buffer, batch: Batch) -> bool:
    """Whether the CRC of a batch of these records matches: CRC32C of magic 2, CRC32 of the others."""
    checked, crc = records[batch.start : batch.end], batch.header["crc"]
    if batch.header["magic"] == 2:
        return bool(google_crc32c.value(bytes(checked[_CHECKED_V2:])) == crc)
    return bool(zlib.crc32(checked[_CHECKED_LEGACY:]) == crc)


def _v2(records: Buffer, position: int, end: int, check: bool) -> dict[str, Any]:
    (
        base_offset,
        _,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _V2.unpack_from(records, position)
    header: dict[str, Any] = {
        "baseOffset": base_offset,
        "partitionLeaderEpoch": leader_epoch,
        "magic": magic,
        "crc": crc,
    }
    if check:
        header["crcValid"] = google_crc32c.value(bytes(records[position + _CHECKED_V2 : end])) == crc
    header["compression"] = compression_name(attributes)
    header["timestampType"] = "LogAppendTime" if attributes & 8 else "CreateTime"
    header["isTransactional"] = bool(attributes & 16)
    header["isControl"] = bool(attributes & 32)
    header["lastOffsetDelta"] = last_offset_delta
    header["baseTimestamp"] = base_timestamp
    if attributes & 64:
        # KIP-534: the log cleaner keeps here until when tombstones stay; records count from it.
        header["deleteHorizon"] = base_timestamp
    header["maxTimestamp"] = max_timestamp
    header["producerId"] = producer_id
    header["producerEpoch"] = producer_epoch
    header["baseSequence"] = base_sequence
    header["recordCount"] = count
    header["sizeInBytes"] = end - position
    return header


def _legacy(records: Buffer, position: int, end: int, check: bool) -> dict[str, Any]:
    """An outer message. What only its inner messages tell (first offset, count) is there where it has none."""
    offset, _, crc, magic, attributes = _LEGACY.unpack_from(records, position)
    compression = compression_name(attributes)
    header: dict[str, Any] = {"baseOffset": offset} if compression == "none" else {}
    header["magic"] = magic
    header["crc"] = crc
    if check:
        header["crcValid"] = zlib.crc32(records[position + _CHECKED_LEGACY : end]) == crc
    header["compression"] = compression
    if magic == 0:
        header["timestampType"] = "NoTimestampType"
    else:
        header["timestampType"] = "LogAppendTime" if attributes & 8 else "CreateTime"
        (header["maxTimestamp"],) = _TIMESTAMP.unpack_from(records, position + _LEGACY.size)
    if compression == "none":
        header["recordCount"] = 1
    header["sizeInBytes"] = end - position
    return header
