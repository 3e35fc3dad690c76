"""Where frames begin and end, and which protocol the first bytes belong to."""

from __future__ import annotations

import struct

import pytest

from kproxy.core.frames import Frames
from kproxy.core.protocols import is_request, other_protocol
from tests.kproxy.core.frames import framed

STREAM = framed(b"abcdefgh") + framed(b"xy") + framed(b"") + framed(b"0123456789")
HEADS = [(0, framed(b"abcdefgh")[:8]), (12, framed(b"xy")), (18, framed(b"")), (22, framed(b"0123456789")[:8])]


@pytest.mark.parametrize("cut", range(1, len(STREAM) + 1))
def test_heads_of_frames_however_the_bytes_are_cut(cut: int) -> None:
    frames = Frames(8)
    found = []
    for at in range(0, len(STREAM), cut):
        found += [(at + offset, head) for offset, head in frames.feed(STREAM[at : at + cut])]
    assert found == HEADS
    assert frames.between


def test_heads_of_lengths_only() -> None:
    frames = Frames(0)
    # A head of 0 bytes is complete with the length.
    assert frames.feed(STREAM[:3]) == []
    assert not frames.between
    assert frames.feed(STREAM[3:4]) == [(-3, STREAM[:4])]
    assert not frames.between
    assert frames.feed(STREAM[4:12]) == []
    assert frames.between


def test_no_frame_is_found_after_a_negative_length() -> None:
    frames = Frames(8)
    assert frames.feed(framed(b"abcd") + b"\xff\xff\xff\xff" + framed(b"abcd")) == [(0, framed(b"abcd"))]
    assert frames.lost
    assert frames.feed(framed(b"abcd")) == []


@pytest.mark.parametrize(
    ("before", "data", "found"),
    [
        (b"", b"abc", 0),
        (framed(b"abcdefgh"), b"", 0),
        (framed(b"abcdefgh")[:10], b"gh", 2),
        (framed(b"abcdefgh")[:10], b"ghi", 2),
        (framed(b"abcdefgh")[:10], b"g", None),
        (framed(b"abcdefgh")[:8], b"efgh", 4),
        (framed(b"abcdefgh")[:6], b"cdefgh0", 6),
        (framed(b"abcdefgh")[:6], b"cdefg", None),
        (framed(b"abcdefgh")[:4], b"abcdefgh", 8),
        (framed(b"abcdefgh")[:3], framed(b"abcdefgh")[3:], 9),
        (framed(b"abcdefgh")[:3], framed(b"abcdefgh")[3:11], None),
        (framed(b"abcdefgh")[:2], b"\0", None),
    ],
)
def test_how_many_bytes_complete_a_frame(before: bytes, data: bytes, found: int | None) -> None:
    frames = Frames(8)
    frames.feed(before)
    assert frames.boundary(data) == found
    assert frames.boundary(memoryview(data)) == found


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x16\x03", "TLS"), (b"\x15\x03\x01", "TLS"), (b"\x16\x02", None), (b"\x16\x04", None), (b"\x17\x03", None),
        (b"\x14\x03", None), (b"\x16", None), (b"", None), (b"GET /", "HTTP"), (b"GET", None), (b"POST", "HTTP"),
        (b"HTTP/1.1", "HTTP"), (b"\0\0\0\x10", None),
    ],
)  # fmt: skip
def test_other_protocols(start: bytes, name: str | None) -> None:
    assert other_protocol(start) == name


@pytest.mark.parametrize(
    ("length", "key", "version", "fits"),
    [
        (1, 0, 0, True), (0, 0, 0, False), (-1, 0, 0, False), ((1 << 29) - 1, 0, 0, True), (1 << 29, 0, 0, False),
        (9, 999, 0, True), (9, 1000, 0, False), (9, -1, 0, False), (9, 0, 63, True), (9, 0, 64, False),
        (9, 0, -1, False),
    ],
)  # fmt: skip
def test_what_looks_like_a_request(length: int, key: int, version: int, fits: bool) -> None:
    start = struct.pack(">ihh", length, key, version)
    assert is_request(start) == is_request(start + b"more") == fits
    assert not is_request(start[:7])
