from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.decoders.primitives import read_unsigned_varint, read_varlong, text, text_as_java, write_unsigned_varint
from kproxy.decoders.problems import Code, DecodeError


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint_reads_what_was_written(value: int) -> None:
    data = write_unsigned_varint(value)
    assert read_unsigned_varint(b"\xff" + data + b"\x01", 1) == (value, 1 + len(data))


def test_unsigned_varint_longer_than_needed_is_accepted() -> None:
    assert read_unsigned_varint(b"\x81\x80\x00", 0) == (1, 3)


def test_unsigned_varint_keeps_32_bits_as_java_does() -> None:
    assert read_unsigned_varint(b"\xff\xff\xff\xff\x7f", 0) == (0xFFFFFFFF, 5)


def test_unsigned_varint_of_six_bytes_is_bad() -> None:
    with pytest.raises(DecodeError) as caught:
        read_unsigned_varint(b"\x00\x80\x80\x80\x80\x80\x00", 1)
    assert (caught.value.code, caught.value.offset) == (Code.BAD_VARINT, 1)


@pytest.mark.parametrize("read", [read_unsigned_varint, read_varlong])
def test_cut_varint_raises_index_error(read: Callable[[bytes, int], object]) -> None:
    with pytest.raises(IndexError):
        read(b"\x80\x80", 0)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x01", -1),
        (b"\x02", 1),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2**63 - 1),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
    ],
)
def test_varlong(data: bytes, value: int) -> None:
    assert read_varlong(data, 0) == (value, len(data))


def test_varlong_of_eleven_bytes_is_bad() -> None:
    with pytest.raises(DecodeError) as caught:
        read_varlong(b"\x80" * 10 + b"\x00", 0)
    assert caught.value.code is Code.BAD_VARINT


# Right column: what Java 17's new String(bytes, UTF_8) gives.
JAVA = [
    ("eda080", "\ufffd"),
    ("eda0", "\ufffd"),
    ("eda041", "\ufffdA"),
    ("edbfbf41", "\ufffdA"),
    ("ed9fbf", "\ud7ff"),
    ("ed41", "\ufffdA"),
    ("e080", "\ufffd\ufffd"),
    ("e0a041", "\ufffdA"),
    ("e282", "\ufffd"),
    ("e28241", "\ufffdA"),
    ("f09080", "\ufffd"),
    ("f0908041", "\ufffdA"),
    ("f4908080", "\ufffd\ufffd\ufffd\ufffd"),
    ("c080", "\ufffd\ufffd"),
    ("c241", "\ufffdA"),
    ("ff41fe", "\ufffdA\ufffd"),
    ("8041", "\ufffdA"),
    ("f8888080", "\ufffd\ufffd\ufffd\ufffd"),
]


@pytest.mark.parametrize(("data", "expected"), JAVA)
def test_text_that_is_not_utf8_reads_as_in_java(data: str, expected: str) -> None:
    assert text_as_java(bytes.fromhex(data)) == expected


@given(st.text())
def test_utf8_reads_as_it_is(value: str) -> None:
    data = value.encode()
    assert text(data) == text_as_java(memoryview(data)) == value


@given(st.binary())
def test_any_bytes_give_text(data: bytes) -> None:
    assert isinstance(text_as_java(data), str)
