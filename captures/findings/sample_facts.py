"""Opens a batch, and describes its first records."""

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
"""Most records of a batch that are read."""
OPENED: Final = 4 << 20
"""A batch that decompresses to more bytes is not opened."""
TRIED: Final = 16 << 10
"""Bytes of plain records that are compressed, to see what a codec would reach."""
LEGACY: Final = 64 << 10
"""Bytes of a set of messages of magic 0 or 1 that are looked at."""
LONGEST: Final = 1 << 10
"""Longer keys are left out of the fact's."""
FRAME: Final = struct.Struct(">BI")
"""The magic byte 0 and the id of a schema, with which serializers of schema registries begin a payload."""
MOST_ID: Final = 1 << 24
"""Ids of schemas are smaller: registries count them from 1."""
NUMBER: Final = 8
"""Bytes of a long, whose first ones are mostly 0."""
SCHEMA_HEADERS: Final = frozenset({b"__value_schema_id", b"value.schema.id"})
"""Headers in which serializers put the id of a value's schema, instead of in front of the value."""


def first_batch(records: Any) -> Batch | None:
    """The first batch of a records field; None if it is not whole."""
    size = first_size(records)
    if size is None or not 0 < size <= len(records):
        return None
    return next(iter(parse(records[:size], check=False).batches), None)


def content(records: Any, batch: Batch) -> Content:
    """What is in the first records of a field whose first batch is `batch`; never raises on any bytes."""
    if batch.header["magic"] != 2:
        return _described(list(islice(_messages(records), RECORDS)), None)
    opened = open_batch(records, batch, limit=OPENED, most=RECORDS)
    return _described(opened.records, _ratio(batch, opened.data, opened.uncompressed_size))


def _messages(records: Any) -> Iterator[Record]:
    """The records of a set of messages of magic 0 or 1."""
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
    """The id of the schema at the beginning of a value; None if there is none, or the value may be a plain number."""
    if len(value) <= FRAME.size or value[0] or len(value) == NUMBER:
        return None
    number: int = FRAME.unpack_from(value)[1]
    return number if 0 < number < MOST_ID else None
