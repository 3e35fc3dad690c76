"""What parcels come out as when they are unpacked."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from captures.spark.packing import Parcel, unpack
from captures.spark.plain import Plain
from captures.tcp.packets import Ints, Packets, numbered

NUMBER = st.integers(0, 1 << 62) | st.integers(0, 3)
SEQUENCE = st.integers(0, (1 << 32) - 1)
KEYS = [b"ab", b"ba", b"cd"]
SEGMENT = st.tuples(st.sampled_from(KEYS), NUMBER, SEQUENCE, SEQUENCE, NUMBER, NUMBER, NUMBER, NUMBER)
CLAIM = st.tuples(NUMBER, NUMBER, SEQUENCE)


def columns(rows: list[tuple[Any, ...]], count: int) -> list[Ints]:
    return list(np.array(rows, np.int64).reshape(-1, count).T)


@given(
    st.lists(SEGMENT, min_size=1, max_size=20),
    st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=20, max_size=20),
    st.lists(st.tuples(NUMBER, NUMBER), max_size=5), st.lists(CLAIM, max_size=5), st.binary(max_size=9),
)  # fmt: skip
def test_what_was_packed(
    segments: list[Any], places: list[Any], sent: list[Any], claims: list[Any], data: bytes
) -> None:
    count = len(segments)
    keys = [key for key, *_ in segments]
    time, seq, ack, flags, at, length, stored = columns([rest for _, *rest in segments], 7)
    packets = Packets(*numbered(keys), time, seq, ack, flags, at, length, stored, {0: "said"})
    plain = [Plain(0, count, 1, 2, 3, "c:1", "b:2")]
    position, reached, clock = columns(places[:count], 3)
    pieces_at, sizes = columns(sent, 2)
    asked, offsets, checks = columns(claims, 3)
    given = Parcel(5, packets, position, reached, clock, pieces_at, sizes, data, asked, offsets, checks, plain)
    found = unpack(given.pack())
    assert (found.portion, found.plain, bytes(found.pieces)) == (5, plain, data)
    assert (found.packets.keys, found.packets.comments) == (packets.keys, {0: "said"})
    for name in ("time", "seq", "ack", "flags", "at", "length", "stored"):
        assert getattr(found.packets, name).tolist() == getattr(packets, name).tolist()
    for name in ("position", "reached", "clock", "pieces_at", "sizes", "asked", "places", "checks"):
        assert getattr(found, name).tolist() == getattr(given, name).tolist()
