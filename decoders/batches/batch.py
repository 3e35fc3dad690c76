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
"""baseOffset, size of what follows, (leader epoch or CRC), magic: the same in every format."""
_V2 = struct.Struct(">qiibIhiqqqhii")
_HEAD = struct.Struct(">qi4xb4xh20xqhii")
"""The fields of a magic 2 header that `heads` reads."""
V2_HEADER = _V2.size
"""Size of a magic 2 header; the records follow it."""
_LEGACY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")

_CRC = struct.Struct(">I")
_SEARCHED = 16
"""A search gives up after it computed CRCs over this many times the length of the data."""

_LOG_OVERHEAD = 12
"""Bytes of the offset and size fields, which a batch's size excludes."""
_CHECKED_V2 = 21
_CHECKED_LEGACY = 16
_MINIMUM_LEGACY = 14
_MINIMUM_V1 = 22


class Batch(NamedTuple):
    """One batch: its `header` with the names of the exchange JSON, and its bytes [start, end) in the field."""

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
"""A summary of a batch's header; None for what the header does not tell:

(base offset, bytes, records, magic, codec, producer id, producer epoch, base sequence, transactional, control).
"""


class Batches(NamedTuple):
    """The batches of a records field.

    `truncated_tail` is the number of bytes after the last batch: an incomplete batch (normal at the end of a Fetch), or
    an unreadable one and all that follows, in which case `troubles` has the reason.
    """

    batches: list[Batch]
    truncated_tail: int
    troubles: list[Trouble]


_NAMES = (*COMPRESSION, "unknown(5)", "unknown(6)", "unknown(7)")


def compression_name(attributes: int) -> str:
    return _NAMES[attributes & 7]


def parse(records: Buffer, *, check: bool = True) -> Batches:
    """Read the headers of all batches; never raises on any bytes.

    Without `check` no CRC is computed and headers have no `crcValid`: the cost of a batch is then independent of its
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
    """Read the headers of batches in bytes that may begin in the middle of one (a piece of a snapshot, KIP-630).

    Returns how many leading bytes belong to an earlier batch, and the batches, whose positions count from there.
    """
    start = first_whole(records)
    parsed = parse(records[start:] if start else records)
    if start is None and parsed.troubles:
        # The piece lies wholly within one batch.
        return len(records), Batches([], 0, [])
    return start or 0, parsed


def first_whole(records: Buffer) -> int | None:
    """Start of the first whole batch of magic 2 with a valid CRC in bytes that may begin within one; None if none."""
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
    """Whether the CRC of a batch of these records matches: CRC32C for magic 2, CRC32 for magic 0 and 1."""
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
        # KIP-534: the log cleaner stores here until when tombstones stay; timestamp deltas still count from it.
        header["deleteHorizon"] = base_timestamp
    header["maxTimestamp"] = max_timestamp
    header["producerId"] = producer_id
    header["producerEpoch"] = producer_epoch
    header["baseSequence"] = base_sequence
    header["recordCount"] = count
    header["sizeInBytes"] = end - position
    return header


def _legacy(records: Buffer, position: int, end: int, check: bool) -> dict[str, Any]:
    """The header of an outer message. Only an uncompressed one has base offset and count: else they are inside."""
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
