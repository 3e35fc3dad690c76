"""The three stages in one process, with what a shuffle does between them done in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.ports import Ports
from captures.spark import reading
from captures.spark.closing import CLOSED, Closer, Facts, Numbers, told
from captures.spark.flows import ITEMS, MADE, SORTED, Options, items
from captures.spark.order import Order
from captures.spark.planning import SPLIT_SIZE, Plan, of_groups, plan
from captures.tables import arrow
from captures.tables.schema import CAPTURES, TABLES


def tables(
    paths: Sequence[Path | str], options: Options, *, size: int = SPLIT_SIZE, ports: Ports | None = None
) -> dict[str, Any]:
    """The tables of some captures as pyarrow tables."""
    return finished(*ordered(plan(paths, size), size, ports), options)


def finished(segments: Iterable[Any], order: Order, options: Options) -> dict[str, Any]:
    """The tables of all segments of a reading as pyarrow tables."""
    made = shuffled(items(shuffled(segments, reading.SEGMENTS, ("flow_id", "position")), options, order), ITEMS, SORTED)
    facts = Facts(one for batch in made for one in told(batch))
    counts = (
        (kind, span, 1)
        for batch in made
        for kind, span in zip(batch.column("kind").to_pylist(), batch.column("range").to_pylist(), strict=True)
    )
    closed = pa.Table.from_batches(Closer(options, facts, Numbers.of(counts)).close(made), CLOSED)
    found = {name: unfolded(closed.column(name), name) for name in MADE if name in options.tables}
    if CAPTURES.name in options.tables:
        found[CAPTURES.name] = pa.Table.from_batches([arrow.batch(CAPTURES, list(order.captures()))])
    return found


def ordered(planned: Plan, size: int, ports: Ports | None = None) -> tuple[list[Any], Order]:
    """The segments of a plan, which is mended where its splits say that it must be."""
    while True:
        segments = [batch for split in planned.splits for batch in reading.read(split, ports)]
        order = Order.of(planned, [one for batch in segments for one in reading.summaries(batch)])
        mended = order.mended(planned)
        if mended is None:
            return segments, order
        planned = of_groups(mended[0], size, mended[1])


def shuffled(batches: Iterable[Any], schema: Any, by: Sequence[str]) -> list[Any]:
    """Batches sorted by some columns, nulls last."""
    table = pa.Table.from_batches(batches, schema)
    keys = [(name, "ascending") for name in by]
    return list(table.take(pa.compute.sort_indices(table, keys)).to_batches())


def unfolded(column: Any, name: str) -> Any:
    """The rows of a table, from lists of them."""
    rows: Iterator[Any] = (chunk.flatten() for chunk in column.chunks)
    schema = arrow.schema(TABLES[name])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in rows], schema)
