"""Items are divided among the tasks of stage 3 by their number, whatever connections they are of."""

from __future__ import annotations

from collections import Counter

import pytest

from kproxy.captures.spark.job import evenly
from kproxy.captures.spark.read.digest import Digest


def parts(counts: dict[int, int], most: int) -> list[int]:
    """The number of items in each part."""
    digest = Digest(counts=Counter({("exchange", span): count for span, count in counts.items()}))
    borders = evenly(digest, most)
    assert borders == sorted(set(borders))
    found = Counter(sum(span >= border for border in borders) for span in counts for _ in range(counts[span]))
    return [found[part] for part in range(len(borders) + 1)]


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        (dict.fromkeys(range(12), 10), 4, [30, 30, 30, 30]),
        (dict.fromkeys(range(12), 10), 1, [120]),
        ({7: 1000}, 4, [1000]),
        ({1: 1000, 5: 10, 9: 10}, 3, [1000, 10, 10]),
        ({}, 3, [0]),
    ],
)
def test_parts_are_as_even_as_ranges_allow(counts: dict[int, int], most: int, expected: list[int]) -> None:
    assert parts(counts, most) == expected
