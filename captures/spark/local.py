"""The three stages in one process, with what a shuffle does between them done in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from captures.ports import Ports
from captures.spark import reading
from captures.spark.carry import NUMBERED_AS, Carry
from captures.spark.carrying import carried, state_rows
from captures.spark.closing import CLOSED, Closer, Facts, Numbers, told
from captures.spark.flows import FINAL, ITEMS, MADE, SORTED, Options, items
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
    closed = _closed(made, options, Carry())
    return _tables(closed, options) | _captures(order, options)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch of a stream comes to: rows for good, rows that stand until the next batch, and what is carried."""

    final: dict[str, Any]
    open: dict[str, Any]
    carry: Carry
    states: dict[int, bytes]


def batch(segments: Iterable[Any], order: Order, options: Options, carry: Carry, states: Mapping[int, bytes]) -> Batch:
    """A batch of a stream: its segments, their order, and what the batch before it left."""
    order = carry.order(order)
    given = shuffled([*segments, state_rows(states)], reading.SEGMENTS, ("flow_id", "position"))
    made = list(carried(given, options, order, carry.numbers))
    left = {
        number: state
        for each in made
        for number, state in zip(each.column("flow_id").to_pylist(), each.column("state").to_pylist(), strict=True)
        if state is not None
    }
    rows = shuffled((each.filter(pc.is_null(each.column("state"))) for each in made), ITEMS, SORTED)
    closed = _closed(rows, options, carry)
    final = pc.equal(closed.column("standing"), FINAL)
    told_for_good = (one for each in rows for one in told(each.filter(pc.equal(each.column("standing"), FINAL))))
    return Batch(
        _tables(closed.filter(final), options),
        _tables(closed.filter(pc.invert(final)), options) | _captures(order, options),
        carry.after(order, told_for_good, closed.select(NUMBERED_AS).to_pylist()),
        left,
    )


def _closed(made: Sequence[Any], options: Options, carry: Carry) -> Any:
    """Items with all their rows."""
    facts = Facts([*carry.told, *(one for batch in made for one in told(batch))])
    columns = ("kind", "range", "number")
    counts = (
        (kind, span, 1)
        for batch in made
        for kind, span, number in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        if number is None
    )
    return pa.Table.from_batches(Closer(options, facts, Numbers.of(counts, carry.counts)).close(made), CLOSED)


def _tables(closed: Any, options: Options) -> dict[str, Any]:
    return {name: unfolded(closed.column(name), name) for name in MADE if name in options.tables}


def _captures(order: Order, options: Options) -> dict[str, Any]:
    if CAPTURES.name not in options.tables:
        return {}
    return {CAPTURES.name: pa.Table.from_batches([arrow.batch(CAPTURES, list(order.captures()))])}


def ordered(planned: Plan, size: int, ports: Ports | None = None) -> tuple[list[Any], Order]:
    """The segments of a plan, which is mended where its splits say that it must be."""
    while True:
        segments = [batch for split in planned.splits for batch in reading.read(split, ports)]
        order = Order.of(planned, [one for batch in segments for one in reading.summaries(batch)])
        mended = order.mended(planned)
        if mended is None:
            return segments, order
        planned = of_groups(mended[0], size, mended[1], planned.before)


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
