"""Unpacked parcels equal what was packed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.spark.claims.by_flow import Flows
from kproxy.captures.spark.claims.packing import Columns, Parcels, unpack
from kproxy.captures.spark.claims.plain import Plain
from kproxy.captures.tcp.packets import Ints, Packets, numbered
from kproxy.captures.tcp.reassembly import Share

NUMBER = st.integers(0, 1 << 62) | st.integers(0, 3)
SEQUENCE = st.integers(0, (1 << 32) - 1)
KEYS = [b"ab", b"ba", b"cd"]
SEGMENT = st.tuples(st.sampled_from(KEYS), NUMBER, SEQUENCE, SEQUENCE, *[NUMBER] * 7)
"""A segment, with its position, reached and clock."""
CLAIM = st.tuples(NUMBER, NUMBER, SEQUENCE)


def columns(rows: list[tuple[Any, ...]], count: int) -> list[Ints]:
    return list(np.array(rows, np.int64).reshape(-1, count).T)


def rows(*columns: Iterable[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(each.tolist() if isinstance(each, np.ndarray) else each for each in columns), strict=True))


FLOW = st.tuples(
    st.lists(SEGMENT, min_size=1, max_size=8),
    st.lists(st.tuples(NUMBER, st.binary(max_size=9)), max_size=5),
    st.lists(CLAIM, max_size=5),
)  # fmt: skip


def starts(lists: Iterable[Collection[Any]]) -> Ints:
    return np.cumsum([0, *map(len, lists)])


def gathered(flows: list[Any]) -> Flows:
    """Flows numbered from 100, with a comment on each last segment."""
    keys: list[bytes] = []
    own, rest, comments = [], [], {}
    for segments, _, _ in flows:
        directions, which = numbered(key for key, *_ in segments)
        own.append(which + len(keys))
        keys += directions
        rest += [numbers for _, *numbers in segments]
        comments[len(rest) - 1] = "said"
    time, seq, ack, flags, at, length, stored, position, reached, clock = columns(rest, 10)
    packets = Packets(keys, np.concatenate(own), time, seq, ack, flags, at, length, stored, comments)
    share = Share(packets, np.arange(len(rest)), reached, clock, 0, 0)
    borders = starts({key for key, *_ in segments} for segments, _, _ in flows)
    return Flows([*range(100, 100 + len(flows))], starts(one[0] for one in flows), borders, share, position)


@given(st.lists(FLOW, min_size=1, max_size=4))
def test_what_was_packed(given: list[Any]) -> None:
    flows = gathered(given)
    sent = [(at, len(data)) for _, pieces, _ in given for at, data in pieces]
    made = Parcels(
        5, flows,
        Columns(columns(sent, 2), starts(one[1] for one in given)),
        b"".join(data for _, pieces, _ in given for _, data in pieces),
        Columns(columns([claim for _, _, claims in given for claim in claims], 3), starts(one[2] for one in given)),
        plain := {1: [Plain(0, 1, 1, 2, 3, "c:1", "b:2")]},
    )  # fmt: skip
    packed = list(made.packed())
    assert [number for number, _, _ in packed] == flows.numbers
    for i, ((segments, pieces, claims), (_, position, data)) in enumerate(zip(given, packed, strict=True)):
        found = unpack(data)
        packets = found.packets
        assert (found.portion, found.plain, position) == (5, plain.get(i, []), found.position[0])
        assert packets.comments == {len(segments) - 1: "said"}
        of_packets = (packets.time, packets.seq, packets.ack, packets.flags, packets.at, packets.length, packets.stored)
        assert rows(packets.keys, *of_packets, found.position, found.reached, found.clock) == segments
        assert rows(found.pieces_at, found.sizes) == [(at, len(data)) for at, data in pieces]
        assert bytes(found.pieces) == b"".join(data for _, data in pieces)
        assert rows(found.asked, found.places, found.checks) == claims
