"""Writes record batches of magic 2 from their JSON form. Source: Kafka's `DefaultRecordBatch`, `DefaultRecord`."""

from __future__ import annotations

import gzip
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import google_crc32c

from kproxy.decoders.batches.batch import COMPRESSION, V2_HEADER
from kproxy.decoders.primitives import write_unsigned_varint

_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_TO_CRC: Final = struct.Struct(">qiibI")
_LOG_OVERHEAD: Final = 12
_CRC_AT: Final = 17
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_AT: Final = 43


class BatchError(ValueError):
    """A JSON object does not describe a record batch that can be written; the text says why."""


def batch(form: Mapping[str, Any]) -> bytes:
    """The bytes of a batch that is given in the form of the exchange JSON; its sizes and its CRC are computed.

    Only `records` is needed. By default, a record's `key` and `value` are null, it has no `headers`, its `offset` is
    `baseOffset` plus its index, and its `timestamp` is `baseTimestamp`. Raises BatchError.
    """
    if form.get("magic", 2) != 2:
        raise BatchError("only batches of magic 2 can be written")
    records = form.get("records")
    if not isinstance(records, list) or not all(isinstance(one, Mapping) for one in records):
        raise BatchError("records: a list of objects is needed")
    codec = form.get("compression", "none")
    if codec not in COMPRESSION:
        raise BatchError(f"compression: there is no codec {codec!r}")
    try:
        return _batch(form, records, codec)
    except (struct.error, TypeError, ValueError, OverflowError) as error:
        raise BatchError(str(error)) from None


def _batch(form: Mapping[str, Any], records: Sequence[Mapping[str, Any]], codec: str) -> bytes:
    base = form.get("baseOffset", 0)
    times = [one.get("timestamp", form.get("baseTimestamp", -1)) for one in records]
    first = form.get("baseTimestamp", times[0] if times else -1)
    body = b"".join(
        _record(one, one.get("offset", base + place) - base, time - first)
        for place, (one, time) in enumerate(zip(records, times, strict=True))
    )
    attributes = (
        COMPRESSION.index(codec)
        | 8 * (form.get("timestampType") == "LogAppendTime")
        | 16 * bool(form.get("isTransactional"))
        | 32 * bool(form.get("isControl"))
        | 64 * ("deleteHorizon" in form)
    )
    after = _AFTER_CRC.pack(
        attributes,
        form.get("lastOffsetDelta", len(records) - 1),
        first,
        form.get("maxTimestamp", max(times, default=-1)),
        form.get("producerId", -1),
        form.get("producerEpoch", -1),
        form.get("baseSequence", -1),
        len(records),
    ) + _WRITERS[codec](body)
    size = V2_HEADER - _LOG_OVERHEAD + len(after) - _AFTER_CRC.size
    epoch = form.get("partitionLeaderEpoch", -1)
    return _TO_CRC.pack(base, size, epoch, 2, google_crc32c.value(after)) + after


def _record(form: Mapping[str, Any], offset_delta: int, timestamp_delta: int) -> bytes:
    headers = form.get("headers") or ()
    parts = [b"\0", _zigzag(timestamp_delta), _zigzag(offset_delta)]
    parts += [_sized(_bytes(form.get("key"))), _sized(_bytes(form.get("value"))), _zigzag(len(headers))]
    for header in headers:
        parts += [_sized(str(header["key"]).encode()), _sized(_bytes(header.get("value")))]
    content = b"".join(parts)
    return _zigzag(len(content)) + content


def _bytes(value: Any) -> bytes | None:
    """The bytes of a key or value: text, null, or an object with their base64."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and isinstance(value.get("base64"), str):
        return b64decode(value["base64"], validate=True)
    raise BatchError('a key or value is text, null, or {"base64": "…"}')


def _sized(data: bytes | None) -> bytes:
    return _zigzag(-1) if data is None else _zigzag(len(data)) + data


def _zigzag(value: int) -> bytes:
    return write_unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _snappy(data: bytes) -> bytes:
    import snappy

    return bytes(snappy.compress(data))


def _lz4(data: bytes) -> bytes:
    import lz4.frame

    # The Java client reads blocks that do not refer to earlier ones only.
    return bytes(lz4.frame.compress(data, block_linked=False))


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.compress(data)


_WRITERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "none": lambda data: data,
    "gzip": gzip.compress,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}


def with_producer(batch: bytes, producer_id: int, producer_epoch: int) -> bytes:
    """One whole batch of magic 2 with another producer id and epoch, and a new CRC."""
    changed = bytearray(batch)
    _PRODUCER.pack_into(changed, _PRODUCER_AT, producer_id, producer_epoch)
    struct.pack_into(">I", changed, _CRC_AT, google_crc32c.value(bytes(changed[_CRC_AT + 4 :])))
    return bytes(changed)
