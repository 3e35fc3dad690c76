"""Digests of the items of a partition, and of several partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.captures.spark.read.digest import Digest
from kproxy.captures.tables.schema import FLOWS, TABLES

FACT = ("topic", "aa", "orders")


def flow_row(gaps: int) -> tuple[Any, ...]:
    table = TABLES[FLOWS.name]
    return tuple(gaps if column.name == "gap_bytes" else None for column in table.given)


def test_items_of_all_partitions_are_counted() -> None:
    one, two = Digest(), Digest()
    for digest, kind, span, number, rows in (
        (one, "exchange", 1, None, None),
        (one, "exchange", 1, None, []),
        (one, "exchange", 2, 7, None),  # it was numbered before
        (two, "exchange", 1, None, None),
        (two, "flow", 1, None, [flow_row(5)]),
        (one, "silent", 0, None, [flow_row(6)]),
    ):
        digest.take(kind, span, number, rows)
    both = Digest.of([one.packed(), two.packed()])
    assert sorted(both.counted) == [("exchange", 1, 3), ("flow", 1, 1), ("silent", 0, 1)]
    assert both.lost == 11


@pytest.mark.parametrize("order", [1, -1])
def test_a_fact_counts_from_where_it_was_first_told(order: int) -> None:
    digests = [Digest(), Digest()]
    for digest, place in zip(digests, [(30, 1, 1), (10, 5, 2)][::order], strict=True):
        digest.learn([FACT], place, final=True)
        digest.learn([FACT], (5, 1, 1), final=False)
    both = Digest.of(one.packed() for one in digests)
    assert list(both.learned(final=True)) == [(*FACT, (10, 5, 2))]
    assert list(both.learned(final=False)) == [(*FACT, (5, 1, 1))]


def test_nothing_has_a_digest_as_well() -> None:
    whole = Digest.of([Digest().packed()])
    assert not list(whole.counted)
    assert not list(whole.learned(final=True))
    assert whole.lost == 0
