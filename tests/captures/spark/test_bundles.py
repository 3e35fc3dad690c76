"""Bundles hold every item of stage 2, and give them back in the order in which they are numbered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from bench.summary import BASE
from kproxy.captures.spark import local
from kproxy.captures.spark.follow.flow_states import STATE_KIND, carried
from kproxy.captures.spark.plan.splits import plan
from kproxy.captures.spark.read import bundles
from kproxy.captures.spark.read.bundles import BUNDLE, BUNDLES, bundled, unbundled
from kproxy.captures.spark.read.digest import DIGEST
from kproxy.captures.spark.read.facts import learned_facts
from kproxy.captures.spark.read.flows import FINAL, GRANULE, ITEMS, ROWS, Options
from kproxy.captures.spark.read.packing import PARCELS
from kproxy.captures.tables.schema import FINDINGS, USUAL
from tests.support.multiply import multiply

OPTIONS = Options((*USUAL, FINDINGS.name))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Batches of ITEMS, among them digests, events, states of flows, and items that exist only if the capture ends."""
    capture = tmp_path_factory.mktemp("bundles") / "capture.pcap"
    multiply(BASE, 2, capture)
    sent, _, order = local.ordered(plan([capture]), 1 << 20, payload=True)
    found = list(carried(local.shuffled(sent, PARCELS, local.BY_FLOW), OPTIONS, order, {}))
    kinds = set(chain.from_iterable(batch.column("kind").to_pylist() for batch in found))
    assert {"exchange", "flow", STATE_KIND, DIGEST} < kinds
    return found


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def place(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("kind", "started", "done", "born", "nth", "rank", "flow_id"))


def is_item(row: dict[str, Any]) -> bool:
    return row["state"] is None and row["event"] is None


def by_range(batches: Iterator[Any]) -> Iterator[Any]:
    """The bundles as Spark sorts them: by range and nothing else, those that were made last first."""
    whole = pa.Table.from_batches(batches, BUNDLES)
    whole = whole.take(list(reversed(range(len(whole)))))
    some = whole.filter(pa.compute.equal(whole.column("kind"), BUNDLE)).select(["range", "items"])
    yield from some.take(pa.compute.sort_indices(some.column("range"))).to_batches(max_chunksize=3)


@pytest.mark.parametrize("held", [1, 100, bundles.HELD])
def test_all_items_come_back_in_order(held: int, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "HELD", held)
    found = list(unbundled(by_range(bundled(made))))
    assert all(len(batch) <= ROWS and batch.schema == ITEMS for batch in found)
    items = [row for row in rows(made) if is_item(row)]
    assert len({row["range"] for row in items}) > 2
    back = rows(found)
    assert sorted(back, key=place) == sorted(items, key=place)
    counted = [(row["range"], row["started"], row["born"], row["rank"]) for row in back if row["started"] is not None]
    assert counted == sorted(counted)


@pytest.mark.parametrize("held", [1, bundles.HELD])
def test_there_are_few_rows(held: int, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "HELD", held)
    found = [row for row in rows(bundled(made)) if row["kind"] == BUNDLE]
    ranges = {row["range"] for batch in made for row in batch.to_pylist() if is_item(row)}
    assert {row["range"] for row in found} == ranges
    assert len(found) == len(ranges) if held > 1 else len(found) > len(ranges)


def test_what_is_no_item_is_left_as_it_was(made: list[Any]) -> None:
    kept = [row for row in rows(bundled(made)) if row["kind"] != BUNDLE]
    assert [{name: row[name] for name in row if name not in {"learned", "items"}} for row in kept] == [
        {name: row[name] for name in BUNDLES.names if name in row and name not in {"learned", "items"}}
        for row in rows(made)
        if not is_item(row)
    ]
    assert {row["items"] for row in kept} == {None}


def test_facts_are_seen_without_opening_a_bundle(made: list[Any]) -> None:
    items = [batch.filter(pa.compute.is_null(batch.column("state"))) for batch in made]
    for final in (True, False):
        those = (
            each.filter(pa.compute.equal(pa.compute.equal(each.column("standing"), FINAL), final)) for each in items
        )
        expected = sorted(fact for each in those for fact in learned_facts(each))
        assert expected or not final
        found = [one for row in rows(bundled(made)) for one in row["learned"] or () if one["final"] == final]
        assert expected == sorted(
            (one["fact"], one["about"], one["known"], (one["done"], one["born"], one["nth"])) for one in found
        )


def test_a_range_is_a_stretch_of_the_capture(made: list[Any]) -> None:
    for row in rows(made):
        if is_item(row) and row["started"] is not None:
            assert row["range"] == row["started"] >> GRANULE
