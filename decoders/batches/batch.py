"""Split a records field into batches and read their headers.

Handles batches of magic 2 and message sets of magic 0 and 1. Each outer message of a set counts as a batch, as in
Kafka's `MemoryRecords.batches()`. `decoders.batches.opening` reads the records inside.
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
"""baseOffset, number of bytes that follow, (leader epoch or CRC), magic: these fields are the same in every format."""
_V2 = struct.Struct(">qiibIhiqqqhii")
_HEAD = struct.Struct(">qi4xb4xh20xqhii")
"""The fields of a magic 2 header that `heads` reads."""
_SENT = struct.Struct(">8xi4xbIh20xqhii")
"""The fields of a magic 2 header that `sent` reads."""
V2_HEADER = _V2.size
"""Size of a magic 2 header; the records follow it."""
_LEGACY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")

_CRC = struct.Struct(">I")
_SIZE = struct.Struct(">8xi")
_SEARCHED = 16
"""Limit on the work of `first_whole`: it computes CRCs over at most this many times the length of the data."""

_LOG_OVERHEAD = 12
"""Size in bytes of a batch's offset and size fields, which the value of the size field does not include."""
_CHECKED_V2 = 21
_CHECKED_LEGACY = 16
_MINIMUM_LEGACY = 14
_MINIMUM_V1 = 22


class Batch(NamedTuple):
    """One batch: its `header` under the names of the exchange JSON, and its bytes [start, end) in the records field."""

    start: int
    end: int
    header: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault in a records field.

    `offset` counts from the field's first byte; a fault in decompressed bytes has the offset of the compressed ones.
    `path` is the path of the faulty part below the field ("batches[1].records[3].value"), "" for the whole field.
    """

    offset: int
    code: Code
    message: str
    path: str = ""


Head: TypeAlias = tuple[
    int | None, int, int | None, int, str, int | None, int | None, int | None, bool | None, bool | None
]
"""A summary of a batch's header; a value is None if this header does not hold it:

(base offset, size in bytes, number of records, magic, codec, producer id, producer epoch, base sequence, is
transactional, is control).
"""


class Batches(NamedTuple):
    """The batches of a records field.

    `truncated_tail` is the number of bytes after the last complete batch. They are an incomplete batch (normal at the
    end of a Fetch), or an unreadable batch and all bytes after it; then `troubles` holds the reason.
    """

    batches: list[Batch]
    truncated_tail: int
    troubles: list[Trouble]


_NAMES = (*COMPRESSION, "unknown(5)", "unknown(6)", "unknown(7)")


def compression_name(attributes: int) -> str:
    return _NAMES[attributes & 7]


def parse(records: Buffer, *, check: bool = True) -> Batches:
    """Read the headers of all batches; never raises on any bytes.

    Without `check` no CRC is computed and headers have no `crcValid`; the time for a batch then does not depend on its
    size.
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
    """Summaries of the headers of all batches; never raises on any bytes."""
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
        found += map(head, parse(records[position:], check=False).batches)
    return found


def sent(records: Buffer) -> tuple[int, int, int, int, int, int, bool] | None:
    """Read the header fields that identify a partition's first batch (magic 2) in a Produce.

    Returns (size in bytes, CRC, producer id, producer epoch, base sequence, number of records, is transactional); None
    if there is no whole batch of magic 2.
    """
    if len(records) < V2_HEADER:
        return None
    size, magic, crc, attributes, producer_id, epoch, sequence, count = _SENT.unpack_from(records)
    size += _LOG_OVERHEAD
    if magic != 2 or not V2_HEADER <= size <= len(records):
        return None
    return size, crc, producer_id, epoch, sequence, count, attributes & 16 != 0


def corrupt(records: Buffer) -> list[tuple[int | None, int, int]]:
    """The batches whose CRC does not match their bytes, as (base offset, CRC in the header, size in bytes).

    Never raises on any bytes.
    """
    found: list[tuple[int | None, int, int]] = []
    position, end = 0, len(records)
    while end - position >= V2_HEADER:
        offset, size, _, magic = _PREFIX.unpack_from(records, position)
        after = position + _LOG_OVERHEAD + size
        if magic != 2 or size < V2_HEADER - _LOG_OVERHEAD or after > end:
            break
        (crc,) = _CRC.unpack_from(records, position + _PREFIX.size)
        if google_crc32c.value(bytes(records[position + _CHECKED_V2 : after])) != crc:
            found.append((offset, crc, after - position))
        position = after
    if position < end:
        headers = (one.header for one in parse(records[position:]).batches)
        found += [(one.get("baseOffset"), one["crc"], one["sizeInBytes"]) for one in headers if not one["crcValid"]]
    return found


def first_size(records: Buffer) -> int | None:
    """Size in bytes of the first batch (or message of magic 0 or 1), as its size field states it.

    None if that is missing.
    """
    if len(records) < _LOG_OVERHEAD:
        return None
    size: int = _SIZE.unpack_from(records)[0]
    return size + _LOG_OVERHEAD


def head(batch: Batch) -> Head:
    """The summary of a batch's header."""
    get = batch.header.get
    return (
        get("baseOffset"), batch.header["sizeInBytes"], get("recordCount"), batch.header["magic"],
        batch.header["compression"], get("producerId"), get("producerEpoch"), get("baseSequence"),
        get("isTransactional"), get("isControl"),
    )  # fmt: skip


def parse_unaligned(records: Buffer) -> tuple[int, Batches]:
    """Read batch headers from bytes that may begin in the middle of a batch (a piece of a snapshot, KIP-630).

    Returns (number of leading bytes that belong to an earlier batch, batches). Positions of the batches count from the
    first byte after these leading bytes.
    """
    start = first_whole(records)
    parsed = parse(records[start:] if start else records)
    if start is None and parsed.troubles:
        # All bytes lie within one batch.
        return len(records), Batches([], 0, [])
    return start or 0, parsed


def first_whole(records: Buffer) -> int | None:
    """Offset of the first whole batch of magic 2 with a valid CRC; None if there is none.

    The bytes may begin in the middle of a batch.
    """
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
    """Whether the CRC of `batch` matches its bytes in `records`: CRC32C for magic 2, CRC32 for magic 0 and 1."""
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
        # KIP-534: the log cleaner stores in this field how long tombstones stay; timestamp deltas still count from it.
        header["deleteHorizon"] = base_timestamp
    header["maxTimestamp"] = max_timestamp
    header["producerId"] = producer_id
    header["producerEpoch"] = producer_epoch
    header["baseSequence"] = base_sequence
    header["recordCount"] = count
    header["sizeInBytes"] = end - position
    return header


def _legacy(records: Buffer, position: int, end: int, check: bool) -> dict[str, Any]:
    """The header of an outer message. Base offset and record count are present only if the message is uncompressed."""
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
