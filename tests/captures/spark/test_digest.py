"""Digests of the items of a partition, and of several partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kproxy.captures.spark.claims.digest import DIGEST, UNPROVEN, VERDICT, Digest, digested, of_states, verdicts_in
from kproxy.captures.spark.read.flows import ITEMS
from kproxy.captures.tables.schema import FLOWS, TABLES

FACT = ("topic", "aa", "orders")


def item(
    flow: int, kind: str, started: int | None = None, rows: Sequence[Any] | None = None, **given: Any
) -> tuple[Any, ...]:
    """An item with rows of the table flows."""
    held = {"kind": kind, "range": (started or 0) >> 26, "started": started, "flow_id": flow, "learned": ()}
    held |= {FLOWS.name: rows} | given
    return tuple(held.get(name) for name in ITEMS.names)


def verdict(flow: int, portion: int, what: str) -> tuple[Any, ...]:
    return item(flow, VERDICT, range=portion, state=what)


def flow_row(gaps: int) -> tuple[Any, ...]:
    table = TABLES[FLOWS.name]
    return tuple(gaps if column.name == "gap_bytes" else None for column in table.given)


def digest(*items: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], Digest]:
    """The items that are passed on, and the digest after them."""
    *others, last = digested(items)
    found = dict(zip(ITEMS.names, last, strict=True))
    assert found["kind"] == DIGEST
    return others, of_states([found["state"]])


def test_what_items_come_to() -> None:
    learned: dict[str, Any] = {"learned": [FACT], "done": 90, "born": 1}
    given = [
        item(7, "exchange", 80, nth=2, **learned),
        item(7, "begun", 40),
        item(7, "problem"),
        item(7, "flow", 40, rows=[flow_row(5)]),
        item(9, "exchange", 1 << 26, nth=1, **learned),
        item(9, "silent", rows=[flow_row(6)]),
    ]
    others, found = digest(*given)
    assert others == given
    assert found.others.tolist() == [40, 80, 1 << 26]
    assert list(found.learned_facts) == [(*FACT, (90, 1, 1))]
    assert {("exchange", 0, 1), ("exchange", 1, 1), ("begun", 0, 1), ("flow", 0, 1)} < set(found.counted)
    assert found.lost == 11
    assert not found.unproven
    assert not found.verdicts


def test_an_unproven_flow_has_no_part_in_it() -> None:
    before = item(7, "exchange", 80, nth=1, learned=[FACT], done=90, born=1)
    other = item(9, "exchange", 20)
    others, found = digest(before, item(7, UNPROVEN), other)
    assert others == [before, other]
    assert found.unproven == {7}
    assert found.others.tolist() == [20]
    assert not list(found.learned_facts)
    assert list(found.counted) == [("exchange", 0, 1)]


def test_verdicts_of_a_portion_come_from_several_partitions() -> None:
    others, one = digest(verdict(7, 1, "a"), verdict(7, 2, "b"), verdict(9, 1, "c"))
    _, two = digest(verdict(8, 1, "d"))
    assert others == []
    one.join(two)
    assert {portion: verdicts_in(packed) for portion, packed in one.verdicts.items()} == {
        1: {7: "a", 9: "c", 8: "d"},
        2: {7: "b"},
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_fact_counts_from_where_it_was_first_told(order: int) -> None:
    places = [(30, 1, 1), (10, 5, 2)][::order]
    digests = [
        digest(item(flow, "exchange", 0, learned=[FACT], done=done, born=born, nth=nth))[1]
        for flow, (done, born, nth) in enumerate(places)
    ]
    digests[0].join(digests[1])
    assert list(digests[0].learned_facts) == [(*FACT, (10, 5, 2))]


def test_nothing_has_a_digest_as_well() -> None:
    others, found = digest()
    assert others == []
    assert not len(found.others)
