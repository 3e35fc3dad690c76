"""Decompresses a record batch and describes its first records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kproxy.captures.findings.facts import Content
from kproxy.decoders.batches.batch import V2_HEADER, Batch, first_size, parse
from kproxy.decoders.batches.codecs import lz4_size
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.batches.record import Record

RECORDS: Final = 64
"""Maximum number of records of a batch that are read."""
OPENED: Final = 4 << 20
"""Maximum decompressed size in bytes of a batch that is opened."""
TRIED: Final = 16 << 10
"""Maximum number of bytes of an uncompressed batch that are compressed with LZ4 to estimate its ratio."""
LEGACY: Final = 64 << 10
"""Maximum number of bytes of a message set (magic 0 or 1) that are read."""
LONGEST: Final = 1 << 10
"""Maximum size in bytes of a key in the fact; longer keys are left out."""
FRAME: Final = struct.Struct(">BI")
"""What serializers of schema registries put before a payload: a byte 0, and the schema id in 4 bytes."""
MOST_ID: Final = 1 << 24
"""Upper bound of plausible schema ids: registries count them from 1."""
NUMBER: Final = 8
"""Size in bytes of a serialized long. Most longs begin with a byte 0, as FRAME does, so no schema id is sought in
values of this size.
"""
SCHEMA_HEADERS: Final = frozenset({b"__value_schema_id", b"value.schema.id"})
"""Names of headers in which some serializers put the schema id of a value, instead of before the value."""


def first_batch(records: Any) -> Batch | None:
    """The first batch of a records field; None if the capture lacks some of its bytes."""
    size = first_size(records)
    if size is None or not 0 < size <= len(records):
        return None
    return next(iter(parse(records[:size], check=False).batches), None)


def content(records: Any, batch: Batch) -> Content:
    """The content of the first records in a field; `batch` is its first batch. Never raises on bad bytes."""
    if batch.header["magic"] != 2:
        return _described(list(islice(_messages(records), RECORDS)), None)
    opened = open_batch(records, batch, limit=OPENED, most=RECORDS)
    return _described(opened.records, _ratio(batch, opened.data, opened.uncompressed_size))


def _messages(records: Any) -> Iterator[Record]:
    """Yields the records of a message set (magic 0 or 1) within its first LEGACY bytes."""
    part = records[:LEGACY]
    for batch in parse(part, check=False).batches:
        yield from open_batch(part, batch, limit=OPENED).records


def _ratio(batch: Batch, data: bytes, uncompressed: int | None) -> float | None:
    if not data or uncompressed is None:
        return None
    if batch.header["compression"] == "none":
        tried = data[:TRIED]
        return len(tried) / lz4_size(tried)
    size: int = batch.header["sizeInBytes"]
    return uncompressed / max(V2_HEADER, size)


def _described(records: list[Record], ratio: float | None) -> Content:
    keys: dict[bytes, int] = {}
    framed: dict[int, int] = {}
    plain = largest = key_bytes = header_bytes = raw = 0
    for _, _, key, value, headers in records:
        size, outside = 0, False
        for name, one in headers:
            size += len(name) + (0 if one is None else len(one))
            outside = outside or name in SCHEMA_HEADERS
        header_bytes += size
        if key:
            length = len(key)
            size += length
            key_bytes += length
            if length <= LONGEST:
                keys[key] = keys.get(key, 0) + 1
        if value:
            size += len(value)
            if not outside:
                number = None if value[0] else schema_id(value)
                if number is None:
                    raw += 1
                else:
                    framed[number] = framed.get(number, 0) + 1
        plain += size
        largest = max(largest, size)
    return Content(
        ratio, len(records), plain, largest, key_bytes, header_bytes, tuple(keys.items()),
        tuple(sorted(framed.items())), raw,
    )  # fmt: skip


def schema_id(value: bytes) -> int | None:
    """The schema id at the beginning of a value; None if there is none, or if the value may be a serialized long."""
    if len(value) <= FRAME.size or value[0] or len(value) == NUMBER:
        return None
    number: int = FRAME.unpack_from(value)[1]
    return number if 0 < number < MOST_ID else None
