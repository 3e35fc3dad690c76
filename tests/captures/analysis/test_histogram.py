from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.captures.analysis.histogram import RELATIVE_ERROR, Histogram, bucket_of, middle_of

VALUES = st.lists(
    st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 300), st.integers(10**6, 10**8)), min_size=1, max_size=60
)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(VALUES, st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
@settings(max_examples=75, deadline=None)
def test_a_percentile_is_near_the_exact_one(values: list[int], share: float) -> None:
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    found = filled(values).percentile(share)
    assert found is not None
    assert abs(found - exact) <= exact * RELATIVE_ERROR + 1
    if exact < 128:
        assert found == exact


@given(VALUES, VALUES)
@settings(max_examples=25, deadline=None)
def test_merging_is_counting_both(one: list[int], other: list[int]) -> None:
    merged, together = filled(one), filled(one + other)
    merged.merge(filled(other))
    shares = [0.0, 0.5, 0.99, 1.0]
    assert [merged.percentile(share) for share in shares] == [together.percentile(share) for share in shares]
    assert (merged.count, merged.total) == (together.count, together.total)


def test_nothing_counted() -> None:
    empty = Histogram()
    assert empty.percentile(0.5) is None
    empty.merge(Histogram())
    assert empty.count == 0


@pytest.mark.parametrize("value", [-5, 0, 2**63, 2**80])
def test_values_out_of_range_are_counted_at_the_ends(value: int) -> None:
    assert filled([value]).percentile(0.5) == value


def test_the_error_is_below_two_percent() -> None:
    assert RELATIVE_ERROR < 0.02


@pytest.mark.parametrize(
    ("value", "bucket", "middle"),
    [
        (-1, 0, 0), (0, 0, 0), (1, 1, 1), (127, 127, 127),  # each of its own
        (128, 128, 129), (129, 128, 129), (130, 129, 131), (255, 191, 255), (256, 192, 258), (259, 192, 258),
        (260, 193, 262), (1 << 20, 960, (1 << 20) + (1 << 13)),
        ((1 << 63) - 1, 3711, (1 << 63) - (1 << 55)), (1 << 80, 3711, (1 << 63) - (1 << 55)),
    ],
)  # fmt: skip
def test_buckets(value: int, bucket: int, middle: int) -> None:
    """64 to an octave: [128, 256) by twos, [256, 512) by fours."""
    assert bucket_of(value) == bucket
    assert middle_of(bucket) == middle


def test_percentiles_lie_between_the_extremes() -> None:
    histogram = filled([1000, 1001, 5000])
    assert [histogram.percentile(share) for share in (0, 0.3, 0.5, 0.67, 1)] == [1004, 1004, 1004, 5000, 5000]
    assert filled([1007, 1007]).percentile(0.5) == 1007
    assert filled([1001, 1001]).percentile(0.1) == 1001
    assert (histogram.count, histogram.total, histogram.smallest, histogram.largest) == (3, 7001, 1000, 5000)


def test_merging_takes_the_extremes_of_both() -> None:
    low, high = filled([1, 5]), filled([3, 9])
    low.merge(high)
    assert (low.smallest, low.largest, low.count, low.total) == (1, 9, 4, 18)
    empty = Histogram()
    empty.merge(high)
    assert (empty.smallest, empty.largest, empty.percentile(0.5)) == (3, 9, 3)
