"""Finding the starts of records, plain and compiled."""

from __future__ import annotations

import struct
from array import array
from types import ModuleType

from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.captures.formats import starts
from tests.support.variants import each_variant_of

variants = each_variant_of(starts)


def found(variant: ModuleType, data: bytes, position: int, longest: int, order: str, room: int) -> list[int]:
    places = array("q", bytes(8 * room))
    count = variant.starts(memoryview(data), position, longest, order == "<", memoryview(places))
    return places[:count].tolist()


@variants
@given(
    lengths=st.lists(st.integers(0, 300), max_size=20),
    longest=st.integers(0, 300),
    order=st.sampled_from("<>"),
    room=st.integers(0, 25),
    cut=st.integers(0, 40),
)
def test_records_are_found_as_long_as_they_are_whole(
    variant: ModuleType, lengths: list[int], longest: int, order: str, room: int, cut: int
) -> None:
    data, places = b"header", []
    for length in lengths:
        places.append(len(data))
        data += struct.pack(order + "8xI4x", length) + bytes(length)
    data = data[: len(data) - cut]
    wanted: list[int] = []
    for place, length in zip(places, lengths, strict=True):
        if length > longest or place + 16 + length > len(data) or len(wanted) == room:
            break
        wanted.append(place)
    assert found(variant, data, 6, longest, order, room) == wanted


@variants
@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 1 << 28), st.sampled_from("<>"))
@example(bytes(8) + b"\xff" * 8 + bytes(100), 0, 1 << 28, "<")
@example(bytes(8) + b"\x80" + bytes(107), 0, 1 << 28, ">")
def test_whatever_the_bytes_no_place_is_beyond_them(
    variant: ModuleType, data: bytes, position: int, longest: int, order: str
) -> None:
    places = found(variant, data, position, longest, order, 50)
    assert places == found(starts, data, position, longest, order, 50)
    assert places == sorted(set(places))
    assert all(position <= place <= len(data) - 16 for place in places)
