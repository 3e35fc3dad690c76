"""The reader of responses with addresses checks each length against the bytes that are there."""

from __future__ import annotations

import pytest

from kproxy.core.addresses import MOST_READ, Reader, TooMuchError
from kproxy.decoders.problems import Code, DecodeError


def reader(data: bytes, *, flexible: bool = True, end: int | None = None) -> Reader:
    """A reader of these bytes, which stand behind three others."""
    return Reader(b"\xff\xff\xff" + data, 3, 3 + len(data) if end is None else end, flexible=flexible)


@pytest.mark.parametrize(
    ("data", "value"),
    [("00", 0), ("7f", 127), ("8001", 128), ("ff7f", 16_383), ("80808001", 1 << 21), ("ffffffff0f", (1 << 32) - 1)],
)
def test_varints(data: str, value: int) -> None:
    one = reader(bytes.fromhex(data) + b"\5")
    assert (one.varint(), one.position) == (value, 3 + len(data) // 2)


@pytest.mark.parametrize(
    ("data", "flexible", "value", "position"),
    [
        (b"\0\2ab", False, 2, 5), (b"\0\3abc", False, 3, 5), (b"\0\0", False, 0, 5), (b"\xff\xff", False, -1, 5),
        (b"\3ab", True, 2, 4), (b"\1", True, 0, 4), (b"\0", True, -1, 4),
    ],
)  # fmt: skip
def test_lengths(data: bytes, flexible: bool, value: int, position: int) -> None:
    one = reader(data, flexible=flexible)
    assert (one.length(2), one.position) == (value, position)


@pytest.mark.parametrize(
    ("data", "flexible", "code", "text"),
    [
        (b"\0\3ab", False, Code.BAD_LENGTH, "length 3, 2 bytes left"),
        (b"\xff\xfe", False, Code.BAD_LENGTH, "length -2, 0 bytes left"),
        (b"\4ab", True, Code.BAD_LENGTH, "length 3, 2 bytes left"),
        (b"\0", False, Code.TRUNCATED, "2 bytes expected, 1 left"),
        (b"\x80", True, Code.TRUNCATED, "1 byte expected, 0 left"),
        (b"\x80\x80\x80\x80\x80\1", True, Code.BAD_VARINT, "varint of more than five bytes"),
    ],
)
def test_invalid_lengths(data: bytes, flexible: bool, code: Code, text: str) -> None:
    with pytest.raises(DecodeError) as error:
        reader(data, flexible=flexible).length(2)
    assert (error.value.code, error.value.message) == (code, text)


def test_tagged_fields() -> None:
    one = reader(b"\2\0\1x\x80\1\2yz!")
    assert one.tags() == [(0, 4, 6, 7), (128, 7, 10, 12)]
    assert one.position == 12
    assert reader(b"\0").tags() == []
    assert reader(b"\1\7\0").tags() == [(7, 4, 6, 6)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\2\0\0\0", "2 tagged fields, 3 bytes left"),
        (b"\1\0", "1 tagged field, 1 byte left"),
        (b"\1\0\2x", "2 bytes expected, 1 left"),
    ],
)
def test_invalid_tagged_fields(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as error:
        reader(data).tags()
    assert error.value.message == text


def test_bytes_are_skipped_to_the_end_and_no_further() -> None:
    one = reader(b"abcdef", end=7)
    assert (one.skip(0), one.skip(4), one.position) == (3, 3, 7)
    for size in (1, -1):
        with pytest.raises(DecodeError):
            one.skip(size)
    assert reader(b"\xff\xfe\0\0\0\1").integer(2) == -2
    assert reader(b"\0\0\0\1").integer(4) == 1


def test_entries_are_counted_over_the_whole_reading() -> None:
    one = reader(b"")
    assert (one.many(-1, "brokers"), one.many(3, "brokers")) == (range(-1), range(3))
    assert one.many(MOST_READ - 4, "brokers") == range(19_996)
    inner = one.within(0, 0)
    assert inner.many(1, "brokers") == range(1)
    with pytest.raises(TooMuchError, match="the response has 1,000 brokers; kproxy reads at most 20,000"):
        inner.many(1000, "brokers")
    assert one.many(1, "brokers") == range(1)
    with pytest.raises(TooMuchError):
        one.many(1, "brokers")
