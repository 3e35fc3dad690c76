"""Messages of magic 0 and 1, and what is wrong with them."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest

from kproxy.decoders.batches.legacy import MOST_NESTED, RECORD_COSTS, Inside, read_message
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.problems import Code
from tests.decoders.batches.support import message

PLAIN = message(1, 7, b"key", b"value", time=5)
"""Offset 7: head of 12 bytes, CRC, magic and attributes of 6, timestamp of 8, key of 4 + 3, value of 4 + 5."""


def read(data: bytes, *, limit: int = 10_000, start: int = 0) -> tuple[list[Record], RecordsError | None, Inside]:
    out: list[Record] = []
    inside = Inside(limit, limit)
    try:
        read_message(bytes(start) + data, start, start + len(data), out, inside)
    except RecordsError as error:
        return out, error, inside
    return out, None, inside


def packed(*messages: bytes, magic: int = 1, offset: int = 0, attributes: int = 0, time: int = 9) -> bytes:
    return message(
        magic, offset, None, gzip.compress(b"".join(messages), mtime=0), attributes=1 | attributes, time=time
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PLAIN, [(7, 5, b"key", b"value", ())]),
        (message(0, 7, b"key", None), [(7, None, b"key", None, ())]),
        (message(0, 7, None, b""), [(7, None, None, b"", ())]),
        # Relative offsets end with the outer one; 0 there says that they are absolute.
        (packed(message(1, 0, b"a", b"", time=1), message(1, 1, b"b", b"", time=2), offset=9),
         [(8, 1, b"a", b"", ()), (9, 2, b"b", b"", ())]),
        (packed(message(1, 4, b"a", b"", time=1), message(1, 5, b"b", b"", time=2)),
         [(4, 1, b"a", b"", ()), (5, 2, b"b", b"", ())]),
        (packed(message(0, 4, b"a", b""), message(0, 6, b"b", b""), magic=0, offset=6),
         [(4, None, b"a", b"", ()), (6, None, b"b", b"", ())]),
        # LogAppendTime is the outer message's.
        (packed(message(1, 0, b"a", b"", time=1), offset=3, attributes=8), [(3, 9, b"a", b"", ())]),
        (packed(packed(message(1, 0, b"a", b"", time=1), attributes=8, time=77), offset=3, attributes=8),
         [(3, 9, b"a", b"", ())]),
    ],
)  # fmt: skip
def test_messages(data: bytes, expected: list[Record]) -> None:
    for start in (0, 11):
        found, error, inside = read(data, start=start)
        assert (found, error, inside.troubles) == (expected, None, [])


def cut(data: bytes, size: int) -> bytes:
    return data[:8] + struct.pack(">i", size - 12) + data[12:size]


def changed(at: int, new: bytes, data: bytes = PLAIN) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("data", "code", "text", "position", "part"),
    [
        (cut(PLAIN, 17), Code.TRUNCATED, "a message of 5 bytes", 0, ""),
        (changed(16, b"\2"), Code.BAD_LENGTH, "no message has magic 2", 0, ""),
        (changed(16, b"\xff"), Code.BAD_LENGTH, "no message has magic -1", 0, ""),
        (cut(PLAIN, 25), Code.TRUNCATED, "a message ends within its timestamp", 18, "timestamp"),
        (cut(PLAIN, 29), Code.TRUNCATED, "a message ends within the size of its key", 26, "key"),
        (cut(PLAIN, 32), Code.BAD_LENGTH, "a key of 3 bytes where 2 are left", 26, "key"),
        (cut(PLAIN, 36), Code.TRUNCATED, "a message ends within the size of its value", 33, "value"),
        (cut(PLAIN, 41), Code.BAD_LENGTH, "a value of 5 bytes where 4 are left", 33, "value"),
        (changed(33, b"\0\0\0\3"), Code.TRAILING_BYTES, "2 bytes after a message's value", 40, ""),
        (changed(33, b"\xff\xff\xff\xff"), Code.TRAILING_BYTES, "5 bytes after a message's value", 37, ""),
        (message(1, 0, None, None, attributes=1), Code.DECOMPRESSION_FAILED, "a compressed message without value", 30,
         "value"),
        (message(0, 0, b"k", b"x", attributes=7), Code.DECOMPRESSION_FAILED, "no codec is called unknown(7)", 23,
         "value"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_message(data: bytes, code: Code, text: str, position: int, part: str) -> None:
    for start in (0, 11):
        found, error, _ = read(data, start=start)
        assert error is not None
        assert (found, error.code, error.message, error.position, error.index, error.part) == (
            [], code, text, start + position, 0, part,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "offset", "kept", "code", "text"),
    [
        ([PLAIN, b"\0" * 11], 0, 0, Code.TRUNCATED, "a set ends within a message's head (byte 42 of"),
        ([PLAIN, PLAIN[:-1]], 0, 0, Code.BAD_LENGTH, "a message of 30 bytes where 29 are left (byte 42 of"),
        ([struct.pack(">qi", 0, -1)], 0, 0, Code.BAD_LENGTH, "a message of -1 bytes where 0 are left (byte 0 of"),
        ([], 0, 0, Code.DECOMPRESSION_FAILED, "a compressed set without messages (byte 0 of"),
        ([PLAIN], 6, 1, Code.BAD_LENGTH, "a set of offset 6 ends with the relative offset 7 (byte 0 of"),
        ([changed(41, b"X")], 7, 1, Code.CRC_MISMATCH, "a message's CRC does not match its bytes (byte 0 of"),
    ],
)
def test_what_is_wrong_within_a_set(inner: list[bytes], offset: int, kept: int, code: Code, text: str) -> None:
    found, error, inside = read(packed(*inner, offset=offset))
    assert error is None
    assert len(found) == kept
    (trouble,) = inside.troubles
    assert (trouble.code, trouble.position) == (code, 30)
    assert trouble.message.startswith(text)
    assert inside.uncompressed == sum(map(len, inner))
    assert inside.left == 10_000 - sum(map(len, inner))


def test_damage_of_magic_0_leaves_what_was_before_it() -> None:
    first = message(0, 4, b"a", b"")
    found, _, inside = read(packed(first, first[:-1], magic=0, offset=9))
    assert found == [(4, None, b"a", b"", ())]
    assert len(inside.troubles) == 1


def test_sets_are_followed_only_so_deep() -> None:
    def nested(depth: int) -> bytes:
        data = message(1, 0, b"k", b"v")
        for _ in range(depth):
            data = packed(data)
        return data

    found, _, inside = read(nested(MOST_NESTED), limit=100_000)
    assert (len(found), inside.troubles) == (1, [])
    found, _, inside = read(nested(MOST_NESTED + 1), limit=100_000)
    assert (found, inside.troubles[0].code) == ([], Code.DECOMPRESSION_LIMIT)
    assert f"nested more than {MOST_NESTED} deep" in inside.troubles[0].message


@pytest.mark.parametrize(("limit", "kept"), [(5 * RECORD_COSTS, 6), (4 * RECORD_COSTS, 0), (4 * RECORD_COSTS + 63, 0)])
def test_many_small_messages_come_to_more_than_their_bytes(limit: int, kept: int) -> None:
    smallest = [message(1, number, None, None) for number in range(6)]
    out: list[Record] = []
    inside = Inside(limit, 10_000)
    data = packed(*smallest)
    read_message(data, 0, len(data), out, inside)
    assert len(out) == kept
    assert [one.code for one in inside.troubles] == ([] if kept else [Code.DECOMPRESSION_LIMIT])


def test_the_checksum_of_an_outer_message_is_for_others_to_check() -> None:
    assert zlib.crc32(PLAIN[16:]) == int.from_bytes(PLAIN[12:16], "big")
    assert read(changed(12, b"\0\0\0\0"))[1] is None
