"""Builds batches and message sets that no writer produces."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import google_crc32c

from kproxy.decoders.batches.batch import Trouble, parse
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT
from kproxy.decoders.batches.opening import open_batch
from kproxy.decoders.primitives import write_unsigned_varint
from tests.support.peers import Plain


def varint(value: int) -> bytes:
    return write_unsigned_varint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    time: int = 0,
) -> bytes:
    """A record of magic 2."""
    inner = b"\0" + varint(time) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    inner += b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(inner)) + inner


def batch(
    records: bytes,
    count: int,
    *,
    offset: int = 0,
    attributes: int = 0,
    base_time: int = 1000,
    max_time: int = 2000,
    producer: int = -1,
    last_delta: int | None = None,
) -> bytes:
    """A batch of magic 2 around the bytes of records, which may be compressed."""
    last = count - 1 if last_delta is None else last_delta
    checked = struct.pack(">hiqqqhii", attributes, last, base_time, max_time, producer, 0, 0, count) + records
    return struct.pack(">qiibI", offset, 9 + len(checked), 0, 2, google_crc32c.value(checked)) + checked


def message(
    magic: int, offset: int, key: bytes | None, value: bytes | None, *, attributes: int = 0, time: int = 5
) -> bytes:
    """A message of magic 0 or 1, preceded by offset and size."""

    def part(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    checked = bytes((magic, attributes)) + (struct.pack(">q", time) if magic else b"") + part(key) + part(value)
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def sums(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]],
) -> tuple[int, int, int, int]:
    """(number of records, bytes of their keys, of their values, of their headers), from (key, value, headers)."""
    taken = list(records)
    named = (part for _, _, headers in taken for header in headers for part in header)
    keys, values, inside = (
        sum(len(part) for part in parts if part is not None)
        for parts in ((key for key, _, _ in taken), (value for _, value, _ in taken), named)
    )
    return len(taken), keys, values, inside


@dataclass
class Read:
    """All records of a field, and all problems in it."""

    records: list[Plain]
    troubles: list[Trouble]


def read(data: bytes | memoryview, *, limit: int = DEFAULT_LIMIT) -> Read:
    """kproxy's reading, in the form of the other readers."""
    parsed = parse(data)
    found, troubles = [], list(parsed.troubles)
    for one in parsed.batches:
        opened = open_batch(data, one, limit=limit)
        troubles += opened.troubles
        for offset, timestamp, key, value, headers in opened.records:
            shown = [(name.decode("utf-8", "replace"), content) for name, content in headers]
            found.append((offset, timestamp, key, value, shown))
    return Read(found, troubles)
