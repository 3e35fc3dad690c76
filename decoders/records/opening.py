"""Opening a batch: from its header to its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from decoders.primitives import Buffer
from decoders.problems import Code
from decoders.records.batches import V2_HEADER, Batch, Trouble
from decoders.records.codecs import DEFAULT_LIMIT, CodecError, decompress
from decoders.records.current import read_records
from decoders.records.legacy import RECORD_COSTS, Inside, read_message
from decoders.records.record import Record, RecordsError

AT_ONCE: Final = 10_000
"""Records that are held at a time where they are read piece by piece."""


class Opened(NamedTuple):
    """The records of a batch, as far as they can be read, and what is wrong with the rest.

    `data` is what the records of magic 2 were read from, one after the other, and `end` where the last of them ends;
    empty for message sets.
    `uncompressed_size` is what the batch would take without compression, None where it cannot be decompressed. The
    offsets of `troubles` count from the first byte of the records field, their paths from the batch ("records[2].key").
    """

    records: list[Record]
    uncompressed_size: int | None
    troubles: list[Trouble]
    data: bytes = b""
    end: int = 0


def open_batch(records: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT, most: int | None = None) -> Opened:
    """Read the records of one batch of a records field, `most` at most of magic 2; never raises on any bytes.

    A compressed batch that comes to more than `limit` bytes, or to so many records that as objects they would, is not
    opened: problem decompression_limit.
    """
    return _open_v2(records, batch, limit, most) if batch.header["magic"] == 2 else _open_legacy(records, batch, limit)


def open_pieces(
    records: Buffer, batch: Batch, *, limit: int = DEFAULT_LIMIT, at_once: int = AT_ONCE
) -> Iterator[Opened]:
    """The same, `at_once` records at a time where the batch is of magic 2; one at least, however empty.

    Only the last can have troubles, whose paths count all records of the batch.
    """
    opened = open_batch(records, batch, limit=limit, most=at_once)
    done = len(opened.records)
    yield opened
    while opened.data and not opened.troubles and done < batch.header["recordCount"]:
        opened = _read(batch, opened.data, at_once, done, opened.end)
        done += len(opened.records)
        yield opened


def _open_v2(records: Buffer, batch: Batch, limit: int, most: int | None) -> Opened:
    header = batch.header
    start, count = batch.start + V2_HEADER, header["recordCount"]
    if not count:
        # A compacted batch: what would decompress to nothing is not looked at, as in Kafka.
        return Opened([], V2_HEADER, [])
    if header["compression"] != "none" and count * RECORD_COSTS > limit:
        text = f"{count} compressed records are more than the {limit} bytes of a batch hold: not opened"
        return Opened([], None, [Trouble(start, Code.DECOMPRESSION_LIMIT, text)])
    try:
        data = decompress(header["compression"], records[start : batch.end], limit=limit)
    except CodecError as error:
        return Opened([], None, [Trouble(start, error.code, error.message)])
    return _read(batch, data, most)


def _read(batch: Batch, data: bytes, most: int | None, done: int = 0, position: int = 0) -> Opened:
    """The records that follow `done` ones, which end at `position` of the batch's decompressed records."""
    header = batch.header
    base = header["baseOffset"], header["baseTimestamp"]
    append_time = header["maxTimestamp"] if header["timestampType"] == "LogAppendTime" else None
    found: list[Record] = []
    troubles = []
    try:
        position = read_records(
            data, header["recordCount"], *base, append_time, found, most=most, done=done, position=position
        )
    except RecordsError as error:
        start = batch.start + V2_HEADER
        if header["compression"] == "none":
            start += error.position
        else:
            error.message += f" (byte {error.position} of the decompressed records)"
        troubles.append(_trouble(error, start))
    return Opened(found, V2_HEADER + len(data), troubles, data, position)


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
