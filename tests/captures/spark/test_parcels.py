"""Unpacked parcels equal what was packed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.spark.read.by_flow import Flows
from kproxy.captures.spark.read.packing import Columns, packed, unpack
from kproxy.captures.tcp.packets import Ints, Packets, numbered
from kproxy.captures.tcp.shares import Share

NUMBER = st.integers(0, 1 << 62) | st.integers(0, 3)
SEQUENCE = st.integers(0, (1 << 32) - 1)
KEYS = [b"ab", b"ba", b"cd"]
SEGMENT = st.tuples(st.sampled_from(KEYS), NUMBER, SEQUENCE, SEQUENCE, *[NUMBER] * 8)
"""A segment, with its position, reached, clock and real address."""
FLOW = st.tuples(st.lists(SEGMENT, min_size=1, max_size=8), st.lists(st.tuples(NUMBER, st.integers(1, 9)), max_size=5))
"""Segments, and the pieces of them that are sent: (address, size)."""


class Numbered:
    """A source in which each byte tells its address."""

    def read(self, start: int, end: int) -> bytes:
        return bytes(at % 251 for at in range(start, end))


def columns(rows: list[tuple[Any, ...]], count: int) -> list[Ints]:
    return list(np.array(rows, np.int64).reshape(-1, count).T)


def rows(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(each.tolist() if isinstance(each, np.ndarray) else each for each in columns), strict=True))


def starts(lists: Iterable[Collection[Any]]) -> Ints:
    return np.cumsum([0, *map(len, lists)])


def gathered(flows: list[Any]) -> tuple[Flows, Columns]:
    """Flows numbered from 100, with a comment on each last segment; and the pieces that are sent."""
    keys: list[bytes] = []
    own, rest, comments = [], [], {}
    for segments, _ in flows:
        directions, which = numbered(key for key, *_ in segments)
        own.append(which + len(keys))
        keys += directions
        rest += [numbers for _, *numbers in segments]
        comments[len(rest) - 1] = "said"
    time, seq, ack, flags, at, length, stored, position, reached, clock, real = columns(rest, 11)
    packets = Packets(keys, np.concatenate(own), time, seq, ack, flags, at, length, stored, comments)
    share = Share(packets, np.arange(len(rest)), reached, clock, 0, 0)
    borders = starts({key for key, *_ in segments} for segments, _ in flows)
    pieces = columns([piece for _, some in flows for piece in some], 2)
    found = Flows([*range(100, 100 + len(flows))], starts(one for one, _ in flows), borders, share, position, real)
    return found, Columns(pieces, starts(some for _, some in flows))


@given(st.lists(FLOW, min_size=1, max_size=4))
def test_what_was_packed(given: list[Any]) -> None:
    flows, pieces = gathered(given)
    source = Numbered()
    found = list(packed(flows, pieces, source))
    assert [number for number, _, _ in found] == flows.numbers
    for (segments, sent), (_, position, data) in zip(given, found, strict=True):
        parcel = unpack(data)
        packets = parcel.packets
        assert position == parcel.position[0]
        assert packets.comments == {len(segments) - 1: "said"}
        of_packets = (packets.time, packets.seq, packets.ack, packets.flags, packets.at, packets.length, packets.stored)
        assert rows(packets.keys, *of_packets, parcel.position, parcel.reached, parcel.clock, parcel.real) == segments
        expected = [(at, source.read(at, at + size)) for at, size in sent]
        assert [(at, bytes(piece)) for at, piece in parcel.pieces()] == expected
