"""A split sends all bytes of its segments, except those of bodies that were not looked into."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.captures.spark.claims.claiming import kept
from kproxy.captures.spark.claims.compiled import Looked
from kproxy.captures.tcp.packets import Packets

SEGMENT = st.tuples(st.integers(0, 5), st.lists(st.integers(0, 6), max_size=6))
"""Bytes before a segment, and lengths of its parts: bytes always sent and bodies, alternating."""
LOOK = st.tuples(st.integers(0, 120), st.integers(1, 9))


class Nothing:
    def read(self, start: int, end: int) -> bytes:  # noqa: ARG002  # of a Source
        return b""


@example([(0, [2]), (0, [0, 3])], [(2, 3)])  # a look beyond the segment in which it begins
@given(st.lists(SEGMENT, max_size=8), st.lists(LOOK, max_size=6))
def test_it_is_all_but_what_may_stay(segments: list[tuple[int, list[int]]], looks: list[tuple[int, int]]) -> None:
    at, stored, bodies = [], [], []
    here = 0
    for before, parts in segments:
        here += before + 1
        at.append(here)
        stored.append(sum(parts))
        for index, size in enumerate(parts):
            if index % 2 and size:
                bodies.append((here, here + size))
            here += size
    looked = Looked(Nothing())
    for start, size in looks:
        looked.read(start, start + size)
    none, sizes = np.zeros(len(at), np.int64), np.array(stored, np.int64)
    packets = Packets([b""], none, none, none, none, none, np.array(at, np.int64), sizes, sizes)
    first, last = np.array(bodies, np.int64).reshape(-1, 2).T
    starts, ends = kept(packets, (first, last), looked)
    pieces = list(zip(starts.tolist(), ends.tolist(), strict=True))

    whole = [set(range(start, start + size)) for start, size in zip(at, stored, strict=True)]
    seen: set[int] = set()
    for start, size in looks:
        held = [one for one in whole if start in one]
        seen |= held[0] & set(range(start, start + size)) if held else set()
    stays = {each for start, end in bodies if not seen & set(range(start, end)) for each in range(start, end)}
    sent = [each for start, end in pieces for each in range(start, end)]
    assert sent == sorted(set().union(*whole) - stays)
    assert all(any(set(range(start, end)) <= one for one in whole) for start, end in pieces)
    assert all(end <= start for (_, end), (start, _) in pairwise(pieces))
