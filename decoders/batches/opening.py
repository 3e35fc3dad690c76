"""Opens a batch: decompresses it and reads its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from kproxy.decoders.batches.batch import V2_HEADER, Batch, Trouble
from kproxy.decoders.batches.codecs import DEFAULT_LIMIT, CodecError, decompress
from kproxy.decoders.batches.current import stretches
from kproxy.decoders.batches.legacy import RECORD_COSTS, Inside, read_message
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import Code

AT_ONCE: Final = 10_000
"""Maximum number of records in a piece, when a batch is read in pieces."""
HARMLESS: Final = frozenset({Code.CRC_MISMATCH})
"""Codes of faults that do not prevent the records from being read."""


class Opened(NamedTuple):
    """The readable records of a batch, and the faults in the rest.

    `data` holds the decompressed bytes of the records of magic 2; it is empty for message sets. `uncompressed_size` is
    the size in bytes of the batch without compression, None if it cannot be decompressed. In `troubles`, offsets count
    from the first byte of the records field, and paths begin below the batch ("records[2].key").
    """

    records: list[Record]
    uncompressed_size: int | None
    troubles: list[Trouble]
    data: bytes = b""


class Measured(NamedTuple):
    """The number of a batch's records, and the total sizes in bytes of their parts; a null part has no bytes.

    `headers` are the keys and values of the records' headers. `uncompressed_size` is as in Opened. If the batch is not
    `whole`, some of its records could not be read and are not counted.
    """

    records: int
    keys: int
    values: int
    headers: int
    uncompressed_size: int | None
    whole: bool


def open_batch(records: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT, most: int | None = None) -> Opened:
    """Read the records of one batch of a records field, at most `most` if it has magic 2; never raises on any bytes.

    A compressed batch is not opened (problem decompression_limit) if it decompresses to more than `limit` bytes, or if
    its records would take more as Python objects.
    """
    return next(open_pieces(records, batch, limit=limit, at_once=most))


def open_pieces(
    records: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT, at_once: int | None = AT_ONCE
) -> Iterator[Opened]:
    """Read the records of one batch in pieces of `at_once` records (None: all at once).

    An empty batch is one empty piece.

    A message set of magic 0 or 1 is one piece. Only the last piece can have troubles; the record indexes in their paths
    count from the first record of the batch. A batch that decompresses to more than `limit` bytes is not opened.
    """
    if batch.header["magic"] != 2:
        yield _open_legacy(records, batch, limit)
        return
    troubles: list[Trouble] = []
    data = _decompressed(records, batch, limit, troubles)
    if data is None:
        yield Opened([], None, troubles)
        return
    one_by_one = _iterate(batch, data, troubles)
    left = batch.header["recordCount"]
    last = False
    while not last:
        last = at_once is None or left <= at_once
        found = list(one_by_one if last else islice(one_by_one, at_once))
        left -= len(found)
        last = last or bool(troubles)
        yield Opened(found, V2_HEADER + len(data), list(troubles), data)


def iterate_batch(
    records: Buffer, batch: Batch, troubles: list[Trouble], *, limit: int = DEFAULT_LIMIT
) -> Iterator[Record]:
    """Iterate over the records of one batch; for a single pass this is faster than a list.

    When the iterator is exhausted, the faults found have been added to `troubles`.
    """
    return _iterated(records, batch, troubles, limit)[1]


def measure_batch(records: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT) -> Measured:
    """Count the records of one batch and their bytes, without keeping any record; never raises on any bytes.

    A batch that `open_batch` would not open with this `limit` is not `whole`.
    """
    troubles: list[Trouble] = []
    size, found = _iterated(records, batch, troubles, limit)
    count = keys = values = named = 0
    for _, _, key, value, headers in found:
        count += 1
        if key is not None:
            keys += len(key)
        if value is not None:
            values += len(value)
        for name, content in headers:
            named += len(name)
            if content is not None:
                named += len(content)
    whole = size is not None and all(one.code in HARMLESS for one in troubles)
    return Measured(count, keys, values, named, size, whole)


def _iterated(
    records: Buffer, batch: Batch, troubles: list[Trouble], limit: int
) -> tuple[int | None, Iterator[Record]]:
    """(size in bytes of the batch without compression as in Opened, its records); `troubles` as in `iterate_batch`"""
    if batch.header["magic"] != 2:
        opened = _open_legacy(records, batch, limit)
        troubles += opened.troubles
        return opened.uncompressed_size, iter(opened.records)
    data = _decompressed(records, batch, limit, troubles)
    return (None, iter(())) if data is None else (V2_HEADER + len(data), _iterate(batch, data, troubles))


def _decompressed(records: Buffer, batch: Batch, limit: int, troubles: list[Trouble]) -> bytes | None:
    """The decompressed records of a batch of magic 2; None, with the reason added to `troubles`, if that fails."""
    header = batch.header
    start, count = batch.start + V2_HEADER, header["recordCount"]
    if not count:
        # Compaction removed all records of the batch: like Kafka, do not decompress the bytes that remain.
        return b""
    if header["compression"] != "none" and count * RECORD_COSTS > limit:
        text = f"{count} compressed records need more than the limit of {limit} bytes per batch: not opened"
        troubles.append(Trouble(start, Code.DECOMPRESSION_LIMIT, text))
        return None
    try:
        return decompress(header["compression"], records[start : batch.end], limit=limit)
    except CodecError as error:
        troubles.append(Trouble(start, error.code, error.message))
        return None


def _iterate(batch: Batch, data: bytes, troubles: list[Trouble]) -> Iterator[Record]:
    return chain.from_iterable(_stretches(batch, data, troubles))


def _stretches(batch: Batch, data: bytes, troubles: list[Trouble]) -> Iterator[Iterable[Record]]:
    header = batch.header
    append_time = header["maxTimestamp"] if header["timestampType"] == "LogAppendTime" else None
    try:
        yield from stretches(data, header["recordCount"], header["baseOffset"], header["baseTimestamp"], append_time)
    except RecordsError as error:
        start = batch.start + V2_HEADER
        if header["compression"] == "none":
            start += error.position
        else:
            error.message += f" (byte {error.position} of the decompressed records)"
        troubles.append(_trouble(error, start))


def _open_legacy(records: Buffer, batch: Batch, limit: int) -> Opened:
    found: list[Record] = []
    inside = Inside(limit, limit)
    data = bytes(records[batch.start : batch.end])
    try:
        read_message(data, 0, len(data), found, inside)
    except RecordsError as error:
        inside.troubles.append(error)
    size: int | None = len(data) if batch.header["compression"] == "none" else inside.uncompressed
    return Opened(found, size, [_trouble(error, batch.start + error.position) for error in inside.troubles])


def _trouble(error: RecordsError, offset: int) -> Trouble:
    path = "" if error.index is None else f"records[{error.index}]"
    if error.part:
        path += f".{error.part}" if path else error.part
    return Trouble(offset, error.code, error.message, path)
