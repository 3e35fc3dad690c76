"""Redacts payloads or hosts in records fields, at equal length and with matching CRCs.

Compressed content cannot be replaced by other compressed content of equal length. A compressed batch becomes an
uncompressed one of the same size, with as many of its records as fit (a record with a null key and a null value takes
seven bytes); the last one is padded. Source: Kafka's `DefaultRecord`, `LegacyRecord`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Final

import google_crc32c

from kproxy.captures.redaction import FILL
from kproxy.captures.redaction.hosts import Hosts
from kproxy.decoders.batches.batch import V2_HEADER, Batch, Trouble, crc_valid, parse
from kproxy.decoders.batches.opening import iterate_batch
from kproxy.decoders.plurals import counted
from kproxy.decoders.primitives import read_unsigned_varint, read_varlong, write_unsigned_varint
from kproxy.decoders.problems import DecodeError

_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_ATTRIBUTES_AT, _CRC_AT, _CHECKED_AT, _COUNT_AT = 21, 17, 21, 57
_LEGACY_CRC_AT, _LEGACY_CHECKED_AT, _LEGACY_ATTRIBUTES_AT = 12, 16, 17
_CODEC: Final = 0x07
_MARKER: Final = 6
"""Size in bytes of a transaction marker's value (EndTxnMarker: a version and an epoch); its key has 4 bytes."""

Change = Callable[[bytes], bytes]
"""Maps a key, a value or a header's value to bytes of equal length."""


class Damaged(Exception):  # noqa: N818 (a state of the bytes, not an error)
    """The bytes from here on are not a record, so the rest of the batch is overwritten."""


class RecordsRedaction:
    """Redacts records fields; `payloads` counts the overwritten keys, values and header values.

    With `everything` it overwrites all payloads, otherwise only the hosts in them.
    """

    def __init__(self, hosts: Hosts | None, *, everything: bool) -> None:
        self._hosts = hosts
        self._everything = everything
        self.payloads = 0

    def field(self, field: bytes) -> bytes:
        """The bytes of a records field, redacted, of equal length."""
        whole = bytearray(field)
        data = memoryview(whole)
        found = parse(field, check=False)
        for batch in found.batches:
            valid = crc_valid(field, batch)
            if self._batch(data, field, batch):
                _check(data, batch, valid=valid)
        if found.truncated_tail:
            self._tail(data, len(data) - found.truncated_tail)
        return bytes(whole)

    def _batch(self, data: memoryview, field: bytes, batch: Batch) -> bool:
        """Redact a batch of `field` in `data`; returns whether any byte was changed."""
        header = batch.header
        if header["compression"] != "none":
            if not self._everything and not self._hosts_inside(field, batch):
                return False
            self.payloads += header.get("recordCount", 1)
            (_plain if header["magic"] == 2 else _plain_message)(data, batch)
            return True
        before = bytes(data[batch.start : batch.end])
        if header["magic"] == 2:
            at = batch.start + V2_HEADER
            control = bool(header["isControl"])
            with suppress(Damaged, IndexError, DecodeError):
                for _ in range(header["recordCount"]):
                    at = self._record(data, at, batch.end, control=control)
            self._fill(data, at, batch.end)
        else:
            self._message(data, batch)
        return data[batch.start : batch.end] != before

    def _hosts_inside(self, field: bytes, batch: Batch) -> bool:
        """Whether a compressed batch contains a host, or may contain one because it cannot be decompressed."""
        if self._hosts is None:
            return False
        inside = self._hosts.inside
        troubles: list[Trouble] = []
        records = iterate_batch(field, batch, troubles)
        found = any(inside((key, value, *(one for _, one in headers))) for _, _, key, value, headers in records)
        return found or bool(troubles)

    def _record(self, data: memoryview, at: int, end: int, *, control: bool) -> int:
        """Redact the record of magic 2 at `at`; returns the offset of the next one.

        Raises Damaged if a length does not fit into the batch, which ends at `end`. Markers of a control batch stay.
        """
        size, at = _varint(data, at)
        after = at + size
        if size < 0 or after > end:
            raise Damaged
        at += 1  # attributes
        _, at = read_varlong(data, at)  # timestamp delta
        _, at = _varint(data, at)  # offset delta
        for _ in range(2):  # key and value
            at = self._content(data, at, after, control=control)
        count, at = _varint(data, at)
        for _ in range(count):
            at = self._header_name(data, at, after)
            at = self._content(data, at, after)
        if at > after:
            raise Damaged
        self._fill(data, at, after)
        return after

    def _header_name(self, data: memoryview, at: int, end: int) -> int:
        length, at = _varint(data, at)
        if length < 0 or at + length > end:
            raise Damaged
        if self._hosts is not None:
            data[at : at + length] = self._hosts.content(bytes(data[at : at + length]))
        return at + length

    def _content(self, data: memoryview, at: int, end: int, *, control: bool = False) -> int:
        length, at = _varint(data, at)
        if length < 0:
            return at
        if at + length > end:
            raise Damaged
        if not (control and length <= _MARKER):
            self._change(data, at, at + length)
        return at + length

    def _message(self, data: memoryview, batch: Batch) -> None:
        """Redact an uncompressed message of magic 0 or 1."""
        at = batch.start + _LEGACY_ATTRIBUTES_AT + 1 + (8 if batch.header["magic"] == 1 else 0)
        for _ in range(2):
            if at + 4 > batch.end:
                break
            (length,) = _LENGTH.unpack_from(data, at)
            at += 4
            if length > batch.end - at:
                break
            if length > 0:
                self._change(data, at, at + length)
                at += length
        self._fill(data, at, batch.end)

    def _tail(self, data: memoryview, start: int) -> None:
        """Overwrite the bytes from `start` on, an incomplete or unreadable batch, including its header."""
        self._fill(data, start, len(data))

    def _change(self, data: memoryview, start: int, end: int) -> None:
        if self._everything:
            if end > start:
                self.payloads += 1
            data[start:end] = FILL * (end - start)
        elif self._hosts is not None:
            data[start:end] = self._hosts.content(bytes(data[start:end]))

    def _fill(self, data: memoryview, start: int, end: int) -> None:
        """Overwrite bytes outside of records, because their content is unknown."""
        if end > start:
            self.payloads += self._everything
            data[start:end] = FILL * (end - start)


