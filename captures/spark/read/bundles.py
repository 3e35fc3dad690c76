"""Packs the items of stage 2 into bundles, one row for many items, because each row costs Spark far more than an item.

A bundle holds items whose `range` (captures.spark.read.flows.ITEMS) is equal. Spark moves and sorts bundles by range;
stage 3 opens all bundles of a range together and sorts their items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kproxy.captures.spark.read.flows import FINAL, ITEMS, ROWS, SORTED, is_item

BUNDLE: Final = "bundle"
"""Kind of a row that holds items; rows of all other kinds (states, digests, events) are as in ITEMS."""
HELD: Final = 1 << 14
"""Number of items that a task holds before it makes bundles of them."""
HELD_BYTES: Final = 32 << 20
"""Number of bytes of items that a task holds before it makes bundles of them."""
_LEARNED: Final = pa.list_(
    pa.struct([
        ("fact", pa.string()), ("about", pa.string()), ("known", pa.string()),
        ("done", pa.int64()), ("born", pa.int64()), ("nth", pa.int64()), ("final", pa.bool_()),
    ])
)  # fmt: skip
_KEPT: Final = (
    "kind", "range", "started", "done", "born", "nth", "rank", "standing", "flow_id", "state", "ended", "event",
)  # fmt: skip
"""Columns of rows that are no items."""
BUNDLES: Final = pa.schema([*map(ITEMS.field, _KEPT), ("learned", _LEARNED), ("items", pa.binary())])
"""One row for each bundle, and one for each row of ITEMS that is no item.

`items` are the bundle's items: an Arrow record batch of ITEMS, without its schema. `learned` are the facts of these
items, each with the position from which it is known and whether its item is final. Both are null in other rows.
"""


def bundled(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of ITEMS as batches of BUNDLES."""
    held: list[Any] = []
    count = size = 0
    for batch in batches:
        chosen = is_item(batch)
        items = batch.filter(chosen)
        if len(items) < len(batch):
            yield _as_they_are(batch.filter(pc.invert(chosen)))
        held.append(items)
        count += len(items)
        size += items.nbytes
        if count >= HELD or size >= HELD_BYTES:
            yield _bundles(held)
            held, count, size = [], 0, 0
    if count:
        yield _bundles(held)


def unbundled(batches: Iterable[Any]) -> Iterator[Any]:
    """The items in batches of bundles, in the order SORTED, as batches of ITEMS with at most ROWS items.

    The bundles must be in the order of their ranges.
    """
    held: list[Any] = []
    at: int | None = None
    for batch in batches:
        for span, data in zip(batch.column("range").to_pylist(), batch.column("items"), strict=True):
            if span != at and held:
                yield from _in_order(held)
                held = []
            at = span
            held.append(pa.ipc.read_record_batch(data.as_buffer(), ITEMS))
    if held:
        yield from _in_order(held)


def _as_they_are(rows: Any) -> Any:
    """Rows of ITEMS that are no items, as a batch of BUNDLES."""
    others = [pa.nulls(len(rows), BUNDLES.field(name).type) for name in ("learned", "items")]
    return pa.record_batch([*map(rows.column, _KEPT), *others], schema=BUNDLES)


def _bundles(held: list[Any]) -> Any:
    """Items as a batch with one bundle for each range."""
    items = pa.Table.from_batches(held, ITEMS)
    items = items.take(pc.sort_indices(items.column("range"))).combine_chunks()
    (whole,) = items.to_batches()
    ranges = whole.column("range").to_numpy()
    starts = [0, *(np.flatnonzero(ranges[1:] != ranges[:-1]) + 1).tolist(), len(ranges)]
    parts = [whole.slice(start, end - start) for start, end in pairwise(starts)]
    given = {
        "kind": [BUNDLE] * len(parts),
        "range": ranges[starts[:-1]],
        "nth": [0] * len(parts),
        "rank": [0] * len(parts),
        "standing": [FINAL] * len(parts),
        "learned": [_learned(part) for part in parts],
        "items": [part.serialize().to_pybytes() for part in parts],
    }
    columns = [pa.array(given.get(field.name, [None] * len(parts)), field.type) for field in BUNDLES]
    return pa.record_batch(columns, schema=BUNDLES)


def _learned(items: Any) -> list[dict[str, Any]]:
    """The facts of a bundle's items, as the column `learned` of BUNDLES has them."""
    learned = items.column("learned")
    if not len(learned.flatten()):
        return []
    columns = (items.column(name).to_pylist() for name in ("learned", "done", "born", "nth", "standing"))
    return [
        fact | {"done": done, "born": born, "nth": nth, "final": standing == FINAL}
        for facts, done, born, nth, standing in zip(*columns, strict=True)
        for fact in facts or ()
    ]


def _in_order(held: list[Any]) -> Iterator[Any]:
    """All items of a range, in the order SORTED."""
    items = pa.Table.from_batches(held, ITEMS)
    order = pc.sort_indices(items, [(name, "ascending") for name in SORTED])
    yield from items.take(order).to_batches(max_chunksize=ROWS)
