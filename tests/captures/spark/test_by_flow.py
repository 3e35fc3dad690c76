"""Interleaved segments of flows are grouped by flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kproxy.captures.spark.read.by_flow import ByFlow
from kproxy.captures.spark.read.reading import Segments
from kproxy.captures.tcp.packets import Packets, numbered

FLOW = {b"ab": 7, b"ba": 7, b"cd": -3, b"dc": -3, b"ef": 9}
"""flow_id by direction."""


def segments(keys: list[bytes], first: int, unused: bytes) -> Segments:
    """Segments of the directions `keys`, whose columns all count up from `first`; the first has a comment."""
    directions, direction = numbered([*keys, unused])
    count = np.arange(first, first + len(keys))
    packets = Packets(directions, direction[:-1], count, count, count, count, count, count, count, {0: f"at {first}"})
    flows = np.array([FLOW[key] for key in directions])
    return Segments(packets, flows, count, count, count, packets.at, memoryview(b""), 0, stays=True)


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(sorted(FLOW)), min_size=1, max_size=9), st.sampled_from(sorted(FLOW))),
        min_size=1, max_size=4,
    ),
    st.integers(1, 12),
)  # fmt: skip
def test_flow_after_flow(batches: list[tuple[list[bytes], bytes]], most: int) -> None:
    held = ByFlow()
    keys: list[bytes] = []
    starts = []
    for some, unused in batches:
        starts.append(len(keys))
        held.add(segments(some, len(keys), unused))
        keys += some
    expected: dict[int, list[tuple[Any, ...]]] = {}
    for i, key in enumerate(keys):
        text = f"at {i}" if i in starts else None
        expected.setdefault(FLOW[key], []).append((i, key, text))
    found: dict[int, list[tuple[Any, ...]]] = {}
    for flows in held.groups(most):
        packets = flows.share.packets
        assert len(packets) <= most or len(flows.numbers) == 1
        assert set(packets.direction.tolist()) == set(range(len(packets.directions)))
        for i, number in enumerate(flows.numbers):
            here = range(*flows.starts[i : i + 2].tolist())
            of_flow = packets.directions[slice(*flows.directions[i : i + 2].tolist())]
            assert {packets.keys[one] for one in here} == set(of_flow)
            assert [flows.whose[one] for one in here] == [i] * len(here)
            texts = flows.comments.get(i, {})
            found[number] = [
                (flows.position[one], packets.keys[one], texts.get(place)) for place, one in enumerate(here)
            ]
    assert found == expected
    assert list(found) == sorted(expected)
    assert len(held) == len(keys)