def _check(data: memoryview, batch: Batch, *, valid: bool) -> None:
    """Write the CRC of a changed batch: the right one if the CRC was `valid` before, otherwise a wrong one."""
    if batch.header["magic"] == 2:
        at, crc = _CRC_AT, google_crc32c.value(bytes(data[batch.start + _CHECKED_AT : batch.end]))
    else:
        at, crc = _LEGACY_CRC_AT, zlib.crc32(data[batch.start + _LEGACY_CHECKED_AT : batch.end])
    _CRC.pack_into(data, batch.start + at, crc if valid else crc ^ 0xFFFFFFFF)


def _plain(data: memoryview, batch: Batch) -> None:
    """Turn a compressed batch in `data` into an uncompressed one of the same size with padded records."""
    start = batch.start + V2_HEADER
    records, count = filled(batch.end - start, batch.header["recordCount"])
    data[start : batch.end] = records
    data[batch.start + _ATTRIBUTES_AT + 1] &= ~_CODEC
    _COUNT.pack_into(data, batch.start + _COUNT_AT, count)


def _plain_message(data: memoryview, batch: Batch) -> None:
    """Turn a compressed message of magic 0 or 1 in `data` into an uncompressed one of the same size."""
    at = batch.start + _LEGACY_ATTRIBUTES_AT
    data[at] &= ~_CODEC
    at += 1 + (8 if batch.header["magic"] == 1 else 0)
    room = batch.end - at - 8
    if room >= 0:
        data[at : batch.end] = _LENGTH.pack(-1) + _LENGTH.pack(room) + FILL * room
    else:
        data[at : batch.end] = FILL * (batch.end - at)


def filled(room: int, most: int) -> tuple[bytes, int]:
    """(bytes, number) of at most `most` records of magic 2 that fill exactly `room` bytes."""
    records: list[bytes] = []
    left = room
    while len(records) < most:
        one = _record(len(records), None, None)
        if left < len(one):
            break
        records.append(one)
        left -= len(one)
    if not records:
        return bytes(room), 0
    index = len(records) - 1
    last = left + len(records.pop())
    records.append(_filler(index, last))
    return b"".join(records), index + 1


def _filler(index: int, size: int) -> bytes:
    """A record of exactly `size` bytes; `index` is its offset delta.

    If a value one byte longer would make the record two bytes longer, because its length takes another byte, the
    remaining byte goes to the key, or to an overlong form of the record's length.
    """
    if size == len(_record(index, None, None)):
        return _record(index, None, None)
    values = range(max(-1, size - 32), size)
    for longer, key, value in product((False, True), range(-1, 12), values):
        body = 3 + len(_zigzag(index)) + _part(key) + _part(value)
        if len(_zigzag(body)) + longer + body == size:
            return _record(index, None if key < 0 else key, None if value < 0 else value, longer=longer)
    raise ValueError(f"cannot make a record of exactly {counted(size, 'byte')}")


def _part(size: int) -> int:
    """Number of bytes that a key or value of `size` bytes takes with its length; -1 stands for null."""
    return 1 if size < 0 else len(_zigzag(size)) + size


def _record(index: int, key: int | None, value: int | None, *, longer: bool = False) -> bytes:
    parts = (b"\1" if size is None else _zigzag(size) + FILL * size for size in (key, value))
    body = b"\0\0" + _zigzag(index) + b"".join(parts) + b"\0"
    length = _zigzag(len(body))
    if longer:
        length = length[:-1] + bytes((length[-1] | 0x80, 0))
    return length + body


def _zigzag(value: int) -> bytes:
    """A non-negative number, encoded as a zigzag varint."""
    return write_unsigned_varint(value << 1)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value, at = read_unsigned_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
