"""The remembered segments, compared with a plain list of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kproxy.captures.tcp.recent import REMEMBERED, SLACK, Recent


class Segment(NamedTuple):
    start: int
    end: int
    at: int
    held: int


class Step(NamedTuple):
    """Contiguous segments, `gap` bytes behind the ones before; the last `cut` bytes of the first were not captured."""

    gap: int
    sizes: list[int]
    cut: int
    together: bool


steps = st.lists(
    st.builds(
        Step,
        gap=st.sampled_from([0, 0, 0, 5]),
        sizes=st.one_of(
            st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(200, 700).map(lambda count: [3] * count)
        ),
        cut=st.sampled_from([0, 0, 0, 1]),
        together=st.booleans(),
    ),
    max_size=8,
)


def kept(recent: Recent, found: list[Segment], steps: list[Step], position: int) -> int:
    """Add the segments of the steps to both, the first at stream offset `position`; returns the offset behind them."""
    for step in steps:
        position += step.gap
        made: list[Segment] = []
        for size in step.sizes:
            cut = 0 if made else step.cut
            made.append(Segment(position, position + size, 10_000 + 2 * position, position + size - cut))
            position += size
        found += made
        if step.together:
            ends, at, held = (np.array([getattr(one, name) for one in made]) for name in ("end", "at", "held"))
            recent.extend(made[0].start, ends, at, held if step.cut else None)
        else:
            for one in made:
                recent.add(*one)
        assert len(recent) <= REMEMBERED + SLACK
    return position


def overlapping(found: list[Segment], start: int, end: int) -> list[tuple[int, int, int]]:
    return [
        (max(one.start, start), min(one.held, end), one.at + max(one.start, start) - one.start)
        for one in found[-REMEMBERED:]
        if one.end > start and one.start < end
    ]


@given(steps=steps, places=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=5))
@example(steps=[Step(0, [4, 4], 0, together=True), Step(5, [4, 4], 0, together=True)], places=[(3, 15)])
@example(steps=[Step(0, [4, 4], 0, together=False), Step(5, [4, 4], 1, together=False)], places=[(3, 15)])
@example(steps=[Step(0, [4], 0, together=True), Step(0, [4, 4], 1, together=True)], places=[(0, 12)])
def test_they_are_those_of_a_plain_list(steps: list[Step], places: list[tuple[int, int]]) -> None:
    recent, found = Recent(), list[Segment]()
    last = kept(recent, found, steps, 0)
    assert list(recent.spans()) == [(one.at, one.held - one.start) for one in found[len(found) - len(recent) :]]
    assert len(recent) >= min(len(found), REMEMBERED)
    for place in places:
        start, end = sorted(offset % (last + 3) for offset in place)
        assert list(recent.overlapping(start, end)) == overlapping(found, start, end)
    for count in (REMEMBERED // 2, 1, 0):
        recent.keep(count)
        assert len(recent) == min(len(found), count)
        assert list(recent.overlapping(0, last)) == overlapping(found[len(found) - len(recent) :], 0, last)


@given(steps=steps)
def test_a_gap_takes_memory_only_while_it_is_remembered(steps: list[Step]) -> None:
    recent, found = Recent(), list[Segment]()
    last = kept(recent, found, steps, 0)
    whole = Step(0, [1] * (REMEMBERED + SLACK + 1), 0, together=False)
    kept(recent, found, [whole], last)
    assert not recent.starts
    assert not recent.held
